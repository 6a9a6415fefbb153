//! An error of a package that programs depend on may get another variant: its enum is `#[non_exhaustive]`.

use crate::tree::Source;

/// The folders of those packages.
const FOLDERS: [&str; 6] = [
    "client/",
    "clock/",
    "gateway/",
    "persistence/",
    "quorlock-test/",
    "server/",
];

/// Reports public enums that derive `Error` and list all that it will ever be.
pub(crate) fn errors(source: &Source) -> Vec<String> {
    let is_of_interest = FOLDERS.iter().any(|it| source.path.starts_with(it));
    if !source.is_rust() || !is_of_interest || !source.path.contains("src/") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    // Those of the item that follows.
    let mut attributes = String::new();
    for (number, line) in source.text.lines().enumerate() {
        if line.starts_with("#[") {
            attributes.push_str(line);
        } else if let Some(item) = line.strip_prefix("pub enum ") {
            if derives_error(&attributes) && !attributes.contains("#[non_exhaustive]") {
                problems.push(format!(
                    "{}:{}: {} is an error and not #[non_exhaustive]",
                    source.path,
                    number + 1,
                    item.trim_end_matches(" {")
                ));
            }
            attributes.clear();
        } else if !line.starts_with([' ', ')', '/']) {
            attributes.clear();
        }
    }
    problems
}

fn derives_error(attributes: &str) -> bool {
    let derives = attributes.split("#[derive(").skip(1);
    let names = derives.filter_map(|rest| rest.split(")]").next());
    names
        .flat_map(|names| names.split(", "))
        .any(|name| name == "Error" || name == "thiserror::Error")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let (path, text) = (path.to_owned(), text.to_owned());
        errors(&Source { path, text }).len()
    }

    #[test]
    fn an_error_that_lists_all_that_it_will_be_is_reported() {
        let open = "#[derive(Debug, Error)]\npub enum A {\n}\n";
        assert_eq!(found("client/src/a.rs", open), 1);
        assert_eq!(found("experiment/src/a.rs", open), 0);
        assert_eq!(found("client/tests/a.rs", open), 0);
        let named = "#[derive(Debug, thiserror::Error)]\n/// What.\npub enum A {\n}\n";
        assert_eq!(found("server/src/a.rs", named), 1);
        let closed = "#[derive(Debug, Error)]\n#[non_exhaustive]\npub enum A {\n}\n";
        assert_eq!(found("client/src/a.rs", closed), 0);
        let another = "#[derive(Debug, Error)]\npub struct A;\n\npub enum B {\n}\n";
        assert_eq!(found("client/src/a.rs", another), 0);
    }
}
