//! A LOCK command as an agent takes it: its words, checked.
//!
//! An agent takes two words that a node does not have, `WAIT` and `FENCE`, and refuses `GUESS`, which is about the fences of one
//! node. What is wrong with a command is said as a node says it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::name::check_name;
use quorlock_client_rules::owner_text;
use quorlock_client_rules::token::{OWN_TOKEN_BYTES_MAX, Token, check_token};
use quorlock_engine::{ErrorReply, PATTERN_BYTES_MAX, PATTERN_TOO_LONG, parse_integer, spec_named};

use crate::commands::Commands;
use crate::refusal::not_a_lock;
use crate::terms::TTL_MAX;

/// What a LOCK command asks for.
#[derive(Debug)]
pub(crate) enum LockCommand {
    Acquire(LockTerms),
    Change {
        name: Bytes,
        token: Token,
        step: HolderCall,
    },
    /// Who has the lock.
    Look(Bytes),
    /// Which locks are held.
    List(ListTerms),
    /// What the locks end with that the client takes from now on.
    Session(SessionChoice),
}

/// What the locks of a client end with, beside their releases and their ttl.
#[derive(Debug, PartialEq)]
pub(crate) enum SessionChoice {
    /// With nothing else.
    Off,
    OfConnection,
    /// With the last connection that has chosen this session.
    Named(Bytes),
}

/// What a holder asks for its lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HolderCall {
    Extend(Duration),
    Release,
}

/// A lock that is to be acquired.
#[derive(Debug)]
pub(crate) struct LockTerms {
    pub(crate) name: Bytes,
    pub(crate) own_token: Bytes,
    pub(crate) ttl: Duration,
    pub(crate) is_shared: bool,
    pub(crate) is_fenced: bool,
    /// What the caller says about itself.
    pub(crate) owner: Option<Arc<str>>,
    /// How long to try.
    pub(crate) wait: Duration,
}

/// Which locks are to be listed.
#[derive(Debug)]
pub(crate) struct ListTerms {
    pub(crate) pattern: Bytes,
    pub(crate) cursor: u128,
}

impl LockCommand {
    /// The LOCK command that a request is, if it is one.
    ///
    /// # Errors
    /// The refusal, where it is none that an agent carries out.
    pub(crate) fn of(commands: &Commands) -> Result<Option<Self>, ErrorReply> {
        let words = match &commands.all[..] {
            [words] if !commands.is_transaction => words,
            _ => return Ok(None),
        };
        let Some(spec) = words.first().and_then(|name| spec_named(name)) else {
            return Ok(None);
        };
        let command = match (spec.name, &words[1..]) {
            ("lock.acquire", [name, token, ttl, options @ ..]) => {
                check_own_token(token)?;
                let mut terms = LockTerms {
                    name: lock_name(name)?,
                    own_token: token.clone(),
                    ttl: ttl_of(spec.name, ttl)?,
                    is_shared: false,
                    is_fenced: false,
                    owner: None,
                    wait: Duration::ZERO,
                };
                terms.take_options(options)?;
                Self::Acquire(terms)
            }
            ("lock.extend", [name, token, ttl]) => Self::Change {
                name: lock_name(name)?,
                token: held_token(token)?,
                step: HolderCall::Extend(ttl_of(spec.name, ttl)?),
            },
            // Over a majority both free the lock, and wake those who wait.
            ("lock.release" | "lock.force-release", [name, token]) => Self::Change {
                name: lock_name(name)?,
                token: held_token(token)?,
                step: HolderCall::Release,
            },
            ("lock.list", words) => Self::List(ListTerms::of(words)?),
            ("lock.info", [name]) => Self::Look(lock_name(name)?),
            ("lock.session", choice) => Self::Session(session_choice(choice)?),
            // The number of their words was looked at before.
            (command, _) if command.starts_with("lock.") => return Err(refused(command)),
            _ => return Ok(None),
        };
        Ok(Some(command))
    }
}

impl LockTerms {
    fn take_options(&mut self, options: &[Bytes]) -> Result<(), ErrorReply> {
        let mut has_wait = false;
        let mut rest = options;
        while let [option, behind @ ..] = rest {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            let (value, behind_value) = match behind {
                [value, behind @ ..] => (Some(value), behind),
                [] => (None, behind),
            };
            rest = match value {
                _ if is("shared") && !self.is_shared => {
                    self.is_shared = true;
                    behind
                }
                _ if is("fence") && !self.is_fenced => {
                    self.is_fenced = true;
                    behind
                }
                Some(text) if is("owner") && self.owner.is_none() => {
                    self.owner = Some(owner_of(text)?);
                    behind_value
                }
                Some(wait) if is("wait") && !has_wait => {
                    has_wait = true;
                    self.wait = wait_of(wait)?;
                    behind_value
                }
                Some(_) if is("guess") => return Err(not_a_lock(GUESS)),
                _ => return Err(ErrorReply::SYNTAX),
            };
        }
        match self.is_shared && self.is_fenced {
            true => Err(NO_FENCE),
            false => Ok(()),
        }
    }
}

impl ListTerms {
    /// The words behind the command's name.
    ///
    /// # Errors
    /// What is wrong with them, as a node says it.
    fn of(words: &[Bytes]) -> Result<Self, ErrorReply> {
        let (pattern, cursor) = match words {
            [] => (Bytes::from_static(b"*"), 0),
            [pattern] => (pattern.clone(), 0),
            [pattern, cursor] => {
                let digits = std::str::from_utf8(cursor).ok();
                let number = digits.and_then(|digits| digits.parse().ok());
                (pattern.clone(), number.ok_or(INVALID_CURSOR)?)
            }
            _ => return Err(ErrorReply::SYNTAX),
        };
        match pattern.len() > PATTERN_BYTES_MAX {
            true => Err(PATTERN_TOO_LONG),
            false => Ok(Self { pattern, cursor }),
        }
    }
}

