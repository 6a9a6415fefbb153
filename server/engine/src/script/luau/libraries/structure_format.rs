//! The formats of `struct`: one option after the other, with its size and alignment.

use mlua::Error;

use crate::script::luau::libraries::native::NativeCall;

/// A format that is being read.
pub(super) struct StructureFormat<'a> {
    call: &'a NativeCall<'a>,
    rest: &'a [u8],
    pub(super) is_big_endian: bool,
    alignment: usize,
}

/// One option: its letter, and how many bytes it takes. 0 where the data decides, or where it takes
/// none.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) option: u8,
    pub(super) size: usize,
}

impl<'a> StructureFormat<'a> {
    /// The text up to the first zero.
    pub(super) fn new(call: &'a NativeCall<'a>, text: &'a [u8]) -> StructureFormat<'a> {
        let end = text.iter().position(|&byte| byte == 0);
        StructureFormat {
            call,
            rest: &text[..end.unwrap_or(text.len())],
            is_big_endian: false,
            alignment: 1,
        }
    }

    pub(super) fn next(&mut self) -> mlua::Result<Option<Item>> {
        let Some((&option, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.call.step()?;
        self.rest = rest;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.count(1)?,
            b'i' | b'I' => {
                let size = self.count(4)?;
                if size > INTEGER_BYTES_MAX {
                    return Err(self.call.fault(&format!(
                        "integral size {size} is larger than limit of {INTEGER_BYTES_MAX}"
                    )));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Item { option, size }))
    }

    /// How many bytes come before the item for its alignment, at this position.
    pub(super) fn padding(&self, item: Item, position: usize) -> usize {
        if item.size == 0 || item.option == b'c' {
            return 0;
        }
        let size = item.size.min(self.alignment);
        let last = size.wrapping_sub(1);
        size.wrapping_sub(position & last) & last
    }

    /// Takes an option that says how to read what follows.
    pub(super) fn apply(&mut self, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'>' => self.is_big_endian = true,
            b'<' => self.is_big_endian = false,
            b'!' => {
                let alignment = self.count(8)?;
                if !alignment.is_power_of_two() {
                    let text = format!("alignment {alignment} is not a power of 2");
                    return Err(self.call.fault(&text));
                }
                self.alignment = alignment;
            }
            _ => return Err(self.unknown(option)),
        }
        Ok(())
    }

    fn unknown(&self, option: u8) -> Error {
        let option = char::from(option);
        self.call
            .refuse(1, &format!("invalid format option '{option}'"))
    }

    /// The number behind an option.
    fn count(&mut self, default: usize) -> mlua::Result<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit());
        let count = digits.count();
        if count == 0 {
            return Ok(default);
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        let text = std::str::from_utf8(digits).unwrap_or_default();
        match text.parse::<i32>().map(usize::try_from) {
            Ok(Ok(number)) => Ok(number),
            _ => Err(self.call.fault("integral size overflow")),
        }
    }
}

const INTEGER_BYTES_MAX: usize = 32;
