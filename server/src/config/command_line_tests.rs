//! Command lines and files as `quorlock server` gets them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::path::Path;

use super::*;

fn serve(arguments: &[&str], stdin: &str) -> Result<Config, ConfigError> {
    match parse_command_line(arguments, &mut stdin.as_bytes())? {
        Invocation::Serve(config) => Ok(*config),
        other => panic!("{other:?}"),
    }
}

fn refusal(arguments: &[&str], stdin: &str) -> String {
    serve(arguments, stdin).expect_err("a refusal").to_string()
}

fn write(directory: &Path, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn directives_override_the_file_and_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(
        directory.path(),
        "a.conf",
        "port 1\ntimeout 1\nmaxclients 1\n",
    );
    let config = serve(
        &[&file, "--maxclients", "3", "-"],
        "timeout 2\nmaxclients 2\n",
    )
    .unwrap();
    assert_eq!((config.port, config.maxclients), (1, 3));
    assert_eq!(config.value_of("timeout").as_deref(), Some("2"));
    assert_eq!(config.file.as_deref(), Some(Path::new(&file)));
    assert_eq!(serve(&["-"], "port 5").unwrap().port, 5);
    assert_eq!(serve(&["-", "--port", "6"], "port 5").unwrap().port, 6);
    assert_eq!(serve(&[], "port 5").unwrap().port, 6379);
}

#[test]
fn values_are_read_as_redis_reads_them() {
    let config = serve(
        &[
            "--bind",
            "127.0.0.1",
            "-::1",
            "--port 7777",
            "--requirepass",
            "--x y",
            "--save",
            "",
        ],
        "",
    )
    .unwrap();
    assert_eq!(config.value_of("bind").as_deref(), Some("127.0.0.1 -::1"));
    assert_eq!(config.port, 7777);
    let notices: Vec<_> = config.notices().iter().map(|one| &*one.directive).collect();
    assert_eq!(notices, ["requirepass"], "others can read it there");
    assert!(config.notices()[0].text.contains("requirepass-file"));
    assert_eq!(serve(&["-"], "requirepass x").unwrap().notices(), []);
    assert_eq!(serve(&["--requirepass", ""], "").unwrap().notices(), []);
    assert_eq!(config.requirepass.unwrap().as_str(), "--x y");
    for arguments in [
        &["--save"][..],
        &["--save", "--port", "7"],
        &["--save", "", "--port", "7"],
    ] {
        assert_eq!(serve(arguments, "").unwrap().notices(), [], "{arguments:?}");
    }
    assert_eq!(serve(&["--save", "900 1"], "").unwrap().notices().len(), 1);
    assert_eq!(serve(&["--PORT", "7"], "").unwrap().port, 7);
    assert_eq!(serve(&["--port", "7", "--port", "8"], "").unwrap().port, 8);
}

#[test]
fn questions_are_answered_without_a_node() {
    for flag in ["-v", "--version"] {
        let invocation = parse_command_line(&[flag], &mut &b""[..]).unwrap();
        assert!(matches!(invocation, Invocation::Version));
    }
    for flag in ["-h", "--help"] {
        let invocation = parse_command_line(&[flag], &mut &b""[..]).unwrap();
        assert!(matches!(invocation, Invocation::Help));
    }
}

#[test]
fn refusals_on_the_command_line_name_the_option() {
    for (arguments, shown, reason) in [
        (&["--port"][..], ">>> 'port'", "wrong number of arguments"),
        (
            &["--port", "7", "8"],
            ">>> 'port \"7\" \"8\"'",
            "wrong number of arguments",
        ),
        (&["--prot", "7"], ">>> 'prot \"7\"'", "Did you mean 'port'?"),
        (
            &["-x"],
            ">>> '\"-x\"'",
            "Bad directive or wrong number of arguments",
        ),
        (
            &["--", "7"],
            ">>> '\"7\"'",
            "Bad directive or wrong number of arguments",
        ),
        (
            &["--port", "--dir", "x"],
            ">>> 'port \"--dir\" \"x\"'",
            "wrong number of arguments",
        ),
        (
            &["--port", "7", "-", "--dir", "x"],
            ">>> 'port \"7\" \"-\"'",
            "wrong number",
        ),
    ] {
        let error = refusal(arguments, "");
        assert!(error.contains("Reading the command line\n"), "{error}");
        assert!(error.contains(shown) && error.contains(reason), "{error}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.conf");
    let error = refusal(&[missing.to_str().unwrap()], "");
    assert!(
        error.starts_with("Fatal error, can't open config file '"),
        "{error}"
    );
    assert!(
        error.contains("missing.conf") && error.contains("No such file"),
        "{error}"
    );
    let error = refusal(&[directory.path().to_str().unwrap()], "");
    assert!(error.contains("directory"), "{error}");
    let error = refusal(&["/dev/zero"], "");
    assert!(error.contains("more than 4194304 bytes"), "{error}");
}

#[test]
fn files_include_files_within_bounds() {
    let directory = tempfile::tempdir().unwrap();
    let inner = write(directory.path(), "inner.conf", "port 2\ntimeout 2\n");
    let outer = write(
        directory.path(),
        "outer.conf",
        format!("port 1\nmaxclients 1\ninclude \"{inner}\"\nmaxclients 3\n"),
    );
    let config = serve(&[&outer], "").unwrap();
    assert_eq!((config.port, config.maxclients), (2, 3));
    assert_eq!(serve(&["--include", &inner], "").unwrap().port, 2);

    let broken = write(directory.path(), "broken.conf", "\nprot 1\n");
    let error = refusal(&["--include", &broken], "");
    assert!(error.contains(&format!(
        "Reading the configuration file '{broken}', at line 2"
    )));

    let path = directory.path().join("self.conf");
    let line = format!("include {}\n", path.display());
    let itself = write(directory.path(), "self.conf", line.repeat(3));
    assert!(refusal(&[&itself], "").contains("does a file include itself?"));
    let many = write(
        directory.path(),
        "many.conf",
        format!("include {inner}\n").repeat(70),
    );
    assert!(refusal(&[&many], "").contains("more than 64 files are included"));
    assert!(refusal(&["-"], "include /nonexistent/file").contains("can't open config file"));
}

#[test]
fn files_that_are_no_text_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (bytes, reason) in [
        (b"port 1\0".to_vec(), "NUL byte"),
        (b"dir \xff\xfe".to_vec(), "not UTF-8"),
        (
            [b"dir ".to_vec(), vec![b'x'; 70_000]].concat(),
            "more than 65536 bytes",
        ),
        (b"\x7fELF\x02\x01".to_vec(), "Bad directive"),
    ] {
        let file = write(directory.path(), "binary", bytes);
        let error = refusal(&[&file], "");
        assert!(error.contains(reason) && error.len() < 1000, "{error}");
        assert!(!error.contains('\u{7f}'), "{error}");
    }
}
