//! The public surface of the client, listed from its sources and compared with `public-api.txt`, so
//! that no change of it goes unnoticed.
//!
//! What `lib.rs` makes public is looked up in the files of its module, which may be one of the rules. What needs a feature is not
//! listed, since nothing is promised about it. To accept a change, run the test with
//! `QUORLOCK_ACCEPT_SURFACE=1`.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod listing;
mod sources;

use std::path::Path;

#[test]
fn the_public_surface_is_the_one_that_is_listed() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = package.join("public-api.txt");
    let found = listing::of(&package.join("src"));
    assert!(found.lines().count() > 150, "the sources were read");
    if std::env::var_os("QUORLOCK_ACCEPT_SURFACE").is_some() {
        std::fs::write(&listed, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&listed).unwrap();
    let gone = expected.lines().filter(|line| !has(&found, line));
    let new = found.lines().filter(|line| !has(&expected, line));
    let changes: Vec<String> = gone
        .map(|line| format!("- {line}"))
        .chain(new.map(|line| format!("+ {line}")))
        .collect();
    assert!(
        changes.is_empty() && found == expected,
        "the public surface has changed; if that is meant, run this with QUORLOCK_ACCEPT_SURFACE=1\n{}",
        changes.join("\n")
    );
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|other| other == line)
}

#[test]
fn what_is_public_is_found_and_nothing_else() {
    let file: syn::File = syn::parse_str(
        "#[derive(Clone)] #[must_use = \"why\"] pub struct A { pub a: u8, b: u8 }\n\
         impl A { pub fn one(&self) -> Option<&[u8]> { None } fn two(&self) {}\n\
         #[cfg(feature = \"more\")] pub fn three() {} pub(crate) fn four() {}\n\
         #[doc(hidden)] pub fn five() {} }\n\
         impl std::fmt::Display for A { }\n\
         #[non_exhaustive] pub enum B { One, Two { a: u8 }, Three(Vec<u8>) }\n\
         impl std::fmt::Display for C { }\n",
    )
    .unwrap();
    let lines = |name: &str| listing::item("", name, std::slice::from_ref(&file));
    assert_eq!(
        lines("A"),
        [
            "struct A { pub a: u8, .. } #[must_use]",
            "A::one(&self) -> Option<&[u8]>",
            "impl Clone for A",
            "impl std::fmt::Display for A",
        ]
    );
    assert_eq!(
        lines("B"),
        [
            "enum B #[non_exhaustive]",
            "B::One",
            "B::Three(Vec<u8>)",
            "B::Two { a: u8 }"
        ]
    );
}
