//! The password of a node, read from a file.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::Config;
use super::files::SystemFiles;

fn configured(bytes: &[u8]) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let mut config = Config::default();
    config
        .set("requirepass-file", &[path.to_str().unwrap()])
        .unwrap();
    let outcome = config.read_password(&SystemFiles);
    outcome
        .map(|()| config)
        .map_err(|problem| problem.to_string())
}

#[test]
fn a_file_holds_one_line_and_nothing_else() {
    let longest = "x".repeat(512);
    let long = longest.as_bytes();
    for (bytes, password) in [
        (&b"hunter2"[..], "hunter2"),
        (b"hunter2\n", "hunter2"),
        (b"hunter2\r\n", "hunter2"),
        (b" a # \"b ", " a # \"b "),
        (long, &longest),
        (&[long, b"\r\n"].concat(), &longest),
    ] {
        let config = configured(bytes).unwrap();
        assert_eq!(config.requirepass.as_ref().unwrap().as_str(), password);
        assert_eq!(config.notices(), []);
        assert!(!format!("{config:?}").contains(password));
    }
    for bytes in [
        &b""[..],
        b"\n",
        b"hunter2\n\n",
        b"hunter2\nhunter2\n",
        b"hunter2\0",
        b"hunter2\xff",
        &[long, b"x"].concat(),
        &[long, long].concat(),
    ] {
        let said = configured(bytes).unwrap_err();
        assert!(said.contains("one line of UTF-8, 1 to 512 bytes"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn the_later_of_both_directives_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    fs::write(&path, "filed").unwrap();
    let path = path.to_str().unwrap();
    let mut config = Config::default();
    let now = |config: &Config| {
        let values = ["requirepass", "requirepass-file"];
        values.map(|name| config.value_of(name).unwrap())
    };
    config.set("requirepass", &["said"]).unwrap();
    config.set("requirepass-file", &[""]).unwrap();
    assert_eq!(now(&config), ["said", ""]);
    config.set("requirepass-file", &[path]).unwrap();
    assert_eq!(now(&config), ["", path]);
    config.read_password(&SystemFiles).unwrap();
    assert_eq!(now(&config), ["filed", path]);
    fs::remove_file(path).unwrap();
    config.read_password(&SystemFiles).unwrap();
    assert_eq!(now(&config), ["filed", path], "it is read once");
    config.set("requirepass", &["said"]).unwrap();
    assert_eq!(now(&config), ["said", ""]);
    config.set("requirepass-file", &[path]).unwrap();
    config.set("requirepass-file", &[""]).unwrap();
    assert_eq!(now(&config), ["", ""]);
}

#[test]
fn a_file_that_everybody_may_read_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    fs::write(&path, "hunter2").unwrap();
    for (mode, notices) in [(0o644, 1), (0o640, 0), (0o600, 0)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let mut config = Config::default();
        config
            .set("requirepass-file", &[path.to_str().unwrap()])
            .unwrap();
        config.read_password(&SystemFiles).unwrap();
        assert_eq!(config.notices().len(), notices, "{mode:o}");
    }
}
