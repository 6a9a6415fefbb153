//! Rules of users, as ACL SETUSER and as a file.
//!
//! A rule that is refused changes nothing. What is accepted is written (ACL SAVE, ACL LIST) so that a file, and the lines of a
//! configuration, give every user the same rights and passwords.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quorlock_fuzz::Choices;
use quorlock_node::config::Config;
use quorlock_node::session::fuzzing::Users;

fuzz_target!(|input: &[u8]| {
    let mut choices = Choices::new(input);
    let is_file = choices.byte().is_multiple_of(4);
    let text = choices.rest();
    let users = match is_file {
        true => match Users::default().read(text) {
            Ok(users) => users,
            Err(why) => {
                assert!(why.contains("no change") && why.len() < ERROR_BYTES_MAX);
                return;
            }
        },
        false => set(text),
    };
    let written = users.write();
    let shown = || written.escape_ascii();
    let again = Users::default().read(&written);
    let again = again.unwrap_or_else(|why| panic!("{why} in\n{}", shown()));
    assert_eq!(again.write(), written, "{}", shown());
    check_same(&users, &again, text);
    if let Some(configured) = configured(&written) {
        check_same(&users, &configured, text);
    }
});

/// A line is a user and its rules.
fn set(text: &[u8]) -> Users {
    let mut users = Users::default();
    for line in text.split(|byte| *byte == b'\n') {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (name, rules) = words.split_first().expect("a split has a part");
        let before = users.write();
        if let Err(why) = users.set(name, rules) {
            assert!(!why.is_empty());
            assert!(users.write() == before, "it was refused and has changed");
        }
    }
    users
}

/// A configuration with these lines; none where it could not have them, since it is text.
fn configured(written: &[u8]) -> Option<Users> {
    let text = std::str::from_utf8(written).ok()?;
    let mut config = Config::default();
    for line in text.split_terminator('\n') {
        let words: Vec<&str> = line.split(' ').collect();
        let (name, values) = words.split_first().expect("a split has a part");
        assert_eq!(*name, "user");
        let set = config.set(name, values);
        set.unwrap_or_else(|why| panic!("{why} for {line:?}"));
    }
    Some(Users::of(&config))
}

/// Asks both what the users may do with what the rules name.
fn check_same(one: &Users, other: &Users, text: &[u8]) {
    assert_eq!(one.names(), other.names());
    let words = text.split(|byte| matches!(byte, b' ' | b'\n' | b'(' | b')'));
    let named = words.map(|word| {
        let is_sign = |byte: &u8| b"+-~&%RW|<>#".contains(byte);
        let begin = word.iter().position(|byte| !is_sign(byte));
        &word[begin.unwrap_or(0)..]
    });
    let mut named: Vec<&[u8]> = named.take(NAMED_MAX).collect();
    named.extend([&b"key"[..], b""]);
    for user in one.names().iter().take(USERS_MAX) {
        for name in &named {
            for request in requests(name) {
                let may = [one, other].map(|users| users.may(user, &request));
                assert_eq!(
                    may[0],
                    may[1],
                    "{:?} of {:?}",
                    shown(&request),
                    shown(&[&user[..]])
                );
            }
            let accepts = [one, other].map(|users| users.accepts(user, name));
            assert_eq!(
                accepts[0],
                accepts[1],
                "a password of {:?}",
                shown(&[&user[..]])
            );
        }
    }
}

/// Requests with a name as their command, key, channel or subcommand.
fn requests(name: &[u8]) -> [Vec<&[u8]>; 14] {
    [
        vec![name, b"key"],
        vec![b"get", name],
        vec![b"set", name, b"x"],
        vec![b"mget", b"key", name],
        vec![b"sort", name, b"by", b"x*"],
        vec![b"eval", b"return 1", b"1", name],
        vec![b"publish", name, b"x"],
        vec![b"psubscribe", name],
        vec![b"select", name],
        vec![b"config", name, b"x"],
        vec![b"client", name],
        vec![b"acl", name],
        vec![b"lock.acquire", name, b"x", b"1000"],
        vec![b"del", name],
    ]
}

fn shown(words: &[&[u8]]) -> Vec<String> {
    words
        .iter()
        .map(|word| word.escape_ascii().to_string())
        .collect()
}

const ERROR_BYTES_MAX: usize = 64 << 10;
const NAMED_MAX: usize = 12;
const USERS_MAX: usize = 4;
