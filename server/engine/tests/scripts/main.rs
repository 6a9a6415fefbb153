//! Lua scripts, as their callers see them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "../harness/mod.rs"]
mod harness;

mod clock;
mod commands;
mod libraries;
mod limits;
mod locks;
mod lua;
mod protocols;
mod replies;
mod slow_steps;
mod words;

use harness::{Node, render, state_of};
use quorlock_engine::Reply;

/// Runs a script with keys and arguments.
fn eval(node: &mut Node, body: &str, keys: &[&str], rest: &[&str]) -> Reply {
    let count = keys.len().to_string();
    let mut words: Vec<&[u8]> = vec![b"EVAL", body.as_bytes(), count.as_bytes()];
    words.extend(keys.iter().chain(rest).map(|word| word.as_bytes()));
    node.execute(&words)
}

/// Runs a script without any; the reply as text.
fn run(node: &mut Node, body: &str) -> String {
    render(&eval(node, body, &[], &[]))
}
