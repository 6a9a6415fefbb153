//! Directives about the process: whom it tells of itself, and how.

use super::directive::Directive;
use super::settings::SupervisedReady;
use super::value::{name_of, one, one_of};

/// `supervised-ready`.
pub(super) const SUPERVISED_READY: Directive = Directive::used(
    "supervised-ready",
    "listening",
    "`listening`, `serving`",
    "When it is ready: once it listens, or once it serves locks, after its restart delay.",
    |c, v| one_of(SupervisedReady::NAMES, one(v)?).map(|when| c.supervised_ready = when),
    |c| name_of(SupervisedReady::NAMES, &c.supervised_ready).to_owned(),
);
