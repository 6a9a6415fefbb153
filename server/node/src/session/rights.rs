//! What the user of a connection may do, checked once for each request, and for each command that a script calls.
//!
//! A user that may do everything costs a comparison: its session knows the version of the users at which it was so. All
//! others are looked up and checked.

use std::sync::{Arc, Mutex, MutexGuard};

use quorlock_engine::{CommandGuard, ErrorReply, Purpose};

use crate::acl::{DEFAULT, Denial, DenialContext, Denied, User};
use crate::core::access::Access;
use crate::core::commit::Failure;
use crate::core::state::NodeState;
use crate::session::Session;
use crate::session::batch::{Answer, Batch};
use crate::session::named_request::NamedRequest;

/// The user of a session.
#[derive(Debug)]
pub(super) struct Rights {
    user: Arc<User>,
    /// The version of the users at which this one may do everything; [`ALWAYS_CHECKED`] where it may not.
    unchecked_at: u64,
    /// The version at which the user was looked at.
    version: u64,
    /// What is asked before each command of a script, unless the user may do everything.
    guard: Option<CommandGuard>,
    /// What the guard has refused, and is not in the log yet.
    refused: Arc<Mutex<Vec<Denied>>>,
}

impl Rights {
    /// Those of the default user.
    pub(super) fn of_default(access: &Access) -> Self {
        let user = Arc::clone(access.users().default_user());
        Self {
            user,
            unchecked_at: ALWAYS_CHECKED,
            version: ALWAYS_CHECKED,
            guard: None,
            refused: Arc::default(),
        }
    }

    pub(super) fn user(&self) -> &Arc<User> {
        &self.user
    }

    fn set(&mut self, user: Arc<User>, version: u64, may_do_all: bool) {
        self.unchecked_at = match may_do_all {
            true => version,
            false => ALWAYS_CHECKED,
        };
        if may_do_all {
            self.guard = None;
        } else if self.guard.is_none() || !Arc::ptr_eq(&user, &self.user) {
            self.guard = Some(guard(Arc::clone(&user), Arc::clone(&self.refused)));
        }
        (self.user, self.version) = (user, version);
    }

    /// What a script of this user is asked before each of its commands.
    pub(super) fn guard(&self) -> Option<CommandGuard> {
        self.guard.clone()
    }

    /// Whether they were looked at in this version.
    pub(super) fn are_of(&self, version: u64) -> bool {
        self.version == version
    }

    /// Whether its scripts are checked.
    pub(super) fn checks_scripts(&self) -> bool {
        self.guard.is_some()
    }

    /// Whether everything was allowed at this version.
    #[inline]
    pub(super) fn are_unchecked_at(&self, version: u64) -> bool {
        self.unchecked_at == version
    }
}

/// Checks the commands of a script for its user.
fn guard(user: Arc<User>, refused: Arc<Mutex<Vec<Denied>>>) -> CommandGuard {
    CommandGuard::new(move |arguments, purpose| {
        refusal_in_script(&user, &refused, arguments, purpose)
    })
}

/// Why a script of this user may not call a command, if it may not.
fn refusal_in_script(
    user: &User,
    refused: &Mutex<Vec<Denied>>,
    arguments: &[&[u8]],
    purpose: Purpose,
) -> Option<ErrorReply> {
    let request = NamedRequest::of(arguments);
    let Some(asked) = request.asked() else {
        return Some(NOT_IN_SCRIPT);
    };
    let denial = user.check(asked).err()?;
    let mut refused = lock(refused);
    if purpose == Purpose::Call && refused.len() < SCRIPT_DENIALS_MAX {
        refused.push(denied(&denial, request, user, DenialContext::Script));
    }
    Some(match denial {
        Denial::Command => NOT_IN_SCRIPT,
        Denial::Key(_) => NO_KEY_IN_SCRIPT,
        Denial::Channel(_) => NO_CHANNEL_IN_SCRIPT,
        Denial::Sort(option) => no_option(option),
    })
}

fn denied(
    denial: &Denial,
    request: NamedRequest<'_>,
    user: &User,
    context: DenialContext,
) -> Denied {
    let (reason, object) = match denial {
        Denial::Command => ("command", request.full_name().into_bytes()),
        Denial::Key(key) => ("key", key.clone()),
        Denial::Sort(option) => ("key", option.as_bytes().to_vec()),
        Denial::Channel(channel) => ("channel", channel.clone()),
    };
    Denied {
        reason,
        context,
        object,
        user: user.name.to_vec(),
    }
}

