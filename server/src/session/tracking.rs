//! CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR: how a client that keeps what it reads is told of changes.
//!
//! The engine knows who keeps what; here is what the client has asked for, and which of its requests count.

use quorlock_engine::tracking::TrackingOptions;
use quorlock_engine::{ErrorReply, Reply, parse_integer};

use crate::core::clients::TrackingShown;
use crate::core::commit::Failure;
use crate::core::executor::Executor;
use crate::core::state::NodeState;
use crate::session::Session;
use crate::session::batch::Batch;

/// How a client is told of changes.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    choice: Choice,
    ignores_own: bool,
    /// CLIENT CACHING was said: the next command or transaction is an exception.
    is_exception: bool,
}

/// Of which of its reads it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Choice {
    #[default]
    All,
    /// OPTIN: only after CLIENT CACHING YES.
    OptIn,
    /// OPTOUT: not after CLIENT CACHING NO.
    OptOut,
}

impl Session {
    /// Whether it is told of changes, so that messages may come at any time.
    pub(crate) fn is_tracking(&self) -> bool {
        self.tracking.is_some()
    }

    /// Who is told in its place: 0 if nobody is, -1 where it tracks nothing.
    pub(super) fn redirection(&self) -> i64 {
        self.client.introduction().tracking.redirection()
    }

    /// Is told of nothing from now on.
    pub(super) fn stop_tracking(&mut self, executor: &mut Executor) {
        if self.tracking.take().is_some() {
            self.caller.keeps_reads = false;
            self.client.introduction().tracking = TrackingShown::default();
            executor.engine.tracking().stop(self.client.id);
        }
    }

    /// CLIENT CACHING is for the next command, or for the transaction that it begins.
    pub(super) fn note_executed(&mut self, arguments: &[&[u8]]) {
        let is_client = || {
            let name = arguments.first().copied().unwrap_or_default();
            name.eq_ignore_ascii_case(b"client")
        };
        if let Some(tracks) = &mut self.tracking
            && tracks.is_exception
            && self.transaction.is_none()
            && !is_client()
        {
            tracks.is_exception = false;
            self.choose_reads();
        }
    }

    fn choose_reads(&mut self) {
        let keeps = |tracks: &Tracks| match tracks.choice {
            Choice::All => true,
            Choice::OptIn => tracks.is_exception,
            Choice::OptOut => !tracks.is_exception,
        };
        self.caller.keeps_reads = self.tracking.as_deref().is_some_and(keeps);
    }
}

pub(super) fn tracking(
    session: &mut Session,
    batch: &mut Batch<'_>,
    switch: &[u8],
    options: &[&[u8]],
) -> Result<Reply, Failure> {
    let asked = match Asked::parse(batch.node, options) {
        Ok(asked) => asked,
        Err(error) => return Ok(Reply::Error(error)),
    };
    if switch.eq_ignore_ascii_case(b"off") {
        let (executor, _) = batch.executor()?;
        session.stop_tracking(executor);
        return Ok(Reply::Ok);
    }
    if !switch.eq_ignore_ascii_case(b"on") {
        return Ok(Reply::Error(ErrorReply::SYNTAX));
    }
    let choice = match asked.choice(session.tracking.as_deref()) {
        Ok(choice) => choice,
        Err(error) => return Ok(Reply::Error(error)),
    };
    let is_exception = session.tracking.take().is_some_and(|it| it.is_exception);
    session.tracking = Some(Box::new(Tracks {
        choice,
        ignores_own: asked.ignores_own,
        is_exception,
    }));
    session.choose_reads();
    session.client.introduction().tracking = TrackingShown {
        is_on: true,
        is_broken: false,
        redirect: asked.redirect,
    };
    let (executor, _) = batch.executor()?;
    let options = TrackingOptions {
        redirect: asked.redirect,
        ignores_own: asked.ignores_own,
    };
    executor.engine.tracking().start(session.client.id, options);
    Ok(Reply::Ok)
}

/// The options of CLIENT TRACKING.
#[derive(Default)]
struct Asked {
    redirect: Option<u64>,
    ignores_own: bool,
    opts_in: bool,
    opts_out: bool,
}

