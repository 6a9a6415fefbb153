//! How a command ended, and the exit code that passes it on.

use std::process::ExitCode;

use crate::exit_code::SIGNAL_BASE;

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Ending {
    /// The code as a shell would show it.
    pub(super) fn exit_code(self) -> ExitCode {
        ExitCode::from(self.code())
    }

    fn code(self) -> u8 {
        match self {
            // A process can only exit with the low eight bits of its code.
            Self::Code(code) => code.to_le_bytes()[0],
            Self::Signal(signal) => u8::try_from(signal)
                .expect("a wait status has seven bits for it")
                .saturating_add(SIGNAL_BASE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(Ending::Code(0).code(), 0);
        assert_eq!(Ending::Code(255).code(), 255);
        assert_eq!(Ending::Signal(15).code(), 143);
        assert_eq!(Ending::Signal(9).code(), 137);
        assert_eq!(Ending::Signal(200).code(), 255);
    }
}
