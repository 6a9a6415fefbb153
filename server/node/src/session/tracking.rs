//! CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR: how a client that keeps what it reads is told of changes.
//!
//! The engine knows who keeps what; here is what the client has asked for, and which of its requests count.

use std::collections::BTreeSet;

use quorlock_engine::tracking::{ClientTracking, TrackingOptions};
use quorlock_engine::{ErrorReply, NodeCommand, Reply, parse_integer};

use crate::core::clients::TrackingShown;
use crate::core::commit::Failure;
use crate::core::executor::Executor;
use crate::core::state::NodeState;
use crate::session::Session;
use crate::session::answered::Unanswered;
use crate::session::batch::Batch;
use crate::session::named_request::NamedRequest;
use crate::session::upstream::CANNOT_TRACK;

/// How a client is told of changes.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    choice: Choice,
    ignores_own: bool,
    /// It is told of prefixes, whatever it reads.
    broadcasts: bool,
    /// Memory of the prefixes.
    prefix_bytes: usize,
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
    pub(super) fn note_executed(&mut self, request: NamedRequest<'_>) {
        if let Some(tracks) = &mut self.tracking
            && tracks.is_exception
            && self.transaction.is_none()
            && !request.is(NodeCommand::Client)
        {
            tracks.is_exception = false;
            self.choose_reads();
        }
    }

    /// Memory of what it is told of.
    pub(super) fn tracking_bytes(&self) -> usize {
        self.tracking.as_ref().map_or(0, |it| it.prefix_bytes)
    }

    fn choose_reads(&mut self) {
        let keeps = |tracks: &Tracks| match tracks.choice {
            Choice::All => !tracks.broadcasts,
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
) -> Result<Reply, Unanswered> {
    let asked = TrackingRequest::parse(batch.node, options)?;
    if switch.eq_ignore_ascii_case(b"off") {
        let (executor, _) = batch.executor()?;
        session.stop_tracking(executor);
        return Ok(Reply::Ok);
    }
    if !switch.eq_ignore_ascii_case(b"on") {
        return Err(ErrorReply::SYNTAX.into());
    }
    if batch.has_upstream() {
        return Err(CANNOT_TRACK.into());
    }
    let id = session.client.id;
    let choice = asked.choice(session.tracking.as_deref())?;
    session.client.note_may_be_told();
    let target = asked
        .redirect
        .map(|id| batch.node.clients.with_ids_in(&[id]));
    for client in target.into_iter().flatten() {
        client.note_may_be_told();
    }
    let (executor, _) = batch.executor()?;
    let tracking = executor.engine.tracking();
    let before = session.tracking.as_deref();
    let prefix_bytes = before.map_or(0, |it| it.prefix_bytes) + asked.prefix_bytes();
    if prefix_bytes > PREFIX_BYTES_MAX {
        return Err(TOO_MANY_PREFIXES.into());
    }
    if let Some(error) = asked.overlap(tracking, id) {
        return Err(error.into());
    }
    tracking.start(id, asked.options());
    asked
        .prefixes()
        .for_each(|prefix| tracking.add_prefix(id, prefix));
    let is_exception = before.is_some_and(|it| it.is_exception);
    session.tracking = Some(Box::new(Tracks {
        choice,
        ignores_own: asked.ignores_own,
        broadcasts: asked.broadcasts,
        prefix_bytes,
        is_exception,
    }));
    session.has_tracked = true;
    session.choose_reads();
    session.client.introduction().tracking = TrackingShown {
        is_on: true,
        is_broken: false,
        broadcasts: asked.broadcasts,
        redirect: asked.redirect,
    };
    Ok(Reply::Ok)
}

/// The options of CLIENT TRACKING.
#[derive(Default)]
struct TrackingRequest<'a> {
    broadcasts: bool,
    prefixes: Vec<&'a [u8]>,
    redirect: Option<u64>,
    ignores_own: bool,
    opts_in: bool,
    opts_out: bool,
}

