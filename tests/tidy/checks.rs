//! The checks of one file each. A check takes a source and returns what is wrong with it.
//!
//! The words that must not occur are put together here, so that this file may name them.

use crate::scan;
use crate::tree::Source;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// Every Rust file says at its top what it is, what holds in it and what it leaves to others.
pub(crate) fn opening(source: &Source) -> Vec<String> {
    if source.is_rust() && !source.text.starts_with("//!") {
        return vec![format!(
            "{}: does not open with a `//!` comment",
            source.path
        )];
    }
    Vec::new()
}

/// Files and functions stay small enough to be read.
pub(crate) fn length(source: &Source) -> Vec<String> {
    if !source.is_rust() {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        let path = &source.path;
        problems.push(format!(
            "{path}: {lines} lines; split it before {FILE_LINES_MAX}"
        ));
    }
    for function in scan::functions(&scan::code_only(&source.text)) {
        if function.lines > FUNCTION_LINES_MAX {
            problems.push(format!(
                "{}:{}: `{}` has {} lines; {FUNCTION_LINES_MAX} fit on a screen",
                source.path, function.line, function.name, function.lines
            ));
        }
    }
    problems
}

/// Nothing lands half done.
pub(crate) fn marks(source: &Source) -> Vec<String> {
    let marks = [
        concat!("FIX", "ME"),
        concat!("TO", "DO"),
        concat!("XX", "X"),
        concat!("db", "g!("),
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
    ];
    let mut problems = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        for mark in marks {
            if contains_word(line, mark) {
                problems.push(format!(
                    "{}:{}: left-over `{mark}`",
                    source.path,
                    number + 1
                ));
            }
        }
    }
    problems
}

/// Sources are ASCII, so that what is read is what is there. Prose may use any letter.
pub(crate) fn ascii(source: &Source) -> Vec<String> {
    let is_prose = source.path.ends_with(".md") || source.path.ends_with(".lock");
    if is_prose {
        return Vec::new();
    }
    let lines = source
        .text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.is_ascii());
    lines
        .map(|(n, _)| format!("{}:{}: not ASCII", source.path, n + 1))
        .collect()
}

/// A path of the machine somebody wrote this on means nothing to anybody else.
pub(crate) fn machine_paths(source: &Source) -> Vec<String> {
    let prefixes = [
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/wo", "rk/"),
    ];
    let mut problems = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        for prefix in prefixes {
            if begins_path(line, prefix) {
                let path = &source.path;
                problems.push(format!("{path}:{}: a path below {prefix}", number + 1));
            }
        }
    }
    problems
}

/// A file is named by its one idea; these names say nothing.
pub(crate) fn names(source: &Source) -> Vec<String> {
    let empty_names = [
        "util", "utils", "common", "helper", "helpers", "misc", "manager",
    ];
    let said_nothing = source.path.split('/').any(|part| {
        let stem = part.split('.').next().unwrap_or(part);
        empty_names.contains(&stem)
    });
    if said_nothing {
        return vec![format!("{}: name it by what it holds", source.path)];
    }
    Vec::new()
}

/// A node reads the clock it was given. The machine's is chosen where a node is put together, and by
/// tools that have no node.
pub(crate) fn clock_seam(source: &Source) -> Vec<String> {
    let chooses = [
        "server/src/clock.rs",
        "server/src/node/builder.rs",
        "server/src/node/relocation.rs",
        "server/src/inspection/",
        "server/src/append_only/",
    ];
    let path = &source.path;
    if !source.is_rust()
        || !path.starts_with("server/src/")
        || chooses.iter().any(|it| path.starts_with(it))
    {
        return Vec::new();
    }
    lines_with(
        source,
        "SystemClock",
        "use the clock that the node was given",
    )
}

/// Commands run while the engine is locked, and a line of the log may wait for a full pipe: the batch
/// writes it once the engine is released.
pub(crate) fn session_lines(source: &Source) -> Vec<String> {
    let path = &source.path;
    if !path.starts_with("server/node/src/session/") || path.ends_with("/batch.rs") {
        return Vec::new();
    }
    lines_with(source, "tracing", "give the line to the batch")
}

