//! The rules of users, as redis-server answers them, and what they allow.

use proptest::prelude::*;
use quorlock_engine::{Categories, all_specs, numbered_spec};

use super::users::rules_of;
use super::*;
use crate::command_numbers;

fn words(text: &str) -> Vec<&[u8]> {
    text.split(' ').map(str::as_bytes).collect()
}

fn with(rules: &[&str]) -> Users {
    let mut users = Users::new(None);
    for one in rules {
        set(&mut users, one).expect("these rules are right");
    }
    users
}

fn set(users: &mut Users, text: &str) -> Result<(), String> {
    let all = words(text);
    let outcome = users.set(all[0], &all[1..]);
    outcome.map_err(|error| String::from_utf8(error).expect("it is a text"))
}

fn described(rules: &str) -> String {
    let users = with(&[&format!("x {rules}")]);
    let user = users.named(b"x").expect("it was just made");
    String::from_utf8(user.describe()).expect("it is a text")
}

/// Checks a request of a user with these rules.
fn check(rules: &str, request: &str) -> Result<(), Denial> {
    let users = with(&[&format!("x {rules}")]);
    let arguments = words(request);
    let (number, spec) = numbered_spec(arguments[0]).expect("it is a command");
    let named = |name: &str| {
        arguments
            .get(1)
            .is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes()))
    };
    let place = spec
        .about
        .subcommands
        .iter()
        .position(|part| named(part.name));
    let asked = CheckedRequest {
        spec,
        number: place.map_or(number, |place| command_numbers::part(number, place)),
        is_part: place.is_some(),
        arguments: &arguments,
    };
    users.named(b"x").expect("it was just made").check(asked)
}

fn key(name: &str) -> Result<(), Denial> {
    Err(Denial::Key(name.into()))
}

fn channel(name: &str) -> Result<(), Denial> {
    Err(Denial::Channel(name.into()))
}

const COMMAND: Result<(), Denial> = Err(Denial::Command);

/// Taken from redis-server 7.0.15, but for rules that change nothing, as `-acl` where there is no right to it: since 7.2, which a node
/// claims to be, they are kept, so that a user can be made again as it was (unit/acl of its own tests).
#[test]
fn rules_are_described_as_redis_does() {
    for (rules, expected) in [
        ("", "off resetchannels -@all"),
        ("reset", "off sanitize-payload resetchannels -@all"),
        (
            "skip-sanitize-payload >x nopass",
            "off nopass skip-sanitize-payload resetchannels -@all",
        ),
        ("~x %r~x %W~y &a &a", "off ~x %W~y resetchannels &a -@all"),
        ("%R~x %w~x", "off ~x resetchannels -@all"),
        (
            "-@all +get +get +set -get",
            "off resetchannels -@all +set -get",
        ),
        (
            "+@all -@dangerous +info",
            "off resetchannels +@all -@dangerous +info",
        ),
        ("+config|GET +config", "off resetchannels -@all +config"),
        ("+acl +acl|cat -acl", "off resetchannels -@all -acl"),
        (
            "+select|0 +DEBUG|Object",
            "off resetchannels -@all +select|0 +debug|object",
        ),
        ("( ~a )", "off resetchannels -@all (~a resetchannels -@all)"),
        (
            "(~a &b) (+get %R~c)",
            "off resetchannels -@all (~a resetchannels &b -@all) (%R~c resetchannels -@all +get)",
        ),
        ("allkeys allchannels allcommands on", "on ~* &* +@all"),
        (
            "allkeys resetkeys allchannels resetchannels",
            "off resetchannels -@all",
        ),
        ("(~a) clearselectors +xadd", "off resetchannels -@all +xadd"),
        ("+client|id +client|kill +@all", "off resetchannels +@all"),
        ("+@all +client|id", "off resetchannels +@all +client|id"),
    ] {
        assert_eq!(described(rules), expected, "{rules}");
    }
}