impl<'a> TrackingRequest<'a> {
    fn parse(node: &NodeState, options: &[&'a [u8]]) -> Result<Self, ErrorReply> {
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
            } else if is("prefix") && !options.as_slice().is_empty() {
                asked.prefixes.extend(options.next());
            } else if is("bcast") {
                asked.broadcasts = true;
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
        if !self.broadcasts && !self.prefixes.is_empty() {
            return Err(PREFIX_WITHOUT_BCAST);
        }
        if before.is_some_and(|before| before.broadcasts != self.broadcasts) {
            return Err(OTHER_MODE);
        }
        if self.broadcasts && (self.opts_in || self.opts_out) {
            return Err(CHOICE_OF_BCAST);
        }
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

impl<'a> TrackingRequest<'a> {
    fn options(&self) -> TrackingOptions {
        TrackingOptions {
            redirect: self.redirect,
            ignores_own: self.ignores_own,
            broadcasts: self.broadcasts,
        }
    }

    /// The prefixes to be told of: all keys have the empty one.
    fn prefixes(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let is_all = self.broadcasts && self.prefixes.is_empty();
        let all = is_all.then_some(b"".as_slice());
        self.prefixes.clone().into_iter().chain(all)
    }

    fn prefix_bytes(&self) -> usize {
        self.prefixes().map(|it| it.len() + PREFIX_BYTES).sum()
    }

    /// Why these prefixes cannot be added: one begins with another one.
    fn overlap(&self, tracking: &ClientTracking, id: u64) -> Option<ErrorReply> {
        let mut sorted: BTreeSet<&[u8]> = BTreeSet::new();
        let mut overlapping = None;
        let known: BTreeSet<&[u8]> = tracking.prefixes_of(id).collect();
        for &prefix in &self.prefixes {
            if let Some(other) = beside(&known, prefix) {
                overlapping = Some((prefix, other, "an existing prefix"));
                break;
            }
            if let Some(other) = beside(&sorted, prefix) {
                overlapping = Some((other, prefix, "another provided prefix"));
                break;
            }
            sorted.insert(prefix);
        }
        let (one, other, which) = overlapping?;
        let [one, other] = [one, other].map(|it| {
            let shown = &it[..it.len().min(PREFIX_BYTES_SHOWN)];
            String::from_utf8_lossy(shown).into_owned()
        });
        Some(ErrorReply::new(format!(
            "ERR Prefix '{one}' overlaps with {which} '{other}'. Prefixes for a single client must not overlap."
        )))
    }
}

/// A prefix of a set, none of which begins with another one, that this one begins with, or that begins with it.
fn beside<'a>(prefixes: &BTreeSet<&'a [u8]>, prefix: &'a [u8]) -> Option<&'a [u8]> {
    let longer = prefixes.range(prefix..).next().copied();
    let shorter = prefixes.range(..prefix).next_back().copied();
    let longer = longer.filter(|it| it.starts_with(prefix));
    longer.or(shorter.filter(|it| prefix.starts_with(it)))
}

pub(super) fn caching(session: &mut Session, choice: &[u8]) -> Result<Reply, ErrorReply> {
    let tracks = session.tracking.as_mut().ok_or(CACHING_WITHOUT_TRACKING)?;
    let (wanted, error) = if choice.eq_ignore_ascii_case(b"yes") {
        (Choice::OptIn, CACHING_YES)
    } else if choice.eq_ignore_ascii_case(b"no") {
        (Choice::OptOut, CACHING_NO)
    } else {
        return Err(ErrorReply::SYNTAX);
    };
    if tracks.choice != wanted {
        return Err(error);
    }
    tracks.is_exception = true;
    session.choose_reads();
    Ok(Reply::Ok)
}

pub(super) fn trackinginfo(session: &Session, batch: &mut Batch<'_>) -> Result<Reply, Failure> {
    let (executor, _) = batch.executor()?;
    let prefixes = executor.engine.tracking().prefixes_of(session.client.id);
    let prefixes = prefixes.map(Reply::bulk).collect();
    let shown = session.client.introduction().tracking;
    let mut flags = vec![if shown.is_on { "on" } else { "off" }];
    if let Some(tracks) = &session.tracking {
        flags.extend(tracks.broadcasts.then_some("bcast"));
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
    Ok(Reply::Map(vec![
        (Reply::bulk("flags"), Reply::Set(flags)),
        (Reply::bulk("redirect"), Reply::Integer(shown.redirection())),
        (Reply::bulk("prefixes"), Reply::Array(prefixes)),
    ]))
}

/// What one connection may be told of, in bytes.
const PREFIX_BYTES_MAX: usize = 16 << 20;
/// Memory of a prefix beside its bytes, in the tables of prefixes and of connections.
const PREFIX_BYTES: usize = 256;
const PREFIX_BYTES_SHOWN: usize = 128;

const TOO_MANY_PREFIXES: ErrorReply = ErrorReply::fixed(
    "ERR a connection may be told of prefixes that take 16 MiB, 256 bytes for each included. None of these was added",
);
const PREFIX_WITHOUT_BCAST: ErrorReply =
    ErrorReply::fixed("ERR PREFIX option requires BCAST mode to be enabled");
const OTHER_MODE: ErrorReply = ErrorReply::fixed(
    "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
     re-enabling it with a different mode.",
);
const CHOICE_OF_BCAST: ErrorReply =
    ErrorReply::fixed("ERR OPTIN and OPTOUT are not compatible with BCAST");
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
