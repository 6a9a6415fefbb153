//! The files of the repository, read once: what every check looks at.
//!
//! Paths are relative to the repository and use `/`. Build output, hidden folders (except the
//! one of the checks themselves) and files that are not text are left out.

use std::fs;
use std::path::{Path, PathBuf};

/// One text file of the repository.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The folder that holds the file; empty at the top.
    pub(crate) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

/// The repository's root: the parent of this package.
pub(crate) fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package
        .parent()
        .expect("this package lies in a folder of the repository")
        .to_path_buf()
}

/// Every text file below `root`, in a stable order.
pub(crate) fn read(root: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        let entries = fs::read_dir(&folder).expect("a folder of the repository can be listed");
        for entry in entries {
            let path = entry
                .expect("a folder of the repository can be listed")
                .path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                if !is_left_out(&name) {
                    pending.push(path);
                }
            } else if name == ".git" {
                // In a worktree it is a file that names a path of this machine.
            } else if let Ok(text) = fs::read_to_string(&path) {
                let relative = path
                    .strip_prefix(root)
                    .expect("the walk stays below the root");
                sources.push(Source {
                    path: relative.to_string_lossy().into_owned(),
                    text,
                });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

fn is_left_out(name: &str) -> bool {
    let is_output = matches!(name, "target" | "node_modules" | "__pycache__");
    is_output || (name.starts_with('.') && name != ".ci")
}