#[test]
fn rules_are_refused_in_redis_words_and_change_nothing() {
    for (rule, expected) in [
        ("+nosuch", "Unknown command or category name in ACL"),
        ("+@nosuch", "Unknown command or category name in ACL"),
        ("+config|nosuch", "Unknown command or category name in ACL"),
        ("-select|0", "Unknown command or category name in ACL"),
        ("zz", "Syntax error"),
        ("+select|", "Syntax error"),
        ("%~a", "Syntax error"),
        ("%RR~a", "Syntax error"),
        ("%R", "Syntax error"),
        (
            "+config|get|x",
            "Allowing first-arg of a subcommand is not supported",
        ),
        (
            "#zz",
            "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
        ),
        (
            "!zz",
            "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
        ),
        (
            "<zz",
            "The password you are trying to remove from the user does not exist",
        ),
        ("(+nosuch)", "Unknown command or category name in ACL"),
    ] {
        let mut users = with(&["x on ~a &b +get >secret"]);
        let before = users.write();
        let error = set(&mut users, &format!("x +set off {rule} nopass")).expect_err(rule);
        let begin = format!("Error in ACL SETUSER modifier '{rule}': {expected}");
        assert!(error.starts_with(&begin), "{error}");
        assert_eq!(users.write(), before, "{rule}");
    }
    for rules in ["~* ~k", "~* %R~k", "&* &k"] {
        let error = set(&mut with(&[]), &format!("x {rules}")).expect_err(rules);
        let begin = "': Adding a pattern after the * pattern (or the 'all";
        assert!(error.contains(begin), "{error}");
    }
    let mut users = with(&[]);
    let error = set(&mut users, "x (~a &b) (+get");
    assert_eq!(
        error,
        Err("Unmatched parenthesis in acl selector starting at '(+get'.".to_owned())
    );
    let error = users.set(b"a b", &[]);
    assert_eq!(
        error,
        Err(b"Usernames can't contain spaces or null characters".to_vec())
    );
    assert_eq!(users.all().count(), 1);
}

