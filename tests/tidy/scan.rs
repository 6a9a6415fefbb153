//! A small reader of Rust source: blanks comments and literals, and measures functions.
//!
//! It keeps every line break, so line numbers stay true. It knows only as much of the language
//! as that needs; it does not parse.

/// A function with a body: where it starts and how many lines it covers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// The source with comments, strings and character literals replaced by spaces.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end > at {
            code.extend(
                bytes[at..end]
                    .iter()
                    .map(|&b| if b == b'\n' { b'\n' } else { b' ' }),
            );
            at = end;
        } else {
            code.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// The functions that have a body. `code` is what [`code_only`] returned.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let begins_word = at == 0 || !is_word(bytes[at - 1]);
        let name: String = code[at + 3..]
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if !begins_word || name.is_empty() {
            continue;
        }
        if let Some(end) = body_end(bytes, at) {
            let line = 1 + code[..at].matches('\n').count();
            let lines = 1 + code[at..end].matches('\n').count();
            found.push(Function { name, line, lines });
        }
    }
    found
}

/// The lines of conversions (`try_from`, `try_into`) whose failure becomes a default (`unwrap_or` and
/// its kin) in the chain of calls that follows, also from inside an argument of that chain.
pub(crate) fn defaulted_conversions(code: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for conversion in ["try_from", "try_into"] {
        for (at, _) in code.match_indices(conversion) {
            if is_defaulted(code, at + conversion.len()) {
                found.push(1 + code[..at].matches('\n').count());
            }
        }
    }
    found
}

/// Whether the expression goes on to an `unwrap_or` at its own depth or further out, before it ends.
fn is_defaulted(code: &str, from: usize) -> bool {
    let mut depth = 0_usize;
    for (index, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b';' | b',' | b'?' | b'{' if depth == 0 => return false,
            // Only the last expression of a block can be a value that goes on behind it.
            b'}' if depth == 0 && !code[index + 1..].trim_start().starts_with([')', '.']) => {
                return false;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'.' if depth == 0 && code[index..].starts_with(".expect(") => return false,
            b'.' if depth == 0 && code[index..].starts_with(".unwrap_or") => return true,
            _ => {}
        }
    }
    false
}

/// The end of the body that belongs to the signature at `at`; `None` if it has no body.
fn body_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut brackets = 0_usize;
    let mut braces = 0_usize;
    for (index, &byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b';' if braces == 0 && brackets == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let follows_word = at > 0 && is_word(bytes[at - 1]);
    if rest.starts_with(b"//") {
        at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())
    } else if rest.starts_with(b"/*") {
        at + block_comment_length(rest)
    } else if rest[0] == b'"' {
        at + string_length(rest)
    } else if !follows_word && (rest.starts_with(b"r\"") || rest.starts_with(b"r#")) {
        at + raw_string_length(rest)
    } else if rest[0] == b'\'' {
        at + character_length(rest)
    } else {
        at
    }
}

fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut index = 0;
    while index < rest.len() {
        if rest[index..].starts_with(b"/*") {
            depth += 1;
            index += 2;
        } else if rest[index..].starts_with(b"*/") {
            depth -= 1;
            index += 2;
            if depth == 0 {
                return index;
            }
        } else {
            index += 1;
        }
    }
    rest.len()
}

fn string_length(rest: &[u8]) -> usize {
    let mut index = 1;
    while index < rest.len() {
        match rest[index] {
            b'\\' => index += 2,
            b'"' => return index + 1,
            _ => index += 1,
        }
    }
    rest.len()
}

fn raw_string_length(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&b| b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0; // A raw identifier such as r#type.
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = 2 + hashes;
    let found = rest[body..]
        .windows(close.len())
        .position(|window| window == close);
    found.map_or(rest.len(), |length| body + length + close.len())
}

/// A character literal, told from a lifetime by its closing quote.
fn character_length(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        let close = rest.iter().skip(3).position(|&b| b == b'\'');
        return close.map_or(0, |index| index + 4);
    }
    let close = rest.iter().take(6).skip(2).position(|&b| b == b'\'');
    match close {
        // One character may be up to four bytes long; `'a, 'b` is two lifetimes.
        Some(index) if index == 0 || rest[1] >= 0x80 => index + 3,
        _ => 0,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_kept() {
        let text = "a // {\n/* { /* { */ */ b \"{\\\"\n{\" 'x' '{' '\\'' r#\"{\"# c<'d> r#fn";
        let code = code_only(text);
        assert!(!code.contains(['{', '"']), "left: {code}");
        assert_eq!(code.matches('\n').count(), text.matches('\n').count());
        for word in ["a ", " b ", " c<'d>"] {
            assert!(code.contains(word), "{word:?} was lost: {code}");
        }
    }

    #[test]
    fn functions_are_measured_with_their_bodies() {
        let code =
            "fn one(a: [u8; 2]) {\n  if x {\n  }\n}\nfn none();\nfn two() {}\nlet p: fn (u8);";
        let expected = [("one", 1, 4), ("two", 6, 1)];
        let found = functions(code);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (function, (name, line, lines)) in found.iter().zip(expected) {
            assert_eq!((function.name.as_str(), function.line), (name, line));
            assert_eq!(function.lines, lines);
        }
    }
}