/// The refusal of a request, with the place where it is refused, if that is named.
fn refusal(denial: &Denial, request: NamedRequest<'_>, place: &str) -> ErrorReply {
    match denial {
        Denial::Command => ErrorReply::new(format!(
            "NOPERM this user has no permissions to run the '{}' command{place}",
            request.full_name()
        )),
        Denial::Key(_) => NO_KEY,
        Denial::Channel(_) => NO_CHANNEL,
        Denial::Sort(option) => no_option(option),
    }
}

fn no_option(option: &str) -> ErrorReply {
    ErrorReply::new(format!(
        "ERR {option} option of SORT denied due to insufficient ACL permissions."
    ))
}

impl Session {
    /// Takes over what has changed of its user; false where the user was deleted, so that the connection ends.
    pub(super) fn follow_user(&mut self, access: &Access) -> bool {
        let Some((user, version)) = access.current(&self.rights.user) else {
            return false;
        };
        let may_do_all = self.is_free() || user.may_do_all();
        self.rights.set(user, version, may_do_all);
        true
    }

    /// What is asked before a command of this session that has waited is executed: it is checked as if it came then. None where
    /// nothing can be taken away.
    pub(super) fn waiting_guard(&self, node: &Arc<NodeState>) -> Option<CommandGuard> {
        if self.is_free() {
            return None;
        }
        let node = Arc::downgrade(node);
        let (user, refused) = (
            Arc::clone(&self.rights.user),
            Arc::clone(&self.rights.refused),
        );
        Some(CommandGuard::new(move |arguments, _| {
            let request = NamedRequest::of(arguments);
            let Some((user, _)) = node.upgrade()?.access.current(&user) else {
                return Some(USER_IS_GONE);
            };
            let denial = user.check(request.asked()?).err()?;
            let denied = denied(&denial, request, &user, DenialContext::TopLevel);
            lock(&refused).push(denied);
            Some(refusal(&denial, request, ""))
        }))
    }

    /// What is asked before each command of a script that the node's upstream executes, perhaps later: its user may have other rights
    /// by then. None where nothing can be taken away.
    pub(super) fn upstream_guard(&self, access: &Arc<Access>) -> Option<CommandGuard> {
        if self.is_free() {
            return None;
        }
        let (access, unchecked_at) = (Arc::clone(access), self.rights.unchecked_at);
        let (user, refused) = (
            Arc::clone(&self.rights.user),
            Arc::clone(&self.rights.refused),
        );
        Some(CommandGuard::new(move |arguments, purpose| {
            if access.version() == unchecked_at {
                return None;
            }
            match access.current(&user) {
                Some((user, _)) => refusal_in_script(&user, &refused, arguments, purpose),
                None => Some(NOT_IN_SCRIPT),
            }
        }))
    }

    /// Whether its guards have refused something that is not in ACL LOG yet.
    pub(crate) fn has_denials(&self) -> bool {
        !lock(&self.rights.refused).is_empty()
    }

    /// Whether it is of the node's own process and has not logged in: nothing is checked.
    fn is_free(&self) -> bool {
        self.client.is_in_process() && *self.rights.user.name == *DEFAULT
    }

    /// Logs in as a user that was looked up while the users were locked, and still are.
    pub(super) fn become_user(&mut self, user: &Arc<User>, version: u64) {
        self.client.introduction().user = Some(Arc::clone(user));
        self.rights
            .set(Arc::clone(user), version, user.may_do_all());
    }

    /// The default user again.
    pub(super) fn forget_user(&mut self, access: &Access) {
        self.client.introduction().user = None;
        self.rights = Rights::of_default(access);
    }
}

