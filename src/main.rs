//! The `quorlock` command.

fn main() {}
