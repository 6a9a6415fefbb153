//! A call of a script.

/// What a script is called with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptArguments<'a> {
    pub(crate) keys: &'a [&'a [u8]],
    pub(crate) rest: &'a [&'a [u8]],
    pub(crate) is_read_only: bool,
}
