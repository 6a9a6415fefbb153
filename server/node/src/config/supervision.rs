//! Directives about whom a node tells of itself, and how.

use super::Problem;
use super::directive::Directive;
use super::settings::{LogFormat, SYSLOG_FACILITIES, SupervisedReady};
use super::value::{label, name_of, one, one_of, show_yes_or_no, yes_or_no};

/// `supervised-ready`.
pub(super) const SUPERVISED_READY: Directive = Directive::used(
    "supervised-ready",
    "listening",
    "`listening`, `serving`",
    "When it is ready: once it listens, or once it serves locks, after its restart delay.",
    |c, v| one_of(SupervisedReady::NAMES, one(v)?).map(|when| c.reports.ready = when),
    |c| name_of(SupervisedReady::NAMES, &c.reports.ready).to_owned(),
);

/// `log-format`.
pub(super) const LOG_FORMAT: Directive = Directive::used(
    "log-format",
    "redis",
    "`redis`, `json`",
    "How messages are written: in Redis's look, or one JSON object a line.",
    |c, v| one_of(LogFormat::NAMES, one(v)?).map(|format| c.reports.log_format = format),
    |c| name_of(LogFormat::NAMES, &c.reports.log_format).to_owned(),
);

/// `syslog-enabled`.
pub(super) const SYSLOG_ENABLED: Directive = Directive::used(
    "syslog-enabled",
    "no",
    "`yes`, `no`",
    "Whether messages go to the machine's syslog as well, at /dev/log.",
    |c, v| yes_or_no(one(v)?).map(|yes| c.reports.syslog.is_enabled = yes),
    |c| show_yes_or_no(c.reports.syslog.is_enabled),
);

/// `syslog-ident`.
pub(super) const SYSLOG_IDENT: Directive = Directive::used(
    "syslog-ident",
    "quorlock",
    "up to 64 letters, digits, `.`, `-`, `_`",
    "The program that they are said to be from.",
    |c, v| match label(one(v)?)? {
        Some(ident) => {
            c.reports.syslog.ident = ident;
            Ok(())
        }
        None => Err(Problem::new("argument must be a name")),
    },
    |c| c.reports.syslog.ident.clone(),
);

/// `syslog-facility`.
pub(super) const SYSLOG_FACILITY: Directive = Directive::used(
    "syslog-facility",
    "local0",
    "`user`, `local0` to `local7`",
    "The part of the system that they are said to be from.",
    |c, v| one_of(SYSLOG_FACILITIES, one(v)?).map(|facility| c.reports.syslog.facility = facility),
    |c| name_of(SYSLOG_FACILITIES, &c.reports.syslog.facility).to_owned(),
);
