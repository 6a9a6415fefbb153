//! The text of a configuration file, and lines of CONFIG SET and ACL SETUSER behind it.
//!
//! An error is short and names its line. CONFIG REWRITE leaves a file alone that says what is in force, and what it has written
//! is read as what was in force.

#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use quorlock_node::config::{Config, ConfigError, Files, Invocation, Origin, parse, words};
use quorlock_node::session::fuzzing::{Users, rewrite};

fuzz_target!(|input: &[u8]| {
    // What stands behind a zero byte is set while the node runs.
    let (text, set) = match input.iter().position(|byte| *byte == 0) {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &[][..]),
    };
    let folder = Folder::with(text);
    let started = match read(&folder) {
        Ok(config) => config,
        Err(error) => return check_error(&error, text),
    };
    let mut users = Users::of(&started);
    let done = rewrite(&started, Path::new(FILE), &folder, &started, &users);
    assert_eq!(done, Ok(()), "nothing was set");
    assert_eq!(
        folder.text().escape_ascii().to_string(),
        ended(text).escape_ascii().to_string(),
        "the file said what is in force"
    );
    let mut config = started.clone();
    for line in set.split(|byte| *byte == b'\n') {
        apply(&mut config, &mut users, line);
    }
    let before = folder.text();
    match rewrite(&config, Path::new(FILE), &folder, &started, &users) {
        Ok(()) => check_rewritten(&config, &users, &folder),
        Err(why) => {
            assert!(!why.contains('\n'), "{why:?} has lines");
            // A file that is included behind may say otherwise, and a configuration is text.
            let is_text = std::str::from_utf8(&users.write()).is_ok();
            assert!(includes(text) || !is_text, "{why}");
            assert!(folder.text() == before, "it has failed and written");
        }
    }
});

/// As a node does when it starts.
fn read(folder: &Folder) -> Result<Config, ConfigError> {
    match parse(&[FILE], &mut io::empty(), folder)? {
        Invocation::Serve(config) => Ok(*config),
        other => panic!("{other:?} of a file"),
    }
}

/// As CONFIG SET does, and ACL SETUSER, with a line in place of a request.
fn apply(config: &mut Config, users: &mut Users, line: &[u8]) {
    if let Some(rules) = line.strip_prefix(b"user ") {
        let words: Vec<&[u8]> = rules.split(|byte| *byte == b' ').collect();
        let (name, rules) = words.split_first().expect("a split has a part");
        // What is refused changes nothing.
        let _ = users.set(name, rules);
        return;
    }
    let Ok(words) = words(line) else {
        return;
    };
    if let Some((name, values)) = words.split_first()
        && Config::is_live(name)
    {
        let before = config.value_of(name);
        if let Err(problem) = config.set(name, values) {
            assert!(!problem.to_string().contains('\n'), "{problem} has lines");
            assert_eq!(config.value_of(name), before, "refused, and set");
        }
    }
}

fn check_error(error: &ConfigError, text: &[u8]) {
    let lines = text.split(|byte| *byte == b'\n').count();
    let shown = error.to_string();
    assert!(shown.len() < ERROR_BYTES_MAX, "{shown}");
    match error {
        ConfigError::Line { origin, .. } => {
            assert_eq!(shown.lines().count(), 4, "{shown}");
            match origin {
                Origin::File { line } => assert!((1..=lines).contains(line), "{shown}"),
                Origin::Included { line, .. } => assert!(*line >= 1, "{shown}"),
                Origin::CommandLine => panic!("{shown}"),
            }
        }
        ConfigError::Unreadable { path, .. } | ConfigError::TooLarge { path, .. } => {
            assert_ne!(path, Path::new(FILE), "{shown}");
        }
        _ => panic!("{shown}"),
    }
}

fn check_rewritten(config: &Config, users: &Users, folder: &Folder) {
    let text = folder.text();
    let again = read(folder).unwrap_or_else(|error| {
        panic!(
            "what was written is not read: {error}\n{}",
            text.escape_ascii()
        )
    });
    // These are left as the file has them; a folder becomes a whole path.
    let left = ["first-start", "restart-delay", "trust-fsync", "dir"];
    for name in config.names().filter(|name| !left.contains(name)) {
        let (expected, found) = (config.value_of(name), again.value_of(name));
        assert_eq!(found, expected, "{name} of\n{}", text.escape_ascii());
    }
    if config.aclfile.is_none() {
        // The file may leave the password of the default user to another one.
        let named = |users: &Users| {
            let lines = users.write();
            let lines = lines.split(|byte| *byte == b'\n');
            let others = lines.filter(|line| !line.starts_with(b"user default "));
            // A line gives a user this word, which means nothing.
            let is_said = |word: &&[u8]| *word != b"sanitize-payload";
            let said = |line: &[u8]| {
                let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(is_said).collect();
                words.join(&b' ').escape_ascii().to_string()
            };
            others.map(said).collect::<Vec<String>>()
        };
        assert_eq!(
            named(&Users::of(&again)),
            named(users),
            "{}",
            text.escape_ascii()
        );
    }
}

fn includes(text: &[u8]) -> bool {
    let text = text.to_ascii_lowercase();
    text.windows(7).any(|word| word == b"include")
}

/// The text as lines, each of which ends. One empty line is none.
fn ended(text: &[u8]) -> Vec<u8> {
    if text == b"\n" {
        return Vec::new();
    }
    let mut text = text.to_vec();
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
    text
}

/// A folder in memory: the file of a configuration, and what it may include.
struct Folder(RefCell<BTreeMap<PathBuf, Vec<u8>>>);

impl Folder {
    fn with(text: &[u8]) -> Self {
        let files = [
            (FILE, text),
            ("inner.conf", b"port 7\nuser inner on\ntimeout 5\n"),
            ("password", b"from a file\n"),
        ];
        let files = files.map(|(name, text)| (PathBuf::from(name), text.to_vec()));
        Self(RefCell::new(files.into()))
    }

    fn text(&self) -> Vec<u8> {
        self.0.borrow()[Path::new(FILE)].clone()
    }
}

impl Files for Folder {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        let files = self.0.borrow();
        let text = files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Cursor::new(text.clone())))
    }

    fn is_special(&self, _: &Path) -> bool {
        false
    }

    fn absolute(&self, path: &Path) -> Option<PathBuf> {
        Some(Path::new("/folder").join(path))
    }

    fn is_public(&self, _: &Path) -> bool {
        false
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().insert(path.to_owned(), bytes.to_vec());
        Ok(())
    }
}

const FILE: &str = "node.conf";
/// A path of the text may be in it.
const ERROR_BYTES_MAX: usize = 80 << 10;
