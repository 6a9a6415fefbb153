//! Links in prose lead somewhere: to a file of the repository, and to a heading in it. A chapter of the book leads to
//! nothing beside the book, which is published without the rest, and its summary lists every chapter.
//!
//! Links to other sites are not followed: a check must not depend on the network.

use std::collections::BTreeSet;

use crate::tree::Source;

const BOOK: &str = "docs/book/";
const SUMMARY: &str = "docs/book/SUMMARY.md";

/// Reports every relative link that leads nowhere.
pub(crate) fn links(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    for source in sources.iter().filter(|source| source.path.ends_with(".md")) {
        for target in targets(&source.text) {
            if !leads_somewhere(source, target, sources) {
                problems.push(format!(
                    "{}: the link to {target} leads nowhere",
                    source.path
                ));
            } else if leaves_the_book(source, target) {
                problems.push(format!(
                    "{}: the link to {target} leads out of the book; name its address",
                    source.path
                ));
            }
        }
    }
    problems
}

/// Reports chapters that no reader finds, because the book is built from its summary.
pub(crate) fn chapters(sources: &[Source]) -> Vec<String> {
    let summary = sources.iter().find(|source| source.path == SUMMARY);
    let listed = summary.map_or_else(Vec::new, |summary| targets(&summary.text));
    let names = sources
        .iter()
        .filter(|source| source.path != SUMMARY)
        .filter_map(|source| source.path.strip_prefix(BOOK))
        .filter(|name| name.ends_with(".md"));
    names
        .filter(|name| !listed.contains(name))
        .map(|name| format!("{SUMMARY} does not list {name}"))
        .collect()
}

fn leaves_the_book(source: &Source, target: &str) -> bool {
    let file = target.split_once('#').map_or(target, |(file, _)| file);
    let is_local = !target.contains("://") && !target.starts_with("mailto:") && !file.is_empty();
    is_local && source.path.starts_with(BOOK) && !join(source.folder(), file).starts_with(BOOK)
}

/// The targets of `[text](target)`, code blocks and code spans left out.
fn targets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_code_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code_block = !is_code_block;
        }
        if is_code_block {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let is_in_span = line[..at].matches('`').count() % 2 == 1;
            if let Some(end) = line[at..].find(')')
                && !is_in_span
            {
                found.push(&line[at + 2..at + end]);
            }
        }
    }
    found
}

fn leads_somewhere(source: &Source, target: &str, sources: &[Source]) -> bool {
    if target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        source.path.clone()
    } else {
        join(source.folder(), file)
    };
    let Some(found) = sources.iter().find(|other| other.path == path) else {
        let folder = format!("{}/", path.trim_end_matches('/'));
        return heading.is_empty() && sources.iter().any(|other| other.path.starts_with(&folder));
    };
    heading.is_empty() || headings(&found.text).contains(heading)
}

fn join(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The anchors of a page's headings, as the book and the forge make them.
fn headings(text: &str) -> BTreeSet<String> {
    let anchor = |line: &str| -> String {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(anchor)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_reported() {
        let file = |path: &str, text: &str| Source {
            path: path.into(),
            text: text.into(),
        };
        let page = "# One two\n[a](../README.md) [b](#one-two) [c](https://example.org/x)\n\
                    `[code](gone.md)`\n```\n[code](gone.md)\n```\n";
        let fine = [file("README.md", ""), file("docs/page.md", page)];
        assert!(links(&fine).is_empty());
        for bad in ["[a](gone.md)", "[a](#gone)", "[a](../README.md#gone)"] {
            let sources = [file("README.md", ""), file("docs/page.md", bad)];
            assert_eq!(links(&sources).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_link_out_of_the_book_and_a_chapter_that_is_not_listed_are_reported() {
        let file = |path: &str, text: &str| Source {
            path: path.into(),
            text: text.into(),
        };
        let readme = || file("README.md", "[a](docs/book/a.md)");
        let summary = || file(SUMMARY, "[A](a.md)\n[B](b.md)");
        let b = || file("docs/book/b.md", "");
        let fine = [
            readme(),
            summary(),
            file("docs/book/a.md", "[b](b.md)"),
            b(),
        ];
        assert!(links(&fine).is_empty() && chapters(&fine).is_empty());
        let out = [
            readme(),
            summary(),
            file("docs/book/a.md", "[a](../../README.md)"),
            b(),
        ];
        assert_eq!(links(&out).len(), 1);
        let unlisted = [readme(), summary(), b(), file("docs/book/c.md", "")];
        assert_eq!(
            chapters(&unlisted),
            ["docs/book/SUMMARY.md does not list c.md"]
        );
    }
}
