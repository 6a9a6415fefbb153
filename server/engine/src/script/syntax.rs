//! Lua 5.1's syntax, for an interpreter with a larger one: scripts are what Redis compiles, and mean the same.
//!
//! The interpreter reads more than Redis does (`continue`, `+=`, types), and reads some literals in another way. A text
//! that Redis refuses is refused here in the same words; what is read differently is written so that it is read alike.
//! Lines keep their numbers. The interpreter compiles the result, and has limits of its own.

mod expressions;
mod lexer;
mod literals;
mod pace;
mod parser;
mod reader;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub(super) use lexer::Refusal;

/// A script as the interpreter has to read it, or why it is none. Nearly all are left as they are.
pub(super) fn translated(source: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
    let mut edits = parser::parse(source)?;
    if edits.is_empty() {
        return Ok(Cow::Borrowed(source));
    }
    // The `arg` of a function is known once all of the function was read. What is put in front of a lexeme comes before
    // what the lexeme is replaced by.
    edits.sort_by_key(|edit| (edit.from, edit.to));
    let mut text = Vec::with_capacity(source.len());
    let mut done = 0;
    for edit in edits {
        text.extend(&source[done..edit.from]);
        text.extend(&*edit.text);
        done = edit.to;
    }
    text.extend(&source[done..]);
    Ok(Cow::Owned(text))
}
