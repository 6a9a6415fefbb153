//! The options of SET and GETEX: conditions and TTLs, in any order and case.

use crate::command::arguments::{TimeForm, is_option};
use crate::error::ErrorReply;
use crate::time::{Deadline, Moment};

/// When a written string ends.
#[derive(Clone, Copy)]
pub(super) enum SetExpiry {
    At(Deadline),
    /// When the key would have ended anyway.
    Keep,
    /// It has ended already: an absolute time that has passed.
    Past,
}

pub(super) fn set_deadline(
    command: &str,
    form: TimeForm,
    count: i64,
    now: Moment,
) -> Result<SetExpiry, ErrorReply> {
    if count <= 0 {
        return Err(ErrorReply::invalid_expire(command));
    }
    let deadline = form
        .deadline(count, now)
        .map_err(|_| ErrorReply::invalid_expire(command))?;
    Ok(deadline.map_or(SetExpiry::Past, SetExpiry::At))
}

/// Whether a string is written.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SetCondition<'a> {
    #[default]
    None,
    /// NX.
    IfAbsent,
    /// XX.
    IfPresent,
    /// IFEQ: the key holds this string.
    IfEqual(&'a [u8]),
    /// IFNE: it holds another one, or there is no key.
    IfNotEqual(&'a [u8]),
}

/// Which TTL is asked for.
#[derive(Clone, Copy)]
pub(super) enum Expiry<'a> {
    Keep,
    In(TimeForm, &'a [u8]),
}

/// The options after key and value, in any order and case.
#[derive(Clone, Copy, Default)]
pub(super) struct SetOptions<'a> {
    pub(super) condition: SetCondition<'a>,
    pub(super) expiry: Option<Expiry<'a>>,
    pub(super) returns_old: bool,
}

impl<'a> SetOptions<'a> {
    // Inlined: what it returns is not moved right after it was stored.
    #[inline]
    pub(super) fn parse(arguments: &[&'a [u8]]) -> Result<SetOptions<'a>, ErrorReply> {
        let mut options = SetOptions::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if is_option(argument, "nx") {
                options.restrict(SetCondition::IfAbsent)?;
            } else if is_option(argument, "xx") {
                options.restrict(SetCondition::IfPresent)?;
            } else if is_option(argument, "ifeq") {
                let wanted = rest.next().ok_or(ErrorReply::SYNTAX)?;
                options.restrict(SetCondition::IfEqual(wanted))?;
            } else if is_option(argument, "ifne") {
                let unwanted = rest.next().ok_or(ErrorReply::SYNTAX)?;
                options.restrict(SetCondition::IfNotEqual(unwanted))?;
            } else if is_option(argument, "get") {
                options.returns_old = true;
            } else if is_option(argument, "keepttl") {
                if matches!(options.expiry, Some(Expiry::In(..))) {
                    return Err(ErrorReply::SYNTAX);
                }
                options.expiry = Some(Expiry::Keep);
            } else {
                let form = time_form(argument).ok_or(ErrorReply::SYNTAX)?;
                // The same option may come twice, and then the last one counts, as in Redis.
                let is_other = match options.expiry {
                    None => false,
                    Some(Expiry::Keep) => true,
                    Some(Expiry::In(earlier, _)) => earlier != form,
                };
                if is_other {
                    return Err(ErrorReply::SYNTAX);
                }
                let count = rest.next().ok_or(ErrorReply::SYNTAX)?;
                options.expiry = Some(Expiry::In(form, count));
            }
        }
        Ok(options)
    }

    fn restrict(&mut self, condition: SetCondition<'a>) -> Result<(), ErrorReply> {
        if self.condition != SetCondition::None && self.condition != condition {
            return Err(ErrorReply::SYNTAX);
        }
        self.condition = condition;
        Ok(())
    }
}

/// The options of GETEX.
#[derive(Clone, Copy)]
pub(super) enum GetOptions<'a> {
    /// The deadline stays.
    Leave,
    /// It goes.
    Persist,
    /// It is another one.
    In(TimeForm, &'a [u8]),
}

impl<'a> GetOptions<'a> {
    pub(super) fn parse(arguments: &[&'a [u8]]) -> Result<GetOptions<'a>, ErrorReply> {
        let mut options = GetOptions::Leave;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let next = if is_option(argument, "persist") {
                GetOptions::Persist
            } else {
                let form = time_form(argument).ok_or(ErrorReply::SYNTAX)?;
                GetOptions::In(form, rest.next().ok_or(ErrorReply::SYNTAX)?)
            };
            // As with SET the same option may come twice.
            options = match (options, next) {
                (GetOptions::Leave, _) | (GetOptions::Persist, GetOptions::Persist) => next,
                (GetOptions::In(earlier, _), GetOptions::In(form, _)) if earlier == form => next,
                _ => return Err(ErrorReply::SYNTAX),
            };
        }
        Ok(options)
    }
}

fn time_form(argument: &[u8]) -> Option<TimeForm> {
    let forms = [
        ("px", TimeForm::MILLISECONDS),
        ("ex", TimeForm::SECONDS),
        ("pxat", TimeForm::UNIX_MILLISECONDS),
        ("exat", TimeForm::UNIX_SECONDS),
    ];
    forms
        .into_iter()
        .find(|(name, _)| is_option(argument, name))
        .map(|(_, form)| form)
}
