//! The failure stories of the Redlock literature that a trial can show: what happens, which assumption breaks, what a
//! node does about it, and the cell that replays it.

use std::fmt::Write as _;
use std::process::ExitCode;

use quorlock_experiment::cell::Cell;
use serde_json::json;

use super::crash_recovery;
use super::tried::Product;
use crate::exit_code::Failure;
use crate::output::Format;

/// A story.
struct Story {
    name: &'static str,
    cell: &'static str,
    /// Whose nodes show it.
    product: Product,
    /// Its title, and below it what happens.
    told: &'static str,
}

fn stories() -> impl Iterator<Item = Story> {
    STORIES.trim_end().split("\n\n\n").filter_map(|text| {
        let (heading, told) = text.split_once('\n')?;
        let mut words = heading.split(' ');
        Some(Story {
            name: words.next()?,
            cell: words.next()?,
            product: words
                .next()
                .map_or(Product::Quorlock, |_| Product::RedisServer),
            told,
        })
    })
}

/// Lists all stories.
pub(super) fn list(format: Format) -> ExitCode {
    let mut text = String::new();
    for story in stories() {
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "  {:<20} {}", story.name, story.title());
    }
    text.push_str("\nTell and replay one, in under ten seconds: quorlock experiment show NAME");
    let names: Vec<_> = stories().map(|story| story.json()).collect();
    format.result(text, &names);
    ExitCode::SUCCESS
}

/// Tells a story, and replays it if that is wanted.
pub(super) fn show(name: &str, replays: bool, format: Format) -> Result<ExitCode, Failure> {
    let Some(story) = stories().find(|story| story.name == name) else {
        let names: Vec<&str> = stories().map(|story| story.name).collect();
        return Err(
            Failure::usage(format!("there is no story '{name}'; nothing was replayed"))
                .remedy(format!("choose one of: {}", names.join(", "))),
        );
    };
    format.result(story.text(), &story.json());
    match replays {
        true => crash_recovery::replay(story.product, story.cell()?, format),
        false => Ok(ExitCode::SUCCESS),
    }
}

impl Story {
    fn cell(&self) -> Result<Cell, Failure> {
        self.cell.parse().map_err(Failure::failed)
    }

    fn title(&self) -> &str {
        self.told.lines().next().unwrap_or_default()
    }

    fn text(&self) -> String {
        let server = match self.product {
            Product::Quorlock => "",
            Product::RedisServer => "--server redis-server ",
        };
        let (told, cell) = (self.told, self.cell);
        format!("{told}\n\nReplay: quorlock experiment crash-recovery {server}--cell {cell}\n")
    }

    fn json(&self) -> serde_json::Value {
        json!({"story": self.name, "title": self.title(), "cell": self.cell})
    }
}

/// Each story: its name, its cell and whose nodes show it, unless they are ours; its title; what happens. Two empty lines
/// stand between them.
const STORIES: &str = include_str!("stories.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_story_can_be_replayed_and_told_in_ten_lines() {
        assert_eq!(stories().count(), 19);
        for story in stories() {
            let cell = story.cell().expect(story.name);
            assert_eq!(cell.refusal(), None, "{}", story.name);
            let lines = story.text().trim_end().lines().count();
            assert!(lines <= 12, "{}: {lines} lines", story.name);
        }
    }
}
