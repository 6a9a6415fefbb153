//! What the operator should read at start about the configuration, and how it is said: a redis.conf sets dozens of
//! directives without effect, which would hide the lines that matter.

use std::fmt;

/// Something the operator should read once, at start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The directive it is about, lower case.
    pub directive: String,
    /// What to know about it, without the name.
    pub text: String,
    /// Whether the directive has no effect, whatever its value.
    pub is_inert: bool,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.directive, self.text)
    }
}

/// A line for each, and one for all directives without effect where there are several.
pub(super) fn lines(notices: &[Notice]) -> Vec<String> {
    let (inert, others): (Vec<&Notice>, Vec<&Notice>) =
        notices.iter().partition(|notice| notice.is_inert);
    let mut lines: Vec<String> = others.into_iter().map(Notice::to_string).collect();
    match *inert {
        [] => {}
        [one] => lines.push(one.to_string()),
        _ => lines.push(summary(&inert)),
    }
    lines
}

/// Names them as far as a line has room.
fn summary(inert: &[&Notice]) -> String {
    let mut names = String::new();
    let mut named = 0;
    for notice in inert {
        let name = notice.directive.escape_debug().to_string();
        if names.len() + name.len() > NAMES_BYTES_MAX {
            break;
        }
        let comma = if names.is_empty() { "" } else { ", " };
        names.push_str(comma);
        names.push_str(&name);
        named += 1;
    }
    let more = match inert.len() - named {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!(
        "{} directives are accepted without effect; the book says why (Configuration): {names}{more}",
        inert.len()
    )
}

/// Redis has some 150 such names; those of Debian's redis.conf take less than half of this.
const NAMES_BYTES_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::super::Config;

    fn lines(names: &[&str]) -> Vec<String> {
        let mut config = Config::default();
        for name in names {
            config.set(name, &["1"]).unwrap();
        }
        config.notice_lines()
    }

    #[test]
    fn what_has_no_effect_is_one_line_and_what_matters_has_its_own() {
        assert_eq!(lines(&[]), [""; 0]);
        let reason = "hz: accepted, without effect: a key is gone at its deadline";
        assert!(lines(&["hz"])[0].starts_with(reason));
        let both = lines(&["rdbchecksum", "hz", "restart-delay", "repl-timeout", "hz"]);
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(both[0].starts_with("restart-delay: a fixed delay"));
        assert!(both[1].starts_with("3 directives are accepted without effect"));
        assert!(
            both[1].ends_with(": rdbchecksum, repl-timeout, hz"),
            "{both:?}"
        );
    }

    #[test]
    fn the_line_has_a_bound_and_says_how_many_it_leaves_out() {
        let names: Vec<String> = (0..400).map(|it| format!("repl-\n{it}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let line = &lines(&names)[0];
        assert!(line.len() < 2300 && !line.contains('\n'), "{line}");
        let (begin, left_out) = line.rsplit_once(", and ").unwrap();
        let named = begin.matches("repl-").count();
        assert_eq!(left_out, format!("{} more", 400 - named));
    }
}
