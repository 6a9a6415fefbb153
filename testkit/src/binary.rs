//! Finds the `quorlock` program that tests of whole processes start.
//!
//! Cargo builds a package's program only for that package's own tests, so it is built here once
//! per test program, with the same profile; that is quick when nothing has changed. It is built with
//! the examples of all packages: then features of dependencies are those of `cargo test`, which
//! has compiled them already. Nothing is built where `QUORLOCK_IS_BUILT` says that it is there: a build would wait for any
//! other one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of the `quorlock` program, built from the sources as they are.
///
/// # Panics
///
/// If the program cannot be built: no test of it can then say anything.
pub fn quorlock() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| build().join("quorlock"))
}

/// The path of an example.
///
/// # Panics
///
/// If the examples cannot be built.
pub fn example(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(build).join("examples").join(name)
}

/// Builds the program and the examples, and gives the folder where programs are put.
fn build() -> PathBuf {
    if std::env::var_os("QUORLOCK_IS_BUILT").is_none() {
        run_cargo();
    }
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.parent().expect("a program lies in a folder");
    // target/<profile>/deps/<test>, but target/<profile>/<program>.
    if folder.ends_with("deps") {
        folder.parent().expect("a test lies in a target folder")
    } else {
        folder
    }
    .to_owned()
}

fn run_cargo() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--bin", "quorlock", "--examples"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    // What Cargo tells a test of its package is none of the build's business: ring's build script reads it, and with ring
    // everything above it would be compiled again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the package has a parent");
    let status = command
        .current_dir(root)
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "the program under test does not build");
}
