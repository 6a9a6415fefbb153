//! Saying hello and goodbye: HELLO, AUTH, PING, ECHO, SELECT, RESET, QUIT.

use quorlock_engine::channels::Subscription;
use quorlock_engine::{ErrorReply, Protocol, Reply, database_index};

use crate::acl::{DEFAULT, DenialContext, Denied};
use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};
use crate::session::upstream::ONE_DATABASE;

pub(crate) fn hello(session: &mut Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    let outcome = greet(session, batch, &arguments[1..]);
    Ok(answer(session, outcome))
}

/// The last answer, where somebody guesses passwords.
fn answer(session: &Session, outcome: Result<Reply, ErrorReply>) -> Answer {
    match outcome {
        Ok(reply) => Answer::Reply(reply),
        Err(error) if session.failed_logins >= FAILED_LOGINS_MAX => {
            Answer::Last(Reply::Error(error))
        }
        Err(error) => Answer::Reply(Reply::Error(error)),
    }
}

fn greet(
    session: &mut Session,
    batch: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Result<Reply, ErrorReply> {
    let mut protocol = session.caller.protocol;
    let mut name = None;
    let mut rest = arguments;
    if let [version, others @ ..] = arguments {
        protocol = match *version {
            b"2" => Protocol::Resp2,
            b"3" => Protocol::Resp3,
            other if is_number(other) => return Err(NOPROTO),
            _ => return Err(NOT_A_VERSION),
        };
        rest = others;
    }
    loop {
        rest = match rest {
            [] => break,
            [word, user, password, others @ ..] if word.eq_ignore_ascii_case(b"auth") => {
                log_in(session, batch, (b"HELLO", user, password))?;
                others
            }
            [word, given, others @ ..] if word.eq_ignore_ascii_case(b"setname") => {
                name = Some(valid_name(given)?);
                others
            }
            [word, ..] => {
                // A client without the password must not make replies long.
                let word = &word[..word.len().min(OPTION_BYTES_SHOWN)];
                let word = String::from_utf8_lossy(word).into_owned();
                return Err(ErrorReply::new(format!(
                    "ERR Syntax error in HELLO option '{word}'"
                )));
            }
        };
    }
    if !session.is_authenticated {
        return Err(HELLO_NOAUTH);
    }
    session.speak(protocol);
    if session.has_waited && protocol == Protocol::Resp2 {
        // It could not be told of its turn. A poisoned lock is reported by the commands.
        if let Ok((executor, _)) = batch.executor() {
            executor.engine.leave_lock_queues(session.client.id);
        }
    }
    if let Some(name) = name {
        session.client.introduction().name = name;
    }
    Ok(introduction(session))
}

fn introduction(session: &Session) -> Reply {
    let number = if session.caller.protocol == Protocol::Resp3 {
        3
    } else {
        2
    };
    let id = i64::try_from(session.client.id).expect("clients are counted from 1");
    Reply::Map(vec![
        (Reply::bulk("server"), Reply::bulk("quorlock")),
        (
            Reply::bulk("version"),
            Reply::bulk(quorlock_engine::REDIS_VERSION),
        ),
        (Reply::bulk("proto"), Reply::Integer(number)),
        (Reply::bulk("id"), Reply::Integer(id)),
        (Reply::bulk("mode"), Reply::bulk("standalone")),
        (Reply::bulk("role"), Reply::bulk("master")),
        (Reply::bulk("modules"), Reply::Array(Vec::new())),
    ])
}

pub(crate) fn auth(session: &mut Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    let outcome = match arguments {
        [_, _] if batch.node.access.users().default_user().needs_no_password() => {
            Err(NO_PASSWORD_SET)
        }
        [_, password] => log_in(session, batch, (arguments[0], DEFAULT, password)),
        [word, user, password] => log_in(session, batch, (word, user, password)),
        _ => Err(ErrorReply::SYNTAX),
    };
    Ok(answer(session, outcome.map(|()| Reply::Ok)))
}

fn log_in(
    session: &mut Session,
    batch: &mut Batch<'_>,
    (word, user, password): (&[u8], &[u8], &[u8]),
) -> Result<(), ErrorReply> {
    let node = batch.node;
    let users = node.access.users();
    // A name that is no user's takes as long.
    let named = users.named(user);
    let is_right = named.unwrap_or(users.default_user()).accepts(password);
    if let Some(user) = named.filter(|_| is_right) {
        // Within the lock: a user is deleted before this, or its connections are looked for after it.
        session.become_user(user, node.access.version());
        drop(users);
        session.authenticate(node);
        return Ok(());
    }
    let has_others = users.all().nth(1).is_some();
    drop(users);
    if has_others || !node.access.is_open() {
        note_failed_login(session, batch);
    }
    note_denied_login(session, batch, user, word);
    Err(WRONGPASS)
}

/// Notes it in ACL LOG. `word`: the command, as it was sent.
fn note_denied_login(session: &Session, batch: &mut Batch<'_>, user: &[u8], word: &[u8]) {
    let context = match session.transaction {
        Some(_) => DenialContext::Multi,
        None => DenialContext::TopLevel,
    };
    let denied = Denied {
        reason: "auth",
        context,
        object: word.to_vec(),
        user: user.to_vec(),
    };
    // A node that has failed reports it by its other replies.
    let _ = batch.note_denied(session, denied);
}

/// Nothing that the client has sent is written: it may be the right password with a letter too many.
fn note_failed_login(session: &mut Session, batch: &mut Batch<'_>) {
    session.failed_logins += 1;
    let (node, now_raw) = (batch.node, batch.raw());
    let mut lines = node
        .statistics
        .failed_login_lines
        .lock()
        .expect("none of its holders can panic");
    let admitted = lines.admit(now_raw, FAILED_LOGIN_LINES_PER_SECOND);
    drop(lines);
    let Some(left_out) = admitted else {
        return;
    };
    let (id, address, count) = (
        session.client.id,
        &session.client.address,
        session.failed_logins,
    );
    let mut text = format!(
        "AUTH failed: client id={id} addr={address} gave a wrong password or user, failure {count} in a row; after \
         {FAILED_LOGINS_MAX} its connection ends"
    );
    if left_out > 0 {
        text.push_str(&format!(
            "; {left_out} more AUTHs failed before, of this client or others"
        ));
    }
    batch.warn(text);
}

pub(crate) fn ping(session: &mut Session, _: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    if let ([_] | [_, _], Protocol::Resp2, true) =
        (arguments, session.caller.protocol, session.is_listening())
    {
        let text = arguments.get(1).copied().unwrap_or_default();
        let pong = vec![Reply::bulk("pong"), Reply::bulk(text)];
        return Ok(Answer::Reply(Reply::Array(pong)));
    }
    match arguments {
        [_] => Ok(Answer::Reply(Reply::status("PONG"))),
        [_, text] => Ok(Answer::Reply(Reply::bulk(text))),
        _ => Err(ErrorReply::wrong_arity("ping").into()),
    }
}

pub(crate) fn echo(_: &mut Session, _: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    Ok(Answer::Reply(Reply::bulk(arguments[1])))
}

pub(crate) fn select(
    session: &mut Session,
    batch: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Answered {
    match database_index(arguments[1], batch.node.config.databases)? {
        1.. if batch.has_upstream() => return Err(ONE_DATABASE.into()),
        database => session.select(database),
    }
    Ok(Answer::Reply(Reply::Ok))
}

pub(crate) fn reset(session: &mut Session, batch: &mut Batch<'_>, _: &[&[u8]]) -> Answered {
    let (executor, _) = batch.executor()?;
    session.end_transaction(executor);
    let [channels, patterns] =
        [Subscription::Channel, Subscription::Pattern].map(|to| session.heard_names(executor, to));
    session.stop_listening(executor);
    session.stop_tracking(executor);
    executor.engine.leave_lock_queues(session.client.id);
    session.stop_watching(batch.node);
    session.reset(batch.node, batch.raw());
    batch.unlisten_upstream(session, Subscription::Channel, channels);
    batch.unlisten_upstream(session, Subscription::Pattern, patterns);
    Ok(Answer::Reply(Reply::status("RESET")))
}

pub(crate) fn quit(_: &mut Session, _: &mut Batch<'_>, _: &[&[u8]]) -> Answered {
    Ok(Answer::Last(Reply::Ok))
}

/// A client or library name: printable, without spaces, as Redis requires.
pub(crate) fn valid_name(name: &[u8]) -> Result<String, ErrorReply> {
    if name.len() <= NAME_BYTES_MAX && name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(String::from_utf8_lossy(name).into_owned());
    }
    Err(ErrorReply::fixed(
        "ERR Client names cannot contain spaces, newlines or special characters.",
    ))
}

fn is_number(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

/// A client whose configuration is wrong needs one; each further connection costs a guesser more.
const FAILED_LOGINS_MAX: u32 = 10;
const FAILED_LOGIN_LINES_PER_SECOND: u32 = 1;
const NAME_BYTES_MAX: usize = 1024;
const OPTION_BYTES_SHOWN: usize = 128;

const NOPROTO: ErrorReply = ErrorReply::fixed("NOPROTO unsupported protocol version");
const NOT_A_VERSION: ErrorReply =
    ErrorReply::fixed("ERR Protocol version is not an integer or out of range");
const WRONGPASS: ErrorReply =
    ErrorReply::fixed("WRONGPASS invalid username-password pair or user is disabled.");
const NO_PASSWORD_SET: ErrorReply = ErrorReply::fixed(
    "ERR AUTH <password> called without any password configured for the default user. Are you \
     sure your configuration is correct?",
);
const HELLO_NOAUTH: ErrorReply = ErrorReply::fixed(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
     <proto> AUTH <user> <pass> option can be used to authenticate the client and select the \
     RESP protocol version at the same time",
);
