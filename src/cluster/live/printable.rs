//! Text that may hold any character, as a terminal can show it: escaped, and on as many lines as it needs.

/// What is safe to write to a terminal: without control characters, and without those that turn a line around.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(CHARACTERS_MAX) {
        match character {
            '"' | '\'' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
}

/// The same on lines of this width, broken between words where that wastes less than half a line.
pub(super) fn wrapped(text: &str, width: u16) -> Vec<String> {
    let width = usize::from(width);
    if width == 0 {
        return Vec::new();
    }
    let characters: Vec<char> = printable(text).chars().collect();
    let (mut rest, mut lines) = (&characters[..], Vec::new());
    while rest.len() > width {
        let space = rest[..=width].iter().rposition(|it| *it == ' ');
        let end = space.filter(|at| *at > width / 2).unwrap_or(width);
        lines.push(rest[..end].iter().collect());
        rest = rest[end..].strip_prefix(&[' ']).unwrap_or(&rest[end..]);
    }
    lines.push(rest.iter().collect());
    lines
}

const CHARACTERS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_within_those_that_are_too_long() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("a bcdefghijk", 4), ["a bc", "defg", "hijk"]);
        assert_eq!(wrapped("ab\u{1b}[2J", 20), ["ab\\u{1b}[2J"]);
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(wrapped("abc", 1), ["a", "b", "c"]);
        assert!(wrapped("abc", 0).is_empty());
        let long = wrapped(&"x".repeat(10_000), 100);
        assert_eq!(long.len(), 3, "it is bounded");
    }
}
