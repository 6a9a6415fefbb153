//! What this process is called, for the people who look at a node.

use std::path::Path;
use std::sync::Arc;

/// `PROGRAM@HOST:PID`, in what a connection's name may have: 64 visible ASCII characters without blanks.
pub(crate) fn shown_to_nodes() -> Arc<str> {
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default();
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let pid = std::process::id();
    Arc::from(name(&program.to_string_lossy(), &host, pid))
}

fn name(program: &str, host: &str, pid: u32) -> String {
    let program = match program {
        "" => "quorlock-client",
        program => program,
    };
    format!("{}@{}:{pid}", visible(program), visible(host))
}

/// The beginning of it, with `_` for what a connection's name may not have.
fn visible(text: &str) -> String {
    let shown = |character: char| match character.is_ascii_graphic() {
        true => character,
        false => '_',
    };
    text.chars().take(PART_CHARACTERS_MAX).map(shown).collect()
}

/// Twice this, the two signs and ten digits are 64.
const PART_CHARACTERS_MAX: usize = 26;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_fits_a_connection_whatever_program_and_host_are_called() {
        assert_eq!(name("billing", "web3", 7), "billing@web3:7");
        assert_eq!(name("", "", 7), "quorlock-client@:7");
        assert_eq!(name("my job\n", "\u{e4}", 7), "my_job_@_:7");
        let longest = name(&"p".repeat(500), &"h".repeat(500), u32::MAX);
        assert_eq!(longest.len(), 64);
    }

    #[test]
    fn a_client_is_called_after_its_process() {
        let name = shown_to_nodes();
        assert!(
            name.ends_with(&format!(":{}", std::process::id())),
            "{name}"
        );
        assert!(
            crate::Redlock::builder()
                .node("redis://127.0.0.1:1")
                .build()
                .is_ok()
        );
    }
}
