//! What a directive is: a row of one of the tables, and how a line naming it is treated.
//!
//! What has no effect is told by a notice. Of the directives that tools set while a node runs the value is checked as
//! Redis checks it, and kept, so that they read what they wrote.

use super::error::Problem;
use super::value::{integer, memory, one, show_yes_or_no, yes_or_no};
use super::{Config, warning};

/// One directive. Adding one is adding one row.
#[derive(Debug)]
pub struct Directive {
    /// The name, lower case.
    pub name: &'static str,
    /// The value when nothing is said, written as in the file.
    pub default: &'static str,
    /// What may be written.
    pub allowed: &'static str,
    /// What it means, or why it has no effect or is refused.
    pub summary: &'static str,
    treatment: Treatment,
    is_live: bool,
}

/// Reads the values of a line into the configuration. Must not change anything when it fails.
pub(super) type Set = fn(&mut Config, &[String]) -> Result<(), Problem>;
/// The value in effect.
pub(super) type Show = fn(&Config) -> String;

#[derive(Debug, Clone, Copy)]
enum Treatment {
    /// A node does what it says.
    Used { set: Set, show: Show },
    /// Accepted with any value, without effect, with a notice.
    Inert,
    /// The same with a value that is checked and kept, under the name of the row that holds the value.
    Kept { kind: Kind, holder: &'static str },
    /// The same for all names that begin with this one, which ends with `*`.
    InertFamily,
    /// Only the default is what a node does; anything else is accepted with a notice.
    FixedWithNotice,
    /// Only the default is what a node does; anything else would be unsafe or untrue.
    FixedOrRefused,
    /// Always refused: there is no value of it that a node could honour.
    Refused,
    /// Each line adds something, which CONFIG GET does not show.
    Adds(Set),
    /// `include`: only a file can have it, so the reader of files treats it.
    Include,
}

/// What the value of a directive is that is only kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    YesOrNo,
    /// Within these bounds.
    Integer(i64, i64),
    /// Bytes, at least so many.
    Memory(u64),
    /// Redis's `hz`: a number that is brought within these bounds.
    Clamped(i64, i64),
}

impl Kind {
    /// The value as CONFIG GET shows it.
    fn checked(self, text: &str) -> Result<String, Problem> {
        let most = i64::MAX.cast_unsigned();
        Ok(match self {
            Kind::YesOrNo => show_yes_or_no(yes_or_no(text)?),
            Kind::Integer(least, most) => integer(text, least, most)?.to_string(),
            Kind::Memory(least) => memory::<u64>(text, least, most)?.to_string(),
            Kind::Clamped(least, most) => {
                let number = integer(text, 0, i64::from(i32::MAX))?;
                number.clamp(least, most).to_string()
            }
        })
    }

    const fn allowed(self) -> &'static str {
        match self {
            Kind::YesOrNo => "`yes`, `no`",
            Kind::Integer(..) | Kind::Clamped(..) => "a number",
            Kind::Memory(_) => "bytes",
        }
    }
}

impl Directive {
    pub(super) const fn used(
        name: &'static str,
        default: &'static str,
        allowed: &'static str,
        summary: &'static str,
        set: Set,
        show: Show,
    ) -> Self {
        Self {
            name,
            default,
            allowed,
            summary,
            treatment: Treatment::Used { set, show },
            is_live: false,
        }
    }

    /// The same, which can be changed while the node runs.
    pub(super) const fn live(
        name: &'static str,
        default: &'static str,
        allowed: &'static str,
        summary: &'static str,
        set: Set,
        show: Show,
    ) -> Self {
        Self {
            is_live: true,
            ..Self::used(name, default, allowed, summary, set, show)
        }
    }

