//! ACL: the users of this node, looked at and changed while it runs.
//!
//! A change holds for all requests that are looked at once its reply is sent. Connections of a user that was deleted are
//! closed before the reply, and so are those that listen to what their user may listen to no more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorlock_engine::channels::Subscription;
use quorlock_engine::{Categories, ErrorReply, Reply, ReplyTooLarge, all_specs, parse_integer};

use crate::acl::{AclLogEntry, DEFAULT, Denial, Selector, User, Users, line_of};
use crate::core::clients::Client;
use crate::core::commit::Failure;
use crate::session::Session;
use crate::session::answered::{Answered, Unanswered};
use crate::session::batch::{Answer, Batch};
use crate::session::client_kill::close;
use crate::session::named_request::{NamedRequest, try_help};

pub(crate) fn acl(session: &mut Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    NamedRequest::of(arguments).check()?;
    let node = batch.node;
    let subcommand = arguments[1].to_ascii_lowercase();
    let reply = match (subcommand.as_slice(), &arguments[2..]) {
        (b"setuser", [name, rules @ ..]) => {
            return change(session, batch, |users| {
                users.set(name, rules).map_err(refused)
            });
        }
        (b"deluser", names) => return delete(session, batch, names),
        (b"getuser", [name]) => node.access.users().named(name).map_or(Reply::Nil, details),
        (b"list", []) => listed(batch, |user| Reply::bulk(line_of(user)))?,
        (b"users", []) => listed(batch, |user| Reply::bulk(&*user.name))?,
        (b"whoami", []) => Reply::bulk(&*session.rights.user().name),
        (b"cat", []) => Reply::Array(Categories::names().map(Reply::bulk).collect()),
        (b"cat", [category]) => of_category(category)?,
        (b"dryrun", [name, request @ ..]) => dry_run(batch, name, request)?,
        (b"genpass", bits @ ([] | [_])) => generated(batch, bits)?,
        (b"log", count @ ([] | [_])) => log(batch, count)?,
        (b"load", []) => return load(session, batch),
        (b"save", []) => save(batch)?,
        (b"help", []) => Reply::help("ACL", HELP),
        // CAT, GENPASS and LOG with too many arguments.
        _ => return Err(try_help("ACL", arguments[1]).into()),
    };
    Ok(Answer::Reply(reply))
}

fn refused(why: Vec<u8>) -> ErrorReply {
    ErrorReply::new([b"ERR ", &*why].concat())
}

/// Changes users, and closes the connections that may not stay.
pub(super) fn change(
    session: &Session,
    batch: &mut Batch<'_>,
    change: impl FnOnce(&mut Users) -> Result<(), ErrorReply>,
) -> Answered {
    change_users(batch, change)??;
    if batch.is_in_transaction() {
        // It may be taken back.
        return Ok(Answer::Reply(Reply::Ok));
    }
    Ok(close_those_who_may_not_stay(session, batch)?)
}

/// Changes users under the engine's lock, or nothing where that fails.
pub(super) fn change_users<E>(
    batch: &mut Batch<'_>,
    change: impl FnOnce(&mut Users) -> Result<(), E>,
) -> Result<Result<(), E>, Failure> {
    batch.executor()?;
    let changes = &mut batch.changes;
    Ok(batch.node.access.change(|users| {
        let before = changes.as_ref().map(|_| users.clone());
        change(users)?;
        if let (Some(changes), Some(before)) = (changes, before) {
            changes.note_users(before);
        }
        Ok(())
    }))
}

/// Closes the connections that their users have lost by a change. The caller's own is left to it, by its last answer.
pub(super) fn close_those_who_may_not_stay(
    session: &Session,
    batch: &mut Batch<'_>,
) -> Result<Answer, Failure> {
    let may_not_stay = clients_that_may_not_stay(batch)?;
    // What the same transaction has published behind the change is not for them, as in Redis.
    let caller = session.client.id;
    let others = may_not_stay.iter().map(|client| client.id);
    let others: BTreeSet<u64> = others.filter(|id| *id != caller).collect();
    if !others.is_empty() {
        let (executor, _) = batch.executor()?;
        executor.withhold_from(&others);
    }
    let is_caller_closed = close(session, batch, may_not_stay)?.is_caller_closed;
    Ok(match is_caller_closed {
        true => Answer::Last(Reply::Ok),
        false => Answer::Reply(Reply::Ok),
    })
}

