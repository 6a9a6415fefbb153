//! The methods of a type are in the folder of the type or below it: an `impl` elsewhere is an arrow that no `use` shows.

use std::collections::BTreeMap;

use crate::scan::code_only;
use crate::tree::Source;

/// Reports inherent impls far from their types. Types that have a name twice in a package may be meant in either place.
pub(crate) fn impls(sources: &[Source]) -> Vec<String> {
    let mut homes: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    let codes: Vec<(&Source, String)> = sources
        .iter()
        .filter(|source| source.is_rust() && source.path.contains("src/"))
        .map(|source| (source, code_only(&source.text)))
        .collect();
    for (source, code) in &codes {
        for name in code.lines().filter_map(defined) {
            let key = (package(&source.path), name.to_owned());
            homes
                .entry(key)
                .or_default()
                .push(source.folder().to_owned());
        }
    }
    let mut problems = Vec::new();
    for (source, code) in &codes {
        for (number, line) in code.lines().enumerate() {
            let Some(name) = implemented(line) else {
                continue;
            };
            let Some(homes) = homes.get(&(package(&source.path), name.to_owned())) else {
                continue;
            };
            let is_near = homes.iter().any(|home| is_below(source.folder(), home));
            if !is_near {
                problems.push(format!(
                    "{}:{}: methods of {name} belong to its folder, {}",
                    source.path,
                    number + 1,
                    homes.join(" or ")
                ));
            }
        }
    }
    problems
}

fn is_below(folder: &str, home: &str) -> bool {
    folder == home || folder.starts_with(&format!("{home}/"))
}

/// The part of a path before `src/`: what one package is.
fn package(path: &str) -> &str {
    path.find("/src/").map_or("", |end| &path[..end])
}

/// The type that a line at the outermost level defines.
fn defined(line: &str) -> Option<&str> {
    let restricted = || {
        let end = line.strip_prefix("pub(")?.find(") ")?;
        line.get("pub(".len() + end + ") ".len()..)
    };
    let item = line
        .strip_prefix("pub ")
        .or_else(restricted)
        .unwrap_or(line);
    let kinds = ["struct ", "enum "];
    let rest = kinds.iter().find_map(|kind| item.strip_prefix(kind))?;
    Some(word(rest))
}

/// The type to which a line at the outermost level begins to give methods of its own.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    if rest.contains(" for ") {
        return None;
    }
    let rest = match rest.strip_prefix('<') {
        Some(parameters) => &parameters[parameters.find("> ")? + 2..],
        None => rest.strip_prefix(' ')?,
    };
    Some(word(rest))
}

fn word(text: &str) -> &str {
    let end = text.find(|it: char| !it.is_alphanumeric() && it != '_');
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn methods_far_from_their_type_are_reported() {
        let home = source(
            "server/node/src/core/state.rs",
            "pub(crate) struct State {\n}\nenum Kind {}\nimpl State {}",
        );
        let below = source(
            "server/node/src/core/state/more.rs",
            "impl<S: Stream> State<S> {\n}",
        );
        let far = source(
            "server/node/src/runtime/task.rs",
            "impl State {\n}\nimpl Display for State {\n}\nimpl Kind {\n}",
        );
        let other = source("client/src/task.rs", "impl State {\n}");
        assert_eq!(
            impls(&[home, below, far, other]),
            [
                "server/node/src/runtime/task.rs:1: methods of State belong to its folder, server/node/src/core",
                "server/node/src/runtime/task.rs:5: methods of Kind belong to its folder, server/node/src/core",
            ]
        );
    }
}