    pub(super) const fn inert(
        name: &'static str,
        default: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            name,
            default,
            allowed: "anything",
            summary,
            treatment: Treatment::Inert,
            is_live: false,
        }
    }

    /// All directives whose names begin with `name` before its `*`.
    pub(super) const fn inert_family(name: &'static str, summary: &'static str) -> Self {
        Self {
            treatment: Treatment::InertFamily,
            ..Self::inert(name, "", summary)
        }
    }

    /// Kept and live.
    pub(super) const fn kept(
        name: &'static str,
        default: &'static str,
        kind: Kind,
        summary: &'static str,
    ) -> Self {
        Self {
            allowed: kind.allowed(),
            treatment: Treatment::Kept { kind, holder: name },
            is_live: true,
            ..Self::inert(name, default, summary)
        }
    }

    /// Another name of the same value.
    pub(super) const fn alias(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    pub(super) const fn fixed_with_notice(
        name: &'static str,
        default: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            allowed: default,
            treatment: Treatment::FixedWithNotice,
            ..Self::inert(name, default, summary)
        }
    }

    pub(super) const fn fixed_or_refused(
        name: &'static str,
        default: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            treatment: Treatment::FixedOrRefused,
            ..Self::fixed_with_notice(name, default, summary)
        }
    }

    /// Accepts a second spelling of the one value.
    pub(super) const fn also(mut self, allowed: &'static str) -> Self {
        self.allowed = allowed;
        self
    }

    pub(super) const fn refused(name: &'static str, summary: &'static str) -> Self {
        Self {
            allowed: "nothing",
            treatment: Treatment::Refused,
            ..Self::inert(name, "", summary)
        }
    }

    /// Each line of it adds something.
    pub(super) const fn adds(
        name: &'static str,
        allowed: &'static str,
        summary: &'static str,
        set: Set,
    ) -> Self {
        Self {
            allowed,
            treatment: Treatment::Adds(set),
            ..Self::inert(name, "", summary)
        }
    }

    pub(super) const fn include(summary: &'static str) -> Self {
        Self {
            allowed: "a path",
            treatment: Treatment::Include,
            ..Self::inert(INCLUDE, "", summary)
        }
    }

    /// Whether CONFIG SET can change it.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Whether its value is kept and has no effect.
    pub fn is_kept(&self) -> bool {
        matches!(self.treatment, Treatment::Kept { .. })
    }

    /// Whether no value of it has an effect.
    pub(super) fn is_inert(&self) -> bool {
        matches!(
            self.treatment,
            Treatment::Inert | Treatment::InertFamily | Treatment::Kept { .. }
        )
    }

    /// Whether some or all values of it keep a node from starting.
    pub fn is_refused(&self) -> bool {
        matches!(
            self.treatment,
            Treatment::FixedOrRefused | Treatment::Refused
        )
    }

    /// Whether a later line can take back an earlier one that had to be refused.
    pub(super) fn is_overridable(&self) -> bool {
        matches!(self.treatment, Treatment::FixedOrRefused)
    }

    /// Whether its value must not appear in messages. Among `tls-*` are passwords.
    pub(super) fn is_secret(&self) -> bool {
        matches!(
            self.name,
            "requirepass" | "masterauth" | "user" | "tls-key-file-pass" | "tls-*"
        )
    }

    /// Whether a name, in any case, means this directive.
    pub(super) fn is_named(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(beginning) => name
                .get(..beginning.len())
                .is_some_and(|it| it.eq_ignore_ascii_case(beginning)),
            None => self.name.eq_ignore_ascii_case(name),
        }
    }

    /// The name under which its value counts or is kept: its own, or that of which it is another one. None where it is neither.
    pub(super) fn holder(&self) -> Option<&'static str> {
        match self.treatment {
            Treatment::Used { .. } => Some(self.name),
            Treatment::Kept { holder, .. } => Some(holder),
            _ => None,
        }
    }

    pub(super) fn has_value(&self) -> bool {
        !matches!(
            self.treatment,
            Treatment::InertFamily | Treatment::Refused | Treatment::Include | Treatment::Adds(_)
        )
    }

    /// The value in effect: for what has no effect it is what a node really does, not what was written.
    pub(super) fn show(&self, config: &Config) -> Option<String> {
        match self.treatment {
            Treatment::Used { show, .. } => Some(show(config)),
            Treatment::Kept { holder, .. } => {
                let kept = config.kept.get(holder).map(String::as_str);
                Some(kept.unwrap_or(self.default).to_owned())
            }
            _ if self.has_value() => Some(unquoted(self.default).to_owned()),
            _ => None,
        }
    }

    /// Carries a line out; what the operator should read about it, if anything.
    pub(super) fn apply(
        &self,
        config: &mut Config,
        values: &[String],
    ) -> Result<Option<String>, Problem> {
        if values.is_empty() {
            return Err(Problem::wrong_number_of_arguments());
        }
        let written = values.join(" ");
        let is_default = [self.default, self.allowed]
            .into_iter()
            .any(|value| written.eq_ignore_ascii_case(unquoted(value)));
        match self.treatment {
            Treatment::Used { set, .. } => {
                set(config, values)?;
                Ok(warning::warning(config, self.name).map(str::to_owned))
            }
            Treatment::Kept { kind, holder } => {
                let value = kind.checked(one(values)?)?;
                config.kept.insert(holder, value);
                Ok(Some(format!("accepted, without effect: {}", self.summary)))
            }
            Treatment::Inert | Treatment::InertFamily => {
                Ok(Some(format!("accepted, without effect: {}", self.summary)))
            }
            Treatment::FixedWithNotice | Treatment::FixedOrRefused if is_default => Ok(None),
            Treatment::FixedWithNotice => Ok(Some(format!(
                "accepted, without effect, a node runs with '{} {}': {}",
                self.name, self.allowed, self.summary
            ))),
            Treatment::FixedOrRefused => Err(Problem::new(format!(
                "a node runs with '{} {}' only: {}",
                self.name, self.allowed, self.summary
            ))),
            Treatment::Adds(set) => set(config, values).map(|()| None),
            Treatment::Refused => Err(Problem::new(format!("refused: {}", self.summary))),
            Treatment::Include => Err(Problem::new(
                "only a configuration file can include another one",
            )),
        }
    }
}

/// Defaults are written as in the file, where nothing is written as two quotes.
fn unquoted(default: &'static str) -> &'static str {
    if default == "\"\"" { "" } else { default }
}

/// The directive that reads another file in its place.
pub(super) const INCLUDE: &str = "include";