#[test]
fn each_password_of_several_lets_in_until_it_is_removed() {
    let mut users = with(&["x on >old >new"]);
    let accepts = |users: &Users, password: &[u8]| {
        users.named(b"x").is_some_and(|user| user.accepts(password))
    };
    assert!(accepts(&users, b"old") && accepts(&users, b"new"));
    assert!(!accepts(&users, b"ol") && !accepts(&users, b"") && !accepts(&users, b"older"));
    set(&mut users, "x <old").unwrap();
    assert!(!accepts(&users, b"old") && accepts(&users, b"new"));
    set(&mut users, "x off").unwrap();
    assert!(!accepts(&users, b"new"), "it is off");
    set(&mut users, "x on nopass").unwrap();
    assert!(accepts(&users, b"anything"));
    set(&mut users, "x resetpass").unwrap();
    assert!(!accepts(&users, b"anything") && !accepts(&users, b"new"));
    // The hash of the empty password, as sha256sum prints it.
    set(
        &mut users,
        "x #e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    )
    .unwrap();
    assert!(accepts(&users, b""));
}

#[test]
fn commands_and_their_parts_are_allowed_alone() {
    assert_eq!(check("+get ~*", "GET a"), Ok(()));
    assert_eq!(check("+get ~*", "SET a b"), COMMAND);
    assert_eq!(check("+config|get", "CONFIG GET a"), Ok(()));
    assert_eq!(check("+config|get", "config set a b"), COMMAND);
    assert_eq!(check("+@all -config|set", "CONFIG SET a b"), COMMAND);
    assert_eq!(check("+@all -config", "CONFIG GET a"), COMMAND);
    assert_eq!(check("+select|0", "SELECT 0"), Ok(()));
    assert_eq!(check("+select|0", "SELECT 1"), COMMAND);
    assert_eq!(check("+select|0 -select", "SELECT 0"), COMMAND);
    assert_eq!(check("+@read ~*", "GET a"), Ok(()));
    assert_eq!(check("+@read ~*", "SET a b"), COMMAND);
    assert_eq!(check("+@all -@admin", "CLIENT KILL a"), COMMAND);
    assert_eq!(check("-@all", "AUTH a"), Ok(()), "everybody may log in");
    assert_eq!(check("nocommands", "PING"), COMMAND);
}

#[test]
fn keys_are_for_reading_for_writing_or_for_both() {
    for (rules, request, expected) in [
        ("~a*", "GET ab", Ok(())),
        ("~a*", "GET b", key("b")),
        ("%R~a", "GET a", Ok(())),
        ("%R~a", "SET a b", key("a")),
        ("%W~a", "SET a b", Ok(())),
        ("%W~a", "SET a b GET", key("a")),
        ("%W~a", "GET a", key("a")),
        ("%R~a %W~b", "COPY a b", Ok(())),
        ("%R~a %W~b", "COPY b a", key("b")),
        ("~a", "DEL a b", key("b")),
        ("~a", "MSET a x c y", key("c")),
        ("~a", "EVAL x 2 a b c", key("b")),
        ("~a", "EVAL x 0 b", Ok(())),
        ("%R~a", "EVAL x 1 a", key("a")),
        ("%R~a", "EVAL_RO x 1 a", Ok(())),
        ("%W~a", "EXISTS a", Ok(())),
        ("~a", "SORT a STORE b", key("b")),
        ("~a", "SORT a BY c*", Err(Denial::Sort("BY"))),
        ("~a", "LOCK.LIST", Err(Denial::Key(b"*".to_vec()))),
        ("%R~*", "LOCK.LIST", Ok(())),
        ("%R~*", "LOCK.FENCE a t 1", Err(Denial::Key(b"a".to_vec()))),
        ("%R~*", "LOCK.WAIT a t", Err(Denial::Key(b"a".to_vec()))),
        ("%W~*", "LOCK.WAIT a t", Ok(())),
        ("~a", "SORT a GET # GET c*", Err(Denial::Sort("GET"))),
        ("%R~* ~a", "SORT a BY c* GET d*", Ok(())),
        ("~a", "LOCK.ACQUIRE b t 9", key("b")),
        ("~a", "LOCK.ACQUIRE a t 9", Ok(())),
        ("~a", "LOCK.RELEASE b t", key("b")),
        ("~a", "LOCK.INFO b", key("b")),
        ("~a", "LOCK.FORCE-RELEASE b t", key("b")),
        ("resetkeys", "GET a", key("a")),
        ("resetkeys", "PING", Ok(())),
    ] {
        assert_eq!(
            check(&format!("+@all {rules}"), request),
            expected,
            "{rules}: {request}"
        );
    }
}

#[test]
fn channels_match_and_patterns_of_channels_must_be_the_same() {
    for (rules, request, expected) in [
        ("&a*", "SUBSCRIBE ab", Ok(())),
        ("&a*", "SUBSCRIBE ab b", channel("b")),
        ("&a*", "PSUBSCRIBE ab*", channel("ab*")),
        ("&a*", "PSUBSCRIBE a*", Ok(())),
        ("&a*", "SSUBSCRIBE b", channel("b")),
        ("&a*", "PUBLISH b x", channel("b")),
        ("&a*", "SPUBLISH b x", channel("b")),
        ("&a*", "PUBLISH a x", Ok(())),
        ("resetchannels", "UNSUBSCRIBE a", Ok(())),
        ("&*", "PSUBSCRIBE x*", Ok(())),
    ] {
        assert_eq!(
            check(&format!("+@all ~* {rules}"), request),
            expected,
            "{rules}: {request}"
        );
    }
}

#[test]
fn one_selector_has_to_allow_all_of_a_request() {
    let rules = "+get ~a (+set ~b) (+get ~c)";
    assert_eq!(check(rules, "GET a"), Ok(()));
    assert_eq!(check(rules, "GET c"), Ok(()));
    assert_eq!(check(rules, "SET b x"), Ok(()));
    assert_eq!(check(rules, "SET a x"), key("a"));
    assert_eq!(check(rules, "GET b"), key("b"));
    assert_eq!(check(rules, "MGET a c"), COMMAND);
}

#[test]
fn who_may_do_everything_is_known_without_a_check() {
    let may_do_all = |rules: &str| {
        let users = with(&[&format!("x {rules}")]);
        users.named(b"x").is_some_and(|user| user.may_do_all())
    };
    assert!(Users::new(None).default_user().may_do_all());
    assert!(may_do_all("+@all ~* &*") && may_do_all("+get (+@all ~* &*)"));
    assert!(may_do_all("+@all -get +get ~* &*"));
    for rules in [
        "+@all ~*",
        "+@all &*",
        "~* &*",
        "+@all -get ~* &*",
        "+@all ~* &* -config|get",
    ] {
        assert!(!may_do_all(rules), "{rules}");
    }
}

#[test]
fn a_file_is_taken_whole_or_not_at_all() {
    let users = with(&["kept on >x ~a", "gone on", "changed on +get"]);
    let read = |text: &str| users.read("/a/users", text.as_bytes());
    let kept = "user kept on >x ~a\n";
    let text = format!("{kept}\r\n\n  user changed on +set\nuser new (+get  ~a) on\r\nuser  off\n");
    let after = read(&text).expect("the file is right");
    let id = |users: &Users, name: &str| users.named(name.as_bytes()).map(|user| user.id);
    assert_eq!(id(&after, "kept"), id(&users, "kept"));
    assert_eq!(id(&after, "gone"), None);
    assert!(
        id(&after, "changed") > id(&users, "changed"),
        "its connections end"
    );
    assert!(after.default_user().may_do_all(), "the file has none");
    let again = after
        .read("f", &after.write())
        .expect("what is written can be read");
    assert_eq!(again.write(), after.write());

    let errors = |text: &str| read(text).expect_err("it has an error").0;
    let end =
        "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
    let long = format!("{}user bad +nosuch\n", kept.repeat(0) + &"\n".repeat(899));
    assert_eq!(
        errors(&long),
        format!(
            "/a/users:900: Error in applying operation '+nosuch': Unknown command or category name in ACL. {end}"
        )
    );
    for (text, expected) in [
        (
            "# comment",
            "/a/users:1 should start with user keyword followed by the username. ",
        ),
        (
            "user",
            "/a/users:1 should start with user keyword followed by the username. ",
        ),
        (
            "user a nonsense +no x\nuser a",
            "/a/users:1: Syntax error. /a/users:1: Error in applying operation '+no': Unknown command or category name in ACL. WARNING: Duplicate user 'a' found on line 2. ",
        ),
        (
            "user a on\nuser a on",
            "WARNING: Duplicate user 'a' found on line 2. ",
        ),
        (
            "user a (+get",
            "/a/users:1: Unmatched parenthesis in selector definition.",
        ),
        (
            "user a <secret",
            "/a/users:1: The password you are trying to remove from the user does not exist. ",
        ),
        (
            "user a\tb on",
            "/a/users:1: username 'a\tb' contains invalid characters. ",
        ),
    ] {
        assert_eq!(errors(text), format!("{expected}{end}"), "{text}");
    }
}

#[test]
fn a_line_of_a_configuration_begins_the_default_user_anew() {
    let mut users = Users::new(Some(b"secret"));
    users
        .add_line(b"default", &words("on >other +get ~a"))
        .unwrap();
    let user = users.default_user();
    assert!(user.accepts(b"other") && !user.accepts(b"secret") && !user.may_do_all());
    let error = users.add_line(b"x", &words("on +nosuch"));
    let text = "Error loading ACL rule '+nosuch' for the user named 'x': Unknown command or category name in ACL";
    assert_eq!(error, Err(text.to_owned()));
    let error = users.add_line(b"x", &words("<secret")).unwrap_err();
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn a_password_of_the_default_user_replaces_all() {
    let mut users = with(&["default >a >b"]);
    users.set_default_password(Some(b"c"));
    let user = users.default_user();
    assert!(!user.accepts(b"a") && user.accepts(b"c") && !user.is_open());
    users.set_default_password(None);
    assert!(users.default_user().is_open());
}

#[test]
fn refusals_that_are_alike_are_one_entry_for_a_minute() {
    let denied = |object: &str| Denied {
        reason: "key",
        context: DenialContext::TopLevel,
        object: object.into(),
        user: b"x".to_vec(),
    };
    let mut log = Denials::default();
    for (object, now_ms) in [("a", 0), ("b", 1), ("a", 60_000), ("a", 120_001)] {
        log.note(denied(object), format!("at={now_ms}"), now_ms, 128);
    }
    let shown = |log: &Denials, count| {
        let entries = log.newest(count);
        entries
            .map(|it| (it.id, it.count, it.created_ms, it.client.clone()))
            .collect::<Vec<_>>()
    };
    let all = [
        (2, 1, 120_001, "at=120001"),
        (0, 2, 0, "at=60000"),
        (1, 1, 1, "at=1"),
    ];
    let all = all.map(|(id, count, created, client)| (id, count, created, client.to_owned()));
    assert_eq!(shown(&log, 10), all);
    assert_eq!(shown(&log, 1), all[..1]);
    for number in 0..1000 {
        log.note(denied(&number.to_string()), String::new(), number, 128);
    }
    assert_eq!(shown(&log, usize::MAX).len(), 128);
    log.clear();
    assert_eq!(shown(&log, 10), []);
}

#[test]
fn every_command_is_in_a_category_or_alone() {
    for spec in all_specs() {
        let name = spec.name;
        let users = with(&[&format!("x +{name}")]);
        let describes = String::from_utf8(users.named(b"x").unwrap().describe()).unwrap();
        assert!(
            describes.ends_with(&format!("-@all +{name}")),
            "{describes}"
        );
    }
    assert_eq!(Categories::names().count(), 21);
}

#[test]
fn a_selector_may_stand_in_several_words() {
    let joined = rules_of(&words("a (b c d) (e) f"));
    let expected = ["a", "(b c d)", "(e)", "f"].map(|rule| rule.as_bytes().to_vec());
    assert_eq!(joined, Ok(expected.to_vec()));
    assert_eq!(rules_of(&words("a (b c")), Err(b"(b".to_vec()));
}

#[test]
fn a_user_has_a_bounded_number_of_everything() {
    let many = |rule: fn(usize) -> String, count: usize| {
        let rules: Vec<String> = (0..count).map(rule).collect();
        set(&mut with(&[]), &format!("x {}", rules.join(" ")))
    };
    for (rule, most) in [
        ((|i| format!(">{i}")) as fn(usize) -> String, 128),
        (|i| format!("~{i}"), 1024),
        (|i| format!("&{i}"), 1024),
        (|i| format!("+select|{i}"), 1024),
        (|i| format!("(~{i})"), 64),
    ] {
        assert_eq!(many(rule, most), Ok(()));
        assert!(many(rule, most + 1).is_err(), "{}", rule(0));
    }
    let mut users = with(&[]);
    for number in 1..1000 {
        set(&mut users, &format!("u{number}")).unwrap();
    }
    assert!(set(&mut users, "one-more").is_err());
    assert!(set(&mut users, "u1 on").is_ok(), "it is there");
}

proptest! {
    /// Whatever rules a user is given, its description makes the same user again, and panics nowhere.
    #[test]
    fn a_description_makes_the_same_user(rules in proptest::collection::vec(
        "(on|off|nopass|resetpass|reset|clearselectors|~\\*|&\\*|allkeys|resetkeys|[+-]@(all|read|write|admin|dangerous)|\
         [+-](get|set|config|config\\|get|select\\|0|nosuch|client\\|kill)|[~&]?[ab*]{0,2}|%[RW]{0,2}~[ab]|>[ab]|<[ab]|\
         \\([+~&%]?(get|a|@read)\\)|.{0,3})",
        0..12,
    )) {
        let mut users = Users::new(None);
        for rule in &rules {
            let _ = users.set(b"x", &[rule.as_bytes()]);
        }
        let Some(user) = users.named(b"x") else { return Ok(()) };
        let description = user.describe();
        let mut again = Users::new(None);
        let words: Vec<&[u8]> = description.split(|byte| *byte == b' ').collect();
        again.set(b"x", &words).map_err(|error| TestCaseError::fail(String::from_utf8_lossy(&error).into_owned()))?;
        let made = again.named(b"x").expect("it was just made");
        prop_assert_eq!(made.describe(), description);
        prop_assert_eq!(made.may_do_all(), user.may_do_all());
    }
}