fn session_choice(words: &[Bytes]) -> Result<SessionChoice, ErrorReply> {
    match words {
        [on] if on.eq_ignore_ascii_case(b"ON") => Ok(SessionChoice::OfConnection),
        [off] if off.eq_ignore_ascii_case(b"OFF") => Ok(SessionChoice::Off),
        [on, name] if on.eq_ignore_ascii_case(b"ON") => match name.len() {
            1..=SESSION_NAME_BYTES_MAX => Ok(SessionChoice::Named(name.clone())),
            _ => Err(SESSION_NAME),
        },
        _ => Err(ErrorReply::SYNTAX),
    }
}

/// Whether a request waits for its lock: when its client goes, it ends.
#[must_use]
pub fn waits_for_lock(commands: &[Vec<Bytes>]) -> bool {
    match commands {
        [words] if words.len() > 5 && words[0].eq_ignore_ascii_case(b"LOCK.ACQUIRE") => words[4..]
            .iter()
            .any(|word| word.eq_ignore_ascii_case(b"WAIT")),
        _ => false,
    }
}

fn lock_name(name: &Bytes) -> Result<Bytes, ErrorReply> {
    check_name(name).map_err(|reason| not_a_lock(&reason))?;
    Ok(name.clone())
}

/// The token that a caller names: that of its attempt is longer, and has to be known from it.
fn check_own_token(token: &Bytes) -> Result<(), ErrorReply> {
    if !(1..=OWN_TOKEN_BYTES_MAX).contains(&token.len()) {
        return Err(ErrorReply::new(format!(
            "ERR the token of a lock has 1 to {OWN_TOKEN_BYTES_MAX} bytes on an agent: make one of 20 random bytes for each acquisition",
        )));
    }
    match has_attempt(&Token::from_bytes(token.clone())) {
        true => Err(not_a_lock(
            "the token ends as those do that an agent makes of it. Use another one, such as 20 random bytes",
        )),
        false => Ok(()),
    }
}

fn held_token(token: &Bytes) -> Result<Token, ErrorReply> {
    let token = Token::from_bytes(token.clone());
    check_token(&token).map_err(|reason| ErrorReply::new(format!("ERR {reason}")))?;
    Ok(token)
}

/// Whether it is the whole token of an attempt, as the nodes hold it.
pub(crate) fn has_attempt(token: &Token) -> bool {
    token.without_attempt().len() < token.as_bytes().len()
}

fn ttl_of(command: &str, ttl: &Bytes) -> Result<Duration, ErrorReply> {
    match milliseconds(ttl)? {
        0 => Err(ErrorReply::new(format!(
            "ERR invalid expire time in '{command}' command"
        ))),
        ttl if Duration::from_millis(ttl) > TTL_MAX => Err(not_a_lock(
            "a lock lasts 360 days at most. Use a shorter ttl",
        )),
        ttl => Ok(Duration::from_millis(ttl)),
    }
}

fn wait_of(wait: &Bytes) -> Result<Duration, ErrorReply> {
    match Duration::from_millis(milliseconds(wait)?) {
        wait if wait > TTL_MAX => Err(not_a_lock(
            "a caller waits 360 days at most. Use a shorter wait",
        )),
        wait => Ok(wait),
    }
}

/// None of them is below zero.
fn milliseconds(word: &Bytes) -> Result<u64, ErrorReply> {
    let number = parse_integer(word).and_then(|number| u64::try_from(number).ok());
    number.ok_or(ErrorReply::NOT_AN_INTEGER)
}

fn owner_of(text: &Bytes) -> Result<Arc<str>, ErrorReply> {
    let text = std::str::from_utf8(text).ok();
    let text = text.filter(|text| owner_text::check(text).is_ok());
    text.map(Arc::from).ok_or(OWNER)
}

/// A LOCK command that is about one node.
fn refused(command: &str) -> ErrorReply {
    let reason = match command {
        "lock.fence" => {
            "an agent takes the fence together with the lock. Use LOCK.ACQUIRE name token ttl FENCE"
        }
        "lock.wait" | "lock.unwait" => {
            "an agent stands in line for its callers. Use LOCK.ACQUIRE name token ttl WAIT milliseconds"
        }
        "lock.ceiling" | "lock.adopt" => {
            "the ceiling of its fences is each node's own. Ask the node, or use quorlock node sync"
        }
        _ => "an agent does not have this command. Ask a node, or use quorlock locks",
    };
    not_a_lock(reason)
}

const GUESS: &str = "a guess is about the fences of one node, and an agent finds the next fence by itself. Use FENCE in its place";
const INVALID_CURSOR: ErrorReply = ErrorReply::fixed("ERR invalid cursor");
const NO_FENCE: ErrorReply = ErrorReply::fixed(
    "ERR a lock that is held shared has no fence: a resource that many use at a time cannot tell by a number who is late",
);
const OWNER: ErrorReply = ErrorReply::fixed(
    "ERR the owner of a lock is a text of 1 to 256 bytes in UTF-8 without control characters",
);
const SESSION_NAME: ErrorReply = ErrorReply::fixed("ERR the name of a session has 1 to 256 bytes");
const SESSION_NAME_BYTES_MAX: usize = 256;
