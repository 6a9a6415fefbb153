//! Where a script takes steps: not all of its operators may come between two looks at the clock.
//!
//! The interpreter looks at the clock at calls and at the ends of loops. An operator that reads a long text as a number,
//! compares or joins such texts takes tens of milliseconds, and a line may hold thousands. So operands get marks:
//!
//! * `(STEP and(b))` costs next to nothing. Once the script holds long texts, which the interpreter notices at its next
//!   step, the global `STEP` is looked up by a function, and each mark is a step (`limits.rs`, `sandbox.luau`).
//! * `(STEP(1,(b)))` is a call, and so a step in any case. It is used where a long text may have come about since the last
//!   step: after a call or a `..`. And where a mark has to come behind what an operand does itself.
//!
//! Few scripts have so many operators in a row that they need a mark.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::script::syntax::lexer::{Edit, Lexeme};

/// What has happened since the last step or mark, at most, on any way through the text.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    /// Operators that may be slow, since the last mark of any kind.
    mark: usize,
    /// The same since the last step.
    step: usize,
    /// A long text may have come about since the last step.
    is_unseen: bool,
}

/// The bytes of an operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The operators of the text before it.
    pub(super) operators_before: usize,
}

pub(super) struct Pace {
    now: Since,
    /// The most since the innermost part of the text began that may be left out or repeated.
    peak: Since,
    /// All operators so far.
    pub(super) operators: usize,
    /// All marks so far.
    marks: usize,
    name: Vec<u8>,
}

impl Since {
    fn most(self, other: Since) -> Since {
        Since {
            mark: self.mark.max(other.mark),
            step: self.step.max(other.step),
            is_unseen: self.is_unseen | other.is_unseen,
        }
    }
}

impl Pace {
    pub(super) fn of(source: &[u8]) -> Pace {
        Pace {
            now: Since::default(),
            peak: Since::default(),
            operators: 0,
            marks: 0,
            name: unused_name(source),
        }
    }

    /// An operator whose last operand was read. The marks that it needs.
    pub(super) fn operator(&mut self, operator: Lexeme, operand: Operand) -> Option<[Edit; 2]> {
        let is_compound = self.operators != operand.operators_before;
        let marks = (self.now.mark >= OPERATORS_MAX.saturating_add(usize::from(is_compound)))
            .then(|| self.marks_of(operand, is_compound));
        self.operators = self.operators.saturating_add(1);
        self.now.mark = self.now.mark.saturating_add(1);
        self.now.step = self.now.step.saturating_add(1);
        self.now.is_unseen |= operator == Lexeme::Fixed("..");
        self.peak = self.peak.most(self.now);
        marks
    }

    fn marks_of(&mut self, operand: Operand, is_compound: bool) -> [Edit; 2] {
        let is_step = is_compound || self.now.is_unseen || self.now.step >= STEP_MAX;
        if is_step {
            self.now = Since::default();
        }
        self.now.mark = 0;
        self.marks = self.marks.saturating_add(1);
        let before = match is_step {
            true => [b"(", &*self.name, b"(1,("].concat(),
            false => [b"(", &*self.name, b" and("].concat(),
        };
        let after: &[u8] = if is_step { b")))" } else { b"))" };
        [
            insertion(operand.from, before),
            insertion(operand.to, after.to_vec()),
        ]
    }

    /// A call was read; one that nothing but a call can be is a step before it.
    pub(super) fn call(&mut self, is_step: bool) {
        if is_step {
            self.now = Since::default();
        }
        self.now.is_unseen = true;
        self.peak = self.peak.most(self.now);
    }

    /// A part of the text begins that may be left out.
    pub(super) fn begin_part(&mut self) -> TextPart {
        let outer = self.peak;
        self.peak = self.now;
        TextPart {
            outer,
            before: self.now,
            marks: self.marks,
        }
    }

    pub(super) fn end_part(&mut self, part: &TextPart) {
        self.now = self.peak;
        self.peak = part.outer.most(self.peak);
    }

    /// A loop begins: its end is a step. Before its first round there is one where [`Pace::end_loop`] says so.
    pub(super) fn begin_loop(&mut self) -> TextPart {
        let part = self.begin_part();
        self.now = Since::default();
        self.peak = self.now;
        part
    }

    /// The step that a loop needs in front, if any; `from` is where it begins. One without marks and with few operators
    /// needs none.
    pub(super) fn end_loop(&mut self, part: &TextPart, from: usize) -> Option<Edit> {
        let before = part.before;
        let is_clean = before.mark == 0 && !before.is_unseen;
        let in_a_row = before.mark.saturating_add(self.peak.mark);
        let needs_step = !is_clean && (self.marks != part.marks || in_a_row > OPERATORS_MAX);
        if !needs_step {
            self.peak.mark = in_a_row;
            self.peak.step = self.peak.step.saturating_add(before.step);
            self.peak.is_unseen |= before.is_unseen;
        }
        self.end_part(part);
        needs_step.then(|| insertion(from, [b" ", &*self.name, b"(1) "].concat()))
    }

    /// A function begins. An operator may call it, which is no step.
    pub(super) fn begin_function(&mut self) -> TextPart {
        let part = self.begin_part();
        self.now = Since {
            is_unseen: true,
            ..Since::default()
        };
        self.peak = self.now;
        part
    }

    /// Its end is a step, and to write it down does nothing.
    pub(super) fn end_function(&mut self, part: &TextPart) {
        self.now = part.before;
        self.peak = part.outer.most(part.before);
    }
}

/// What was before a part of the text.
pub(super) struct TextPart {
    outer: Since,
    before: Since,
    marks: usize,
}

/// A name of the marks that is nowhere in the text: where the usual one is, with the smallest number that none there has.
fn unused_name(source: &[u8]) -> Vec<u8> {
    let mut used = BTreeSet::new();
    let mut is_used = false;
    for (at, part) in source.windows(NAME.len()).enumerate() {
        if part == NAME {
            is_used = true;
            let rest = &source[at.saturating_add(NAME.len())..];
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
            // A text is too short for so many names that the smallest number has more digits.
            let count = digits.count().min(DIGITS_MAX);
            let number = std::str::from_utf8(&rest[..count]).ok();
            used.extend(number.and_then(|number| number.parse::<u32>().ok()));
        }
    }
    if !is_used {
        return NAME.to_vec();
    }
    let free = (0..u32::MAX).find(|number| !used.contains(number));
    let number = free.map_or(String::new(), |number| number.to_string());
    [NAME, number.as_bytes()].concat()
}

const DIGITS_MAX: usize = 9;

fn insertion(at: usize, text: Vec<u8>) -> Edit {
    Edit {
        from: at,
        to: at,
        text: Cow::Owned(text),
    }
}

/// What `sandbox.luau` knows as the beginning of the marks' name.
const NAME: &[u8] = b"__quorlock_step";

/// So many operators follow each other without a mark. One over a text of 60 MB takes 70 ms.
const OPERATORS_MAX: usize = 3;

/// A step is taken after so many operators, though no long text can have come about.
const STEP_MAX: usize = 32;
