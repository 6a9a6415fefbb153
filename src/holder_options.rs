//! What the holder of a lock says about itself, for the people who look at it.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use quorlock_client::owner_text;

/// What others see as the holder.
#[derive(Debug, clap::Args)]
pub(crate) struct HolderOptions {
    /// What others see as the holder: user, machine, process and program unless you say otherwise, and '' for the connection alone; not with several names
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
}

impl HolderOptions {
    /// The text of whoever holds the lock for this program. Its arguments are not in it: there may be secrets among them.
    pub(crate) fn text(&self, program: Option<&OsString>) -> Option<String> {
        match &self.owner {
            Some(text) => Some(text.clone()).filter(|text| !text.is_empty()),
            None => Some(owner_text::fitted(&this_process(program))),
        }
    }
}

fn this_process(program: Option<&OsString>) -> String {
    let user = ["LOGNAME", "USER"].into_iter().find_map(|name| {
        let user = env::var(name).ok()?;
        (!user.is_empty()).then_some(user)
    });
    let user = user.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    let user: String = user.chars().take(USER_CHARACTERS_MAX).collect();
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    // Without a program the lock outlives this process.
    let Some(program) = program else {
        return format!("{user}@{host}");
    };
    let program = Path::new(program).file_name().unwrap_or(program);
    let pid = std::process::id();
    format!("{user}@{host}, pid {pid}: {}", program.display())
}

/// So that there is room for the rest.
const USER_CHARACTERS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_says_its_program_without_arguments() {
        let program = OsString::from("/usr/bin/rsync");
        let text = this_process(Some(&program));
        let pid = std::process::id();
        assert!(text.ends_with(&format!(", pid {pid}: rsync")), "{text}");
        assert!(!this_process(None).contains("pid"));
    }

    #[test]
    fn an_empty_text_says_nothing_and_another_one_is_taken_as_it_is() {
        let said = |owner: &str| HolderOptions {
            owner: Some(owner.to_owned()),
        };
        assert_eq!(said("").text(None), None);
        assert_eq!(said("rack 4").text(None).as_deref(), Some("rack 4"));
    }
}
