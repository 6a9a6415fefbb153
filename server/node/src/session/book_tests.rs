//! The book's page of commands is made from the table of commands. Written with
//! `WRITE_THE_BOOK=1 cargo test -p quorlock-server the_books_page_of_commands`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use quorlock_engine::{Description, Documentation, Spec, refused_specs};

use crate::session::introspection::descriptions;

const HEAD: &str = "\
# Commands

Every command of a node as COMMAND tells of it, made from the table that the node itself uses. An arity counts the name; a
negative one is the least. Keys are the first, the last and the step, as in Redis; a last key below 0 counts from the end. The
arguments, which `COMMAND DOCS` tells as well, are behind each table: of `<a|b>` one is sent, of `[a|b]` one or none, and words in
capitals as they stand. What differs from Redis is in [Compatibility](compatibility.md).
";

#[test]
fn the_books_page_of_commands_is_that_of_the_table() {
    let page = page();
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/commands.md");
    if std::env::var_os("WRITE_THE_BOOK").is_some() {
        std::fs::write(place, &page).expect("the book can be written");
    }
    let book = std::fs::read_to_string(place).expect("the page is there");
    for (number, (made, read)) in page.lines().zip(book.lines()).enumerate() {
        assert_eq!(made, read, "line {} of docs/book/commands.md", number + 1);
    }
    assert_eq!(
        page.len(),
        book.len(),
        "docs/book/commands.md has other lines"
    );
}

fn page() -> String {
    let mut groups: BTreeMap<&str, Vec<Description>> = BTreeMap::new();
    for command in descriptions() {
        groups.entry(command.group()).or_default().push(command);
    }
    let mut page = HEAD.to_owned();
    for (group, mut commands) in groups {
        commands.sort_by_key(|command| command.name);
        let _ = write!(page, "\n## {group}\n\n");
        page.push_str("| command | arity | keys | flags | categories | since | |\n");
        page.push_str("|---|---|---|---|---|---|---|\n");
        for command in &commands {
            add_row(&mut page, &command.name.to_uppercase(), command);
            for part in command.about.subcommands {
                let name = format!("{} {}", command.name, part.name).to_uppercase();
                add_row(&mut page, &name, part);
            }
        }
        page.push_str("\n```text\n");
        for command in &commands {
            add_syntax(&mut page, command.name);
            for part in command.about.subcommands {
                add_syntax(&mut page, &format!("{} {}", command.name, part.name));
            }
        }
        page.push_str("```\n");
    }
    page.push_str("\n## Refused\n\n");
    page.push_str("They get Redis's error for an unknown command, and this reason behind it.\n\n");
    page.push_str("| commands | why |\n|---|---|\n");
    let refused: Vec<&Spec> = refused_specs().collect();
    for same in refused.chunk_by(|one, next| one.refusal() == next.refusal()) {
        let names: Vec<String> = same.iter().map(|spec| spec.name.to_uppercase()).collect();
        let why = same[0].refusal().expect("it is refused");
        let _ = writeln!(page, "| {} | {why} |", names.join(", "));
    }
    page
}

fn add_row(page: &mut String, name: &str, command: &Description) {
    let keys = command.keys;
    let keys = match (keys.first, command.about.key_count_at) {
        (0, 0) => String::new(),
        (0, at) => format!("as many as argument {at} says"),
        (first, at) => {
            let fixed = format!("{first} {} {}", keys.last, keys.step);
            let more = format!("{fixed}, and as many as argument {at} says");
            if at == 0 { fixed } else { more }
        }
    };
    let read = documentation(name);
    let _ = writeln!(
        page,
        "| {name} | {} | {keys} | {} | {} | {} | {} |",
        command.arity,
        command.flag_words().join(" "),
        command.category_words().join(" "),
        read.since,
        read.summary,
    );
}

/// Of a name as the page shows it.
fn documentation(name: &str) -> Documentation {
    Documentation::of(&name.to_lowercase().replace(' ', "|"))
}

/// Its arguments without the names of groups and the types, which are for programs.
fn add_syntax(page: &mut String, name: &str) {
    let syntax = documentation(name).syntax;
    if syntax.is_empty() {
        return;
    }
    let mut line = name.to_uppercase();
    let mut separator = " ";
    for word in syntax.split(' ') {
        line.push_str(separator);
        match word.strip_suffix(':').and(word.rfind(['[', '<'])) {
            Some(bracket) => {
                line.push_str(&word[..=bracket]);
                separator = "";
            }
            None => {
                line.push_str(word);
                separator = " ";
            }
        }
    }
    for stated in [":double", ":integer", ":string"] {
        line = line.replace(stated, "");
    }
    let _ = writeln!(page, "{line}");
}
