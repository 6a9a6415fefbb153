//! What a program has to build that embeds a node or takes locks, as `cargo tree` lists it: no more than was promised, and what
//! the book says.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::tree::root;

/// A node without any feature has at most this many crates, its own included.
const NODE_CRATES_MAX: usize = 45;

/// The names and versions of what a package with these features is built of, its own included.
fn crates(package: &str, features: &str) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["tree", "--locked"]);
    cargo.args(["--edges", "normal", "--prefix", "none"]);
    cargo.args(["--package", package, "--no-default-features"]);
    let output = cargo.args(["--features", features]).output();
    let output = output.expect("the cargo that has built this runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let list = String::from_utf8_lossy(&output.stdout);
    // Behind name and version come the folder, and a mark where a crate is listed again.
    let lines = list.lines().filter_map(|line| line.split(" (").next());
    lines.map(str::to_owned).collect()
}

#[test]
fn an_embedded_node_is_as_few_crates_as_the_book_says() {
    let bare = crates("quorlock-server", "").len();
    assert!(bare <= NODE_CRATES_MAX, "{bare} crates");
    let book = fs::read_to_string(root().join("docs/book/embedding.md"));
    let book = book.expect("the book has a chapter on embedding");
    let says = |text: String| assert!(book.contains(&text), "embedding.md says: {text}");
    says(format!("Without any feature a node is {bare} crates"));
    for feature in ["http", "scripts", "tls"] {
        let more = crates("quorlock-server", feature).len() - bare;
        says(format!("| `{feature}` "));
        says(format!("{more} crates less are built"));
    }
    let client = crates("quorlock-client", "").len();
    says(format!("a client {client}"));
}

#[test]
fn the_library_has_no_parser_of_command_lines_and_no_subscriber_of_logs() {
    let library = crates("quorlock", "");
    let is_named = |name: &str| {
        let begins = |package: &String| package.split(' ').next() == Some(name);
        library.iter().any(begins)
    };
    assert!(is_named("quorlock-server") && is_named("quorlock-client"));
    for name in ["clap", "clap_builder", "tracing-subscriber", "mlua", "cc"] {
        assert!(!is_named(name), "the library needs {name}");
    }
}
