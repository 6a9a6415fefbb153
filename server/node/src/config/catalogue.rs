//! All directives, and the one that a name means.

use super::directive::Directive;
use super::error::Problem;
use super::suggest::closest;
use super::{diagnostics, kept, redis, table, tls};

/// All directives: those a node uses first, in the order of `configs/node.conf`.
pub fn directives() -> impl Iterator<Item = &'static Directive> {
    table::USED
        .iter()
        .chain(tls::USED)
        .chain(diagnostics::USED)
        .chain(redis::FIXED)
        .chain(kept::KEPT)
        .chain(redis::INERT)
}

/// The directive that a name in any case means: its own before that of all names that begin so.
pub(super) fn named(name: &str) -> Option<&'static Directive> {
    let own = directives().find(|directive| directive.name.eq_ignore_ascii_case(name));
    own.or_else(|| directives().find(|directive| directive.is_named(name)))
}

/// What to say about a name that neither Redis nor a node knows.
pub(super) fn unknown(name: &str) -> Problem {
    let suggestion = closest(name, directives().map(|directive| directive.name));
    Problem::new("Bad directive or wrong number of arguments").with_suggestion(suggestion)
}
