//! What decides about a node is told the time: outside a short list nothing there reads a clock.

use std::collections::BTreeMap;

use crate::scan::code_only;
use crate::tree::Source;

/// Where decisions are made.
const DECIDES: [&str; 4] = [
    "server/node/src/event_loop",
    "server/node/src/session/",
    "server/node/src/core/",
    "server/node/src/past",
];

/// The files that read a clock all the same, and how often. The list only gets shorter.
const KNOWN: [(&str, usize); 3] = [
    // How long a write or a sync has kept the device, which who asked for it cannot see: it has waited for locks too.
    ("server/node/src/core/log_writer.rs", 2),
    // Behind the engine's lock, for `core/time.rs`; the second one once a millisecond.
    ("server/node/src/core/state.rs", 2),
    // How long one command took, for statistics alone; about one in sixteen is timed.
    ("server/node/src/session/batch.rs", 2),
];

/// Calls that read a clock themselves or have it read.
const READINGS: [&str; 5] = [
    "clock.raw()",
    "clock.wall_us()",
    "clock.boottime()",
    "clock.stopwatch()",
    "Reading::now(",
];

/// Reports files that read a clock more often than the list says, or less often.
pub(crate) fn readings(sources: &[Source]) -> Vec<String> {
    let mut known: BTreeMap<&str, usize> = KNOWN.into();
    let mut problems = Vec::new();
    for source in sources {
        let is_test = source.path.contains("tests.rs") || source.path.contains("/tests/");
        let decides = DECIDES.iter().any(|place| source.path.starts_with(place));
        if !source.is_rust() || is_test || !decides {
            continue;
        }
        let count = readings_of(&source.text);
        let expected = known.remove(source.path.as_str()).unwrap_or(0);
        if count != expected {
            problems.push(format!(
                "{}: reads a clock {count} times and not {expected}: what decides is told the time",
                source.path
            ));
        }
    }
    problems.extend(
        known
            .keys()
            .map(|path| format!("{path}: is not there any more")),
    );
    problems
}

/// How often a source calls a method of a clock, up to its tests.
fn readings_of(text: &str) -> usize {
    let code = code_only(text);
    let code = code
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(&code);
    let all = READINGS.iter();
    all.map(|reading| code.matches(reading).count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_found_unless_it_is_in_a_comment_or_a_test() {
        let text = "// clock.raw()\nlet a = self.node.clock.raw();\nlet b = clock.wall_us();\n\
                    #[cfg(test)]\nmod tests { clock.raw() }";
        assert_eq!(readings_of(text), 2);
        let path = "server/node/src/event_loop/new.rs".to_owned();
        let text = text.to_owned();
        let problems = readings(&[Source { path, text }]);
        assert!(problems[0].contains("2 times and not 0"), "{problems:?}");
        assert_eq!(problems.len(), 1 + KNOWN.len(), "the others are not there");
    }
}