/// A number that does not fit is an error, or cannot be: it never becomes another number in silence.
/// Where a length or a count may saturate, a function says so in its name and its comment.
pub(crate) fn made_up_numbers(source: &Source) -> Vec<String> {
    let path = &source.path;
    let is_production = path.starts_with("src/") || path.contains("/src/");
    // What tests, simulates and measures saturates where the node and the client may not.
    let tooling = [
        "tests/",
        "testkit/",
        "quorlock-test/",
        "benches/",
        "experiment/",
        "simulation/",
    ];
    let is_tooling = tooling.iter().any(|folder| path.starts_with(folder));
    if !source.is_rust() || !is_production || is_tooling {
        return Vec::new();
    }
    let code = scan::code_only(&source.text);
    let functions = scan::functions(&code);
    let lines = scan::defaulted_conversions(&code).into_iter();
    lines
        .filter(|line| {
            let holds = |it: &&scan::Function| (it.line..it.line + it.lines).contains(line);
            let function = functions.iter().rfind(holds);
            let function = function.map_or("", |it| it.name.as_str());
            !MAY_SATURATE.contains(&(path.as_str(), function))
        })
        .map(|line| {
            format!(
                "{path}:{line}: a conversion that ends in a default; say why it cannot fail, return an \
                 error, or use the crate's `saturated`"
            )
        })
        .collect()
}

/// The function that saturates; and where a limit of the configuration goes beyond
/// what can be counted there, which limits nothing.
const MAY_SATURATE: [(&str, &str); 4] = [
    ("clock/src/length.rs", "saturated"),
    ("server/node/src/event_loop/guard.rs", "memory_limit_bytes"),
    (
        "server/node/src/event_loop/limits.rs",
        "unlimited_output_bytes",
    ),
    ("server/src/runtime/listener.rs", "bind"),
];

fn lines_with(source: &Source, word: &str, advice: &str) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    lines
        .filter(|(_, line)| contains_word(line, word))
        .map(|(number, _)| format!("{}:{}: {word}: {advice}", source.path, number + 1))
        .collect()
}

/// Whether `word` stands in `line` with no word character before or after it.
fn contains_word(line: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let ends_open = word.ends_with('(');
        !before.is_some_and(is_word) && (ends_open || !after.is_some_and(is_word))
    })
}

