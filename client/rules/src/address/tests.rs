//! Addresses as people write them, and what of a password an error shows.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
use super::*;

#[test]
fn reads_what_people_write() {
    for (text, shown) in [
        ("redis://127.0.0.1:7001", "redis://127.0.0.1:7001"),
        ("redis://host", "redis://host:6379"),
        ("redis://host/", "redis://host:6379"),
        ("rediss://:secret@DB1:7001/2", "rediss://db1:7001/2"),
        ("redis://[::1]:7001/3", "redis://[::1]:7001/3"),
        ("redis://[fe80::1%eth0]:1", "redis://[fe80::1%25eth0]:1"),
        ("redis://[fe80::1%25eth0]", "redis://[fe80::1%25eth0]:6379"),
        ("redis://:p%40@[0::1]:1", "redis://[::1]:1"),
        ("redis://DB1:7001", "redis://db1:7001"),
        ("redis://:secret@host:1/2", "redis://host:1/2"),
        ("unix:///run/n.sock?db=4", "unix:///run/n.sock?db=4"),
        ("unix:////run/.//n.sock", "unix:///run/n.sock"),
    ] {
        assert_eq!(NodeAddress::parse(text).unwrap().to_string(), shown);
    }
    let node = NodeAddress::parse("redis://me:p%40ss%3A@host:1").unwrap();
    assert_eq!(node.user.as_deref(), Some("me"));
    assert_eq!(node.password.as_deref(), Some("p@ss:"));
    assert!(!format!("{node:?}{node}").contains("p@ss"));
}

#[test]
fn refuses_the_rest_and_says_why() {
    for (text, part) in [
        ("", "write redis://"),
        ("127.0.0.1:7001", "write redis://"),
        ("http://host", "scheme is unknown"),
        ("redis://", "host is missing"),
        ("redis://:7001", "host is missing"),
        ("redis://host:0", "not a port"),
        ("redis://host:65536", "not a port"),
        ("redis://host:", "not a port"),
        ("redis://::1:7001", "brackets"),
        ("redis://[::1", "']'"),
        ("redis://[host]:7001", "not an IPv6 address"),
        ("redis://[]:7001", "host is missing"),
        ("redis://[::1]7001", "behind the ']'"),
        ("redis://[fe80::1]:7001", "needs the interface"),
        ("redis://[fe80::1%25]:7001", "interface behind the '%'"),
        ("redis://[::1%25lo]:7001", "link-local"),
        ("redis://host#1:7001", "characters"),
        ("redis://h\u{f6}st:7001", "xn--"),
        ("redis://host/x", "database"),
        ("redis://host/-1", "database"),
        ("redis://host?x=1", "options"),
        ("redis://u@host", "without a password"),
        ("redis://:%4@host", "hexadecimal"),
        ("redis://ho st", "blanks"),
        ("unix://relative", "absolute"),
        ("unix:///", "absolute"),
        ("unix:////", "no socket"),
        ("unix:///run/../n.sock", "without '..'"),
    ] {
        let error = NodeAddress::parse(text).unwrap_err();
        assert!(error.reason.contains(part), "{text}: {error}");
    }
    let error = NodeAddress::parse("redisx://u:secret@host").unwrap_err();
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn words_of_a_node_end_where_they_repeat_the_password() {
    let node = |password| NodeAddress::parse(&format!("redis://:{password}@h")).unwrap();
    for (password, words, shown) in [
        (
            "secret",
            "ERR unknown 'AUTH' 'secret'",
            "ERR unknown 'AUTH' '...",
        ),
        ("secret%0a", "ERR 'secr", "ERR '..."),
        ("abc", "ERR 'abc'", "ERR '..."),
        ("PASSWORD", "WRONGPASS invalid", "WRONGPASS invalid"),
        ("secret", "secret is unknown", "..."),
        ("secret", "ERR sec", "ERR sec"),
    ] {
        assert_eq!(node(password).without_secrets(words), shown);
    }
    let none = NodeAddress::parse("redis://h").unwrap();
    assert_eq!(none.without_secrets("ERR no"), "ERR no");
}

#[test]
fn no_part_of_a_password_is_in_an_error() {
    for text in [
        "redis://:secret",
        "redis://user:secret",
        "redis://user:1secret/2",
        "redis://user:1/secret",
        "redis://user:secret:7001",
        "redis://user:secret?x",
        "redis://[user:secret",
        "redis://host?password=secret",
        "redis://host?password=secret@1",
        "redis://host?password=1@secret",
        "redis://u:p?secret@host:x",
        "redis://u:p@host?password=secret",
        "redis://u:p@host:secret",
        "redisx://u:p@secret@host",
        "unix://user:secret/run/n.sock",
        "unix:///run/n.sock?password=secret",
        "unix:///run/n.sock?db=secret",
        "user:secret@host",
        "user:secret",
        "redis://user:secret ,",
    ] {
        let error = NodeAddress::parse(text).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{text}: {error}");
    }
    // What is no secret is still shown.
    for (text, shown) in [
        ("127.0.0.1:7001", "'127.0.0.1:7001'"),
        ("redis://h:99999", "'redis://h:...'"),
        ("redisx://u:secret@h:7001/2", "'redisx://...@h:7001/2'"),
        ("redis://[::1%25lo]:7001", "'redis://[::1%25lo]:7001'"),
        ("redisx://[::1]:7001", "'redisx://[::1]:7001'"),
    ] {
        let error = NodeAddress::parse(text).unwrap_err().to_string();
        assert!(error.contains(shown), "{error}");
    }
}