impl Batch<'_> {
    /// Refuses a request that its user may not send; none where it is to be executed, or is refused for another reason.
    #[cold]
    #[inline(never)]
    pub(super) fn check_rights(
        &mut self,
        session: &mut Session,
        request: NamedRequest<'_>,
    ) -> Result<Option<Answer>, Failure> {
        if !session.is_authenticated {
            if !self.node.access.is_open() {
                return Ok(None);
            }
            // The default user needs a password no more since this connection began.
            session.authenticate(self.node);
        }
        if !session.follow_user(&self.node.access) {
            return Ok(Some(Answer::Close));
        }
        let is_unchecked = !session.rights.checks_scripts();
        if is_unchecked || request.spec.is_none() {
            return Ok(None);
        }
        session.note_command(request);
        let error = match request.check() {
            // As in Redis that comes first. Here nothing is executed that was not checked.
            Err(error) => error,
            Ok(()) => match self.denial(session, request, context(session))? {
                Some(denial) if self.has_upstream() => refusal(&denial, request, ON_AGENT),
                Some(denial) => refusal(&denial, request, ""),
                None => return Ok(None),
            },
        };
        self.refuse_call(request.counted_as());
        let reply = session.refuse(request, error, self)?;
        Ok(Some(Answer::Reply(reply)))
    }

    /// Why a request is not allowed, which is noted, if it is not.
    fn denial(
        &mut self,
        session: &Session,
        request: NamedRequest<'_>,
        context: DenialContext,
    ) -> Result<Option<Denial>, Failure> {
        let Some(asked) = request.asked() else {
            return Ok(Some(Denial::Command));
        };
        let user = session.rights.user();
        let Err(denial) = user.check(asked) else {
            return Ok(None);
        };
        let denied = denied(&denial, request, user, context);
        self.note_denied(session, denied)?;
        Ok(Some(denial))
    }

    /// Why EXEC does not execute a request that was allowed when it was queued.
    pub(super) fn denied_since(
        &mut self,
        session: &mut Session,
        arguments: &[&[u8]],
    ) -> Result<Option<ErrorReply>, Failure> {
        let access = &self.node.access;
        if session.rights.are_unchecked_at(access.version()) {
            return Ok(None);
        }
        let denial = match session.follow_user(access) {
            false => Some(Denial::Command),
            true if !session.rights.checks_scripts() => None,
            true => self.denial(session, NamedRequest::of(arguments), DenialContext::Multi)?,
        };
        let why = denial.map(|denial| match denial {
            Denial::Command => "no permission to execute the command or subcommand",
            Denial::Key(_) | Denial::Sort(_) => "no permission to touch the specified keys",
            Denial::Channel(_) => "no permission to access one of the channels used as arguments",
        });
        Ok(why.map(|why| {
            ErrorReply::new(format!(
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                 command is no longer allowed for the following reason: {why}"
            ))
        }))
    }

    /// Notes in ACL LOG what a script was refused.
    pub(super) fn note_script_denials(&mut self, session: &Session) -> Result<(), Failure> {
        match session.rights.checks_scripts() {
            true => self.note_denials(session),
            false => Ok(()),
        }
    }

    /// Notes in ACL LOG what the guards of a session have refused.
    pub(crate) fn note_denials(&mut self, session: &Session) -> Result<(), Failure> {
        let refused = std::mem::take(&mut *lock(&session.rights.refused));
        refused
            .into_iter()
            .try_for_each(|denied| self.note_denied(session, denied))
    }

    /// Notes a refusal in ACL LOG.
    pub(super) fn note_denied(&mut self, session: &Session, denied: Denied) -> Result<(), Failure> {
        let (_, now) = self.executor()?;
        let line = session.client.line(now.node, self.raw(), session.query);
        let entries_max = self.node.settings.config().acllog_max_len;
        self.node
            .access
            .note(denied, line, now.wall_us, entries_max);
        Ok(())
    }
}

/// Where a request is that is refused as it comes.
fn context(session: &Session) -> DenialContext {
    match session.transaction {
        Some(_) => DenialContext::Multi,
        None => DenialContext::TopLevel,
    }
}

fn lock(refused: &Mutex<Vec<Denied>>) -> MutexGuard<'_, Vec<Denied>> {
    refused.lock().expect("no holder of the refusals can panic")
}

/// No version is as high.
const ALWAYS_CHECKED: u64 = u64::MAX;
/// More refusals of one script are not noted: it may try for as long as it runs.
const SCRIPT_DENIALS_MAX: usize = 16;

/// Clients know an agent by these words where they may not send INFO: they are a part of the protocol.
const ON_AGENT: &str = " on this agent";
/// To a command that has waited, on a connection that is about to be closed for the same reason.
const USER_IS_GONE: ErrorReply = ErrorReply::fixed("NOPERM this user was deleted");
const NO_KEY: ErrorReply = ErrorReply::fixed(
    "NOPERM this user has no permissions to access one of the keys used as arguments",
);
const NO_CHANNEL: ErrorReply = ErrorReply::fixed(
    "NOPERM this user has no permissions to access one of the channels used as arguments",
);
const NOT_IN_SCRIPT: ErrorReply =
    ErrorReply::fixed("ERR The user executing the script can't run this command or subcommand");
const NO_KEY_IN_SCRIPT: ErrorReply = ErrorReply::fixed(
    "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
);
const NO_CHANNEL_IN_SCRIPT: ErrorReply = ErrorReply::fixed(
    "ERR The user executing the script can't publish to the channel mentioned in the command",
);