/// Those whose user is gone, and those that listen to what their user may listen to no more, or wait with an upstream for what
/// it may not have any more. Others leave the lines for locks that it may not take any more.
fn clients_that_may_not_stay(batch: &mut Batch<'_>) -> Result<Vec<Arc<Client>>, Failure> {
    let node = batch.node;
    let (executor, _) = batch.executor()?;
    let mut clients = node.clients.all();
    let users = node.access.users();
    clients.retain(|client| {
        let introduction = client.introduction();
        let user = match &introduction.user {
            Some(user) => users.named(&user.name).filter(|it| it.id == user.id),
            None => Some(users.default_user()),
        };
        let Some(user) = user else {
            return true;
        };
        let is_free = client.is_in_process() && introduction.user.is_none();
        if is_free || user.may_do_all() {
            return false;
        }
        if !may_wait_for(user, &introduction.awaited) {
            return true;
        }
        // A lock is granted to nobody who waits: each has to ask for it when its turn has come. Who may not would only waste the turn.
        if client.may_be_told() {
            let may_wait = |key: &[u8]| may_send(user, &[b"lock.wait", key, b""]);
            executor.end_lock_waits_unless(client.id, may_wait);
        }
        let channels = executor.engine.channels();
        introduction.listening.is_any()
            && Subscription::ALL.iter().any(|&to| {
                let names = channels.names_of(client.id, to);
                let is_pattern = to == Subscription::Pattern;
                names
                    .iter()
                    .any(|name| !user.may_use_channel(name, is_pattern))
            })
    });
    Ok(clients)
}

/// Whether a user may still send the commands that an upstream has.
fn may_wait_for(user: &User, awaited: &[Vec<Bytes>]) -> bool {
    awaited.iter().all(|words| {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        may_send(user, &words)
    })
}

fn may_send(user: &User, arguments: &[&[u8]]) -> bool {
    let asked = NamedRequest::of(arguments).asked();
    asked.is_some_and(|asked| user.check(asked).is_ok())
}

impl Session {
    /// Whether its user may still wait for what an upstream does for it.
    pub(super) fn may_wait_as(&self, user: &User) -> bool {
        may_wait_for(user, &self.client.introduction().awaited)
    }
}

fn delete(session: &Session, batch: &mut Batch<'_>, names: &[&[u8]]) -> Answered {
    if names.contains(&DEFAULT) {
        return Err(NOT_THE_DEFAULT.into());
    }
    let mut deleted = 0;
    let answer = change(session, batch, |users| {
        deleted = names.iter().filter(|name| users.remove(name)).count();
        Ok(())
    })?;
    Ok(match answer {
        Answer::Last(_) => Answer::Last(Reply::count(deleted)),
        _ => Answer::Reply(Reply::count(deleted)),
    })
}

/// Users that are the same as before keep their connections. An error anywhere in the file changes nothing.
fn load(session: &Session, batch: &mut Batch<'_>) -> Answered {
    let file = batch.node.access.file().ok_or(NO_FILE)?;
    let refused = |why: String| refused(why.into_bytes());
    let text = file.read().map_err(refused)?;
    let name = file.path.display().to_string();
    change(session, batch, |users| {
        *users = users
            .read(&name, &text)
            .map_err(|errors| refused(errors.0))?;
        Ok(())
    })
}

fn save(batch: &mut Batch<'_>) -> Result<Reply, ErrorReply> {
    let access = &batch.node.access;
    let file = access.file().ok_or(NO_FILE)?;
    if let Err(error) = file.write(|| access.users().write()) {
        let path = file.path.display();
        batch.warn(format!("ACL SAVE: {path} is what it was: {error}"));
        return Err(NOT_SAVED);
    }
    Ok(Reply::Ok)
}

fn listed(batch: &Batch<'_>, show: impl Fn(&User) -> Reply) -> Result<Reply, ErrorReply> {
    let mut budget = batch.node.settings.reply_budget();
    let users = batch.node.access.users();
    let mut replies = Vec::new();
    for reply in users.all().map(|user| show(user)) {
        budget
            .charge_reply(&reply)
            .map_err(ReplyTooLarge::of_command)?;
        replies.push(reply);
    }
    Ok(Reply::Array(replies))
}

fn details(user: &Arc<User>) -> Reply {
    let texts = |texts: Vec<Reply>| Reply::Array(texts);
    let flags = user.flags().into_iter().map(Reply::bulk).collect();
    let passwords = user.passwords().into_iter().map(Reply::bulk).collect();
    let mut fields = vec![
        (Reply::bulk("flags"), Reply::Set(flags)),
        (Reply::bulk("passwords"), texts(passwords)),
    ];
    let mut selectors = user.selectors_all();
    fields.extend(selectors.next().into_iter().flat_map(about));
    let others = selectors.map(|selector| Reply::Map(about(selector)));
    fields.push((Reply::bulk("selectors"), texts(others.collect())));
    Reply::Map(fields)
}

fn about(selector: &Selector) -> Vec<(Reply, Reply)> {
    vec![
        (
            Reply::bulk("commands"),
            Reply::bulk(selector.describe_commands()),
        ),
        (Reply::bulk("keys"), Reply::bulk(selector.describe_keys())),
        (
            Reply::bulk("channels"),
            Reply::bulk(selector.describe_channels()),
        ),
    ]
}