impl Asked {
    fn parse(node: &NodeState, options: &[&[u8]]) -> Result<Self, ErrorReply> {
        let mut asked = Self::default();
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            if is("redirect") && !options.as_slice().is_empty() {
                let target = options.next().copied().unwrap_or_default();
                if asked.redirect.is_some() {
                    return Err(ONE_REDIRECTION);
                }
                let target = parse_integer(target).ok_or(ErrorReply::NOT_AN_INTEGER)?;
                let is_here = |id: &u64| !node.clients.with_ids_in(&[*id]).is_empty();
                let target = u64::try_from(target).ok().filter(is_here);
                asked.redirect = Some(target.ok_or(NO_SUCH_TARGET)?);
            } else if is("optin") {
                asked.opts_in = true;
            } else if is("optout") {
                asked.opts_out = true;
            } else if is("noloop") {
                asked.ignores_own = true;
            } else {
                return Err(ErrorReply::SYNTAX);
            }
        }
        Ok(asked)
    }

    fn choice(&self, before: Option<&Tracks>) -> Result<Choice, ErrorReply> {
        let choice = match (self.opts_in, self.opts_out) {
            (true, true) => return Err(BOTH_CHOICES),
            (true, false) => Choice::OptIn,
            (false, true) => Choice::OptOut,
            (false, false) => Choice::All,
        };
        match (before.map(|before| before.choice), choice) {
            (Some(Choice::OptIn), Choice::OptOut) | (Some(Choice::OptOut), Choice::OptIn) => {
                Err(OTHER_CHOICE)
            }
            _ => Ok(choice),
        }
    }
}

pub(super) fn caching(session: &mut Session, choice: &[u8]) -> Reply {
    let Some(tracks) = &mut session.tracking else {
        return Reply::Error(CACHING_WITHOUT_TRACKING);
    };
    let (wanted, error) = if choice.eq_ignore_ascii_case(b"yes") {
        (Choice::OptIn, CACHING_YES)
    } else if choice.eq_ignore_ascii_case(b"no") {
        (Choice::OptOut, CACHING_NO)
    } else {
        return Reply::Error(ErrorReply::SYNTAX);
    };
    if tracks.choice != wanted {
        return Reply::Error(error);
    }
    tracks.is_exception = true;
    session.choose_reads();
    Reply::Ok
}

pub(super) fn trackinginfo(session: &Session) -> Reply {
    let shown = session.client.introduction().tracking;
    let mut flags = vec![if shown.is_on { "on" } else { "off" }];
    if let Some(tracks) = &session.tracking {
        let words = match tracks.choice {
            Choice::All => [None, None],
            Choice::OptIn => [Some("optin"), Some("caching-yes")],
            Choice::OptOut => [Some("optout"), Some("caching-no")],
        };
        flags.extend(words[0]);
        flags.extend(words[1].filter(|_| tracks.is_exception));
        flags.extend(tracks.ignores_own.then_some("noloop"));
    }
    flags.extend(shown.is_broken.then_some("broken_redirect"));
    let flags = flags.into_iter().map(Reply::bulk).collect();
    Reply::Map(vec![
        (Reply::bulk("flags"), Reply::Set(flags)),
        (Reply::bulk("redirect"), Reply::Integer(shown.redirection())),
        (Reply::bulk("prefixes"), Reply::Array(Vec::new())),
    ])
}

const ONE_REDIRECTION: ErrorReply =
    ErrorReply::fixed("ERR A client can only redirect to a single other client");
const NO_SUCH_TARGET: ErrorReply =
    ErrorReply::fixed("ERR The client ID you want redirect to does not exist");
const BOTH_CHOICES: ErrorReply =
    ErrorReply::fixed("ERR You can't specify both OPTIN mode and OPTOUT mode");
const OTHER_CHOICE: ErrorReply = ErrorReply::fixed(
    "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
     re-enabling it with a different mode.",
);
const CACHING_WITHOUT_TRACKING: ErrorReply = ErrorReply::fixed(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
     OPTOUT mode enabled",
);
const CACHING_YES: ErrorReply = ErrorReply::fixed(
    "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
);
const CACHING_NO: ErrorReply = ErrorReply::fixed(
    "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
);
