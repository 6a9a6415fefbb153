//! Finds the command to run, before anything is locked for it.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Access, access};

use crate::exit_code::{Failure, NOT_EXECUTABLE, NOT_FOUND};

/// A command that exists and may be executed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Program {
    path: PathBuf,
    /// The command as it was typed, and its arguments.
    words: Vec<OsString>,
}

impl Program {
    /// Looks the command up as a shell does: a name with a slash is a path, others are searched
    /// for in `PATH`.
    pub(super) fn find(words: &[OsString]) -> Result<Self, Failure> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        Self::find_in(words, &path)
    }

    fn find_in(words: &[OsString], search_path: &OsStr) -> Result<Self, Failure> {
        let typed = words
            .first()
            .map_or(OsStr::new(""), |word| word.as_os_str());
        let shown = typed.display();
        let candidates: Vec<PathBuf> = if typed.as_encoded_bytes().contains(&b'/') {
            vec![PathBuf::from(typed)]
        } else if typed.is_empty() {
            Vec::new()
        } else {
            std::env::split_paths(search_path)
                .map(|folder| folder.join(typed))
                .collect()
        };
        if let Some(path) = candidates.iter().find(|path| is_executable(path)) {
            return Ok(Self {
                path: path.clone(),
                words: words.to_owned(),
            });
        }
        if let Some(path) = candidates.iter().find(|path| path.is_file()) {
            return Err(Failure::new(
                NOT_EXECUTABLE,
                format!("'{shown}' cannot be executed; the lock was not taken"),
            )
            .remedy(format!("make it executable: chmod +x {}", path.display())));
        }
        if candidates.iter().any(|path| path.is_dir()) && candidates.len() == 1 {
            return Err(Failure::new(
                NOT_EXECUTABLE,
                format!("'{shown}' is a directory, not a command; the lock was not taken"),
            ));
        }
        Err(Failure::new(
            NOT_FOUND,
            format!("there is no command '{shown}'; the lock was not taken"),
        )
        .remedy("check its spelling, or name it with its path; shell words need: sh -c '...'"))
    }

    /// Becomes the command. Returns only if that failed.
    pub(super) fn replace_this_process(&self) -> Failure {
        let mut command = Command::new(&self.path);
        let error = command.arg0(self.typed()).args(self.arguments()).exec();
        Failure::failed(format!("cannot run {}: {error}", self.path.display()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The name the command sees as its own.
    pub(super) fn typed(&self) -> &OsStr {
        self.words
            .first()
            .map_or(self.path.as_os_str(), |word| word.as_os_str())
    }

    pub(super) fn arguments(&self) -> &[OsString] {
        self.words.get(1..).unwrap_or_default()
    }
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// What POSIX systems search when `PATH` is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn code(word: &str, search_path: &OsStr) -> u8 {
        Program::find_in(&[word.into()], search_path).map_or_else(|failure| failure.code, |_| 0)
    }

    #[test]
    fn tells_missing_from_not_executable() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let path = folder.path().as_os_str();
        let file_text = file.to_str().unwrap();
        assert_eq!(code("tool", path), NOT_EXECUTABLE);
        assert_eq!(code(file_text, path), NOT_EXECUTABLE);
        assert_eq!(code("other", path), NOT_FOUND);
        assert_eq!(code("", path), NOT_FOUND);
        assert_eq!(code("./no/such", path), NOT_FOUND);
        assert_eq!(
            code(&format!("{}/", folder.path().display()), path),
            NOT_EXECUTABLE
        );
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(code("tool", path), 0);
        assert_eq!(code(file_text, path), 0);
    }

    #[test]
    fn keeps_the_words_as_typed() {
        let words: Vec<OsString> = ["/bin/sh".into(), "-c".into(), "".into()].into();
        let program = Program::find(&words).unwrap();
        assert_eq!(
            (program.typed(), program.arguments()),
            ("/bin/sh".as_ref(), &words[1..])
        );
    }
}