fn of_category(name: &[u8]) -> Result<Reply, ErrorReply> {
    let category = Categories::named(name).ok_or_else(|| quoting("Unknown category", name, ""))?;
    let mut names = Vec::new();
    for spec in all_specs() {
        if spec.description().categories().intersects(category) {
            names.push(Reply::bulk(spec.name));
        }
        let parts = spec.about.subcommands.iter();
        let of_it = parts.filter(|part| part.categories().intersects(category));
        names.extend(of_it.map(|part| Reply::bulk(format!("{}|{}", spec.name, part.name))));
    }
    Ok(Reply::Array(names))
}

fn dry_run(batch: &Batch<'_>, name: &[u8], arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let user = batch.node.access.users().named(name).cloned();
    let user = user.ok_or_else(|| quoting("User", name, " not found"))?;
    let request = NamedRequest::of(arguments);
    let Some(asked) = request.asked() else {
        let name = arguments.first().copied().unwrap_or_default();
        return Err(quoting("Command", name, " not found"));
    };
    request.check()?;
    let (what, object, kind) = match user.check(asked) {
        Ok(()) => return Ok(Reply::Ok),
        Err(Denial::Command) => ("run", request.full_name().into_bytes(), "command"),
        Err(Denial::Key(key)) => ("access", key, "key"),
        Err(Denial::Channel(channel)) => ("access", channel, "channel"),
        // Redis finds that out only when it executes the SORT.
        Err(Denial::Sort(option)) => ("use", option.as_bytes().to_vec(), "option of SORT"),
    };
    let begin = format!("This user has no permissions to {what} the '");
    let end = format!("' {kind}");
    Ok(Reply::bulk(
        [begin.as_bytes(), &object, end.as_bytes()].concat(),
    ))
}

fn generated(batch: &Batch<'_>, bits: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let given = bits.first().map_or(Some(256), |bits| parse_integer(bits));
    let bits = given.ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let bits = usize::try_from(bits)
        .ok()
        .filter(|bits| (1..=4096).contains(bits));
    let digits = bits.ok_or(GENPASS_BITS)?.div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    if !batch.node.access.fill_random(&mut bytes) {
        return Err(NO_RANDOMNESS);
    }
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    Ok(Reply::bulk(text))
}

fn log(batch: &mut Batch<'_>, count: &[&[u8]]) -> Result<Reply, Unanswered> {
    let (_, now) = batch.executor()?;
    let now_ms = now.wall_us / 1000;
    let mut denials = batch.node.access.denials();
    let count = match count.first() {
        None => 10,
        Some(word) if word.eq_ignore_ascii_case(b"reset") => {
            denials.clear();
            return Ok(Reply::Ok);
        }
        Some(count) => {
            let count = parse_integer(count).ok_or(ErrorReply::NOT_AN_INTEGER)?;
            usize::try_from(count.clamp(0, SHOWN_MAX)).expect("it is small")
        }
    };
    let entries = denials.newest(count).map(|entry| shown(entry, now_ms));
    Ok(Reply::Array(entries.collect()))
}

fn shown(entry: &AclLogEntry, now_ms: u64) -> Reply {
    let number = |number: u64| {
        let number = i64::try_from(number);
        Reply::Integer(number.expect("it is a count, or a thousandth of a time"))
    };
    let age = Duration::from_millis(now_ms.saturating_sub(entry.updated_ms));
    let denied = &entry.denied;
    let field = |name: &str, value| (Reply::bulk(name), value);
    Reply::Map(vec![
        field("count", number(entry.count)),
        field("reason", Reply::bulk(denied.reason)),
        field("context", Reply::bulk(denied.context.name())),
        field("object", Reply::bulk(&*denied.object)),
        field("username", Reply::bulk(&*denied.user)),
        field("age-seconds", Reply::Double(age.as_secs_f64())),
        field("client-info", Reply::bulk(&*entry.client)),
        field("entry-id", number(entry.id)),
        field("timestamp-created", number(entry.created_ms)),
        field("timestamp-last-updated", number(entry.updated_ms)),
    ])
}

fn quoting(before: &str, word: &[u8], after: &str) -> ErrorReply {
    let word = &word[..word.len().min(BYTES_SHOWN)];
    let before = format!("ERR {before} '");
    ErrorReply::new([before.as_bytes(), word, b"'", after.as_bytes()].concat())
}

/// `acllog-max-len` may be as high.
const SHOWN_MAX: i64 = 100_000;
const BYTES_SHOWN: usize = 128;
const NOT_THE_DEFAULT: ErrorReply = ErrorReply::fixed("ERR The 'default' user cannot be removed");
const GENPASS_BITS: ErrorReply = ErrorReply::fixed(
    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
);
const NOT_SAVED: ErrorReply = ErrorReply::fixed(
    "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
);
const NO_RANDOMNESS: ErrorReply = ErrorReply::fixed("ERR the system gave no random bytes");
const NO_FILE: ErrorReply = ErrorReply::fixed(
    "ERR This node is not configured to use an ACL file (aclfile). Write users as user lines into its configuration; what \
     ACL SETUSER has changed lasts until the node stops, unless CONFIG REWRITE writes it down",
);

const HELP: &[&str] = &[
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
];