/// Whether an absolute path with this prefix begins somewhere in the line.
fn begins_path(line: &str, prefix: &str) -> bool {
    line.match_indices(prefix).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | '}'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Source {
        Source {
            path: "server/src/node.rs".into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_file_without_an_opening_comment_is_reported() {
        assert_eq!(opening(&rust("use std::fs;\n")).len(), 1);
        assert!(opening(&rust("//! The node.\n")).is_empty());
    }

    #[test]
    fn long_files_and_functions_are_reported_from_one_line_too_many() {
        assert!(length(&rust(&"x\n".repeat(500))).is_empty());
        assert_eq!(length(&rust(&"x\n".repeat(501))).len(), 1);
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "x;\n".repeat(lines - 2));
        assert!(length(&rust(&function(70))).is_empty());
        assert_eq!(length(&rust(&function(71))).len(), 1);
    }

    #[test]
    fn left_over_marks_are_reported() {
        for mark in [
            concat!("// FIX", "ME: x"),
            concat!("db", "g!(x)"),
            concat!("to", "do!()"),
        ] {
            assert_eq!(marks(&rust(mark)).len(), 1, "{mark}");
        }
        assert!(marks(&rust("let mastodons = 1; my_todo(1);")).is_empty());
    }

    #[test]
    fn letters_outside_ascii_are_reported_in_sources_only() {
        let text = "let a = \"\u{e4}\";";
        assert_eq!(ascii(&rust(text)).len(), 1);
        assert!(
            ascii(&Source {
                path: "README.md".into(),
                text: text.into()
            })
            .is_empty()
        );
    }

    #[test]
    fn a_path_of_one_machine_is_reported() {
        for path in [concat!("cd /wo", "rk/main"), concat!("\"/ho", "me/me\"")] {
            assert_eq!(machine_paths(&rust(path)).len(), 1, "{path}");
        }
        assert!(machine_paths(&rust(concat!("target/wo", "rk/x"))).is_empty());
    }

    #[test]
    fn the_machines_clock_and_a_line_under_the_engine_are_reported() {
        let at = |path: &str, text: &str| Source {
            path: path.into(),
            text: text.into(),
        };
        let reads = "let now = SystemClock.raw();";
        assert_eq!(
            clock_seam(&at("server/src/runtime/worker.rs", reads)).len(),
            1
        );
        for path in [
            "server/src/clock.rs",
            "server/tests/x.rs",
            "client/src/x.rs",
        ] {
            assert_eq!(clock_seam(&at(path, reads)).len(), 0, "{path}");
        }
        let writes = "tracing::warn!(\"x\");";
        assert_eq!(
            session_lines(&at("server/node/src/session/config.rs", writes)).len(),
            1
        );
        assert_eq!(
            session_lines(&at("server/node/src/session/batch.rs", writes)).len(),
            0
        );
        assert_eq!(
            session_lines(&at("server/src/node/start.rs", writes)).len(),
            0
        );
    }

    #[test]
    fn a_number_that_is_made_up_is_reported() {
        let at = |path: &str, text: &str| {
            made_up_numbers(&Source {
                path: path.into(),
                text: text.into(),
            })
        };
        let found = |text: &str| at("persistence/src/space.rs", text).len();
        for text in [
            "let x = u64::try_from(f(a, (b))).unwrap_or(0);",
            "let x: u8 = a.try_into().unwrap_or_default();",
            "let x = u64::try_from(a)\n    // Why not.\n    .ok()\n    .unwrap_or_else(|| 0);",
            "let x = a.and_then(|a| u8::try_from(a).ok()).unwrap_or(0);",
            "let x = a.map(u8::try_from).unwrap_or(Ok(0));",
            "let x = a.and_then(|a| { f(); u8::try_from(a).ok() }).unwrap_or(0);",
        ] {
            assert_eq!(found(text), 1, "{text}");
        }
        for text in [
            "let x = u64::try_from(a).expect(\"fits\"); y.unwrap_or(0);",
            "let x = u64::try_from(a)?; let y = b.unwrap_or(0);",
            "f(u64::try_from(a).ok(), b.unwrap_or(0));",
            "let x = u64::try_from(a.unwrap_or(0)).ok();",
            "// u64::try_from(a).unwrap_or(0)",
            "fn f() -> R { u64::try_from(a) }\nfn g() { a }\n.unwrap_or(0)",
            "match u64::try_from(a) { Ok(a) => a, _ => b.unwrap_or(0) }",
        ] {
            assert_eq!(found(text), 0, "{text}");
        }
        let saturates =
            "//! x\nfn saturated(n: u128) -> u64 {\n    u64::try_from(n).unwrap_or(u64::MAX)\n}\n";
        assert!(at("clock/src/length.rs", saturates).is_empty());
        assert!(at("tests/src/history.rs", saturates).is_empty());
        assert_eq!(at("server/node/src/past.rs", saturates).len(), 1);
        let renamed = saturates.replace("saturated", "nanos");
        let expected = ["clock/src/length.rs:3"];
        let problems = at("clock/src/length.rs", &renamed);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with(expected[0]), "{problems:?}");
    }

    #[test]
    fn a_name_that_says_nothing_is_reported() {
        let named = |path: &str| {
            names(&Source {
                path: path.into(),
                text: String::new(),
            })
            .len()
        };
        assert_eq!(named("server/src/util.rs"), 1);
        assert_eq!(named("client/src/helpers/x.rs"), 1);
        assert_eq!(named("client/src/lease.rs"), 0);
    }
}
