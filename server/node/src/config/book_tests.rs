//! The book's chapter on configuration has each directive, with what is in the tables.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use super::*;

#[test]
fn the_book_lists_every_directive() {
    let book = include_str!("../../../../docs/book/configuration.md");
    for directive in directives() {
        assert!(
            book.contains(&format!("`{}`", directive.name)),
            "{}",
            directive.name
        );
    }
}

#[test]
fn the_book_has_the_default_and_the_values_of_every_directive_that_a_node_uses_and_no_other_row() {
    let book = include_str!("../../../../docs/book/configuration.md");
    let (_, rest) = book.split_once("\n## What a node uses\n").unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    for Directive {
        name,
        default,
        allowed,
        ..
    } in table::USED.iter().chain(tls::USED).chain(diagnostics::USED)
    {
        let default = match *default {
            "" => String::new(),
            value => format!("`{value}` "),
        };
        let row = format!("\n| `{name}` | {default}| {allowed} | ");
        assert!(section.contains(&row), "{row}");
    }
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(
        rows.count(),
        table::USED.len() + tls::USED.len() + diagnostics::USED.len()
    );
}

#[test]
fn the_book_lists_what_can_be_changed_while_a_node_runs() {
    let book = include_str!("../../../../docs/book/configuration.md");
    let (_, rest) = book.split_once("`CONFIG SET` changes ").unwrap();
    let (list, _) = rest.split_once(". ").unwrap();
    for directive in directives() {
        let is_listed = list.contains(&format!("`{}`", directive.name));
        let has_effect = directive.is_live() && !directive.is_kept();
        assert_eq!(is_listed, has_effect, "{}", directive.name);
    }
    let (_, rest) = book
        .split_once("\n## What is kept without effect\n")
        .unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    for directive in directives() {
        let is_listed = section.contains(&format!("`{}`", directive.name));
        assert_eq!(is_listed, directive.is_kept(), "{}", directive.name);
    }
}
