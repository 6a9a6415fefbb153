//! Locks as an operator sees and breaks them: what is said of their holders, and that it is never of an earlier one.

use std::time::Duration;

use quorlock_engine::channels::{Subscriber, Subscription};
use quorlock_engine::{ClientDescription, Reply};

use crate::harness::{Node, render};

/// A node whose connections have names.
fn node() -> Node {
    let mut node = Node::default();
    node.engine.set_client_directory(Box::new(|id| {
        (id < 100).then(|| ClientDescription {
            name: format!("worker-{id}"),
            address: format!("10.0.0.{id}:5000"),
            library_name: "redis-py".to_owned(),
            library_version: String::new(),
            is_connected: id < 50,
        })
    }));
    node
}

/// What LOCK.INFO says of one thing.
fn fact(node: &mut Node, key: &str, name: &str) -> String {
    let reply = node.reply(&format!("LOCK.INFO {key}"));
    fact_of(&reply, name)
}

fn fact_of(reply: &Reply, name: &str) -> String {
    let Reply::Map(pairs) = reply else {
        panic!("{reply:?}")
    };
    let is_named = |(it, _): &&(Reply, Reply)| *it == Reply::bulk(name);
    let pair = pairs.iter().find(is_named);
    render(&pair.unwrap_or_else(|| panic!("{name} in {reply:?}")).1)
}

/// Who took it, when, and what they say.
fn holder(node: &mut Node, key: &str) -> String {
    ["held-ms", "extensions", "owner", "client-id"]
        .map(|name| fact(node, key, name))
        .join(" ")
}

#[test]
fn a_plain_lock_shows_the_connection_that_took_it() {
    let mut node = node();
    assert_eq!(node.run("LOCK.INFO job"), "nil");
    node.caller.client_id = 7;
    assert_eq!(node.run("SET job token NX PX 30000"), "OK");
    node.caller.client_id = 8;
    node.advance(Duration::from_millis(1500));
    let shown = "[\"type\", \"string\", \"token\", \"token\", \"ttl-ms\", 28500, \"since-known\", 1, \"held-ms\", 1500, \
                 \"extensions\", 0, \"last-extension-ms\", nil, \"owner\", nil, \"client-id\", 7, \
                 \"client-name\", \"worker-7\", \"client-address\", \"10.0.0.7:5000\", \"client-connected\", 1, \
                 \"library-name\", \"redis-py\", \"library-version\", nil, \"fence\", nil, \"waiters\", 0]";
    assert_eq!(node.run("LOCK.INFO job"), shown);
    assert!(node.effects.journal.is_empty());
    assert_eq!(node.run("PTTL job"), "28500");
    assert_eq!(node.run("OBJECT IDLETIME job"), "1", "it was not read");
    for line in ["SET job other NX PX 1000", "LOCK.ACQUIRE job other 1000"] {
        node.run(line);
        assert_eq!(holder(&mut node, "job"), "1500 0 nil 7", "{line}");
    }
    node.caller.client_id = 60;
    node.run("SET gone token PX 1000");
    assert_eq!(fact(&mut node, "gone", "client-connected"), "0");
    assert_eq!(fact(&mut node, "gone", "client-name"), "\"worker-60\"");
    node.caller.client_id = 100;
    node.run("SET forgotten token");
    assert_eq!(fact(&mut node, "forgotten", "client-id"), "100");
    assert_eq!(fact(&mut node, "forgotten", "client-address"), "nil");
    assert_eq!(fact(&mut node, "forgotten", "ttl-ms"), "-1");
    node.run("SET far token PX 9223370000000000000");
    assert_eq!(fact(&mut node, "far", "ttl-ms"), node.run("PTTL far"));
    assert!(node.run("PTTL far").len() == 19);
    node.caller.client_id = u64::MAX;
    node.run("SET far token");
    let shown = fact(&mut node, "far", "client-id");
    assert_eq!(shown, i64::MAX.to_string());
}

#[test]
fn extensions_are_counted_whoever_makes_them() {
    let mut node = node();
    node.caller.client_id = 7;
    node.run("LOCK.ACQUIRE job token 1000 OWNER \"nightly job, rack 4\"");
    for (line, extensions) in [
        ("LOCK.EXTEND job other 5000", 0),
        ("LOCK.EXTEND job token 5000", 1),
        ("LOCK.EXTEND job token 2000", 1),
        ("PEXPIRE job 4000", 1),
        ("PEXPIRE job 6000", 2),
    ] {
        node.advance(Duration::from_millis(10));
        node.run(line);
        let shown = fact(&mut node, "job", "extensions");
        assert_eq!(shown, extensions.to_string(), "{line}");
    }
    node.advance(Duration::from_millis(5));
    assert_eq!(fact(&mut node, "job", "last-extension-ms"), "5");
    assert_eq!(holder(&mut node, "job"), "55 2 \"nightly job, rack 4\" 7");
}

#[test]
fn a_fence_is_shown_to_whom_it_belongs_and_waits_for_its_ceiling() {
    let mut node = node();
    node.run("LOCK.ACQUIRE job a 1000 GUESS 5 OWNER me");
    assert_eq!(fact(&mut node, "job", "fence"), "5");
    assert!(node.effects.tells_fence);
    node.run("LOCK.RELEASE job a");
    node.run("LOCK.ACQUIRE job b 1000 OWNER you");
    assert_eq!(fact(&mut node, "job", "fence"), "nil");
    assert!(!node.effects.tells_fence);
    assert_eq!(fact(&mut node, "job", "owner"), "\"you\"");
}

/// What Redisson's lock does.
const REDISSON: &str = "if redis.call('exists', KEYS[1]) == 0 then redis.call('hincrby', KEYS[1], ARGV[2], 1) \
                        redis.call('pexpire', KEYS[1], ARGV[1]) return nil end return redis.call('pttl', KEYS[1])";

#[test]
fn a_lock_of_redisson_shows_its_threads_and_who_took_it() {
    let mut node = node();
    node.caller.client_id = 9;
    let line = format!("EVAL \"{REDISSON}\" 1 job 30000 4d2:17");
    assert_eq!(node.run(&line), "nil");
    node.caller.client_id = 10;
    node.advance(Duration::from_secs(1));
    assert_eq!(node.run(&line), "29000");
    assert_eq!(fact(&mut node, "job", "type"), "\"hash\"");
    assert_eq!(fact(&mut node, "job", "token"), "[\"4d2:17\", \"1\"]");
    assert_eq!(holder(&mut node, "job"), "1000 0 nil 9");
    node.run("HINCRBY job 4d2:17 1");
    node.run("HINCRBY job 4d2:18 1");
    let shown = "[\"4d2:17\", \"2\", \"4d2:18\", \"1\"]";
    assert_eq!(fact(&mut node, "job", "token"), shown);
    assert_eq!(holder(&mut node, "job"), "1000 0 nil 9");
}

/// However a lock ends: who takes the name next is not told of as the one before.
#[test]
fn nothing_is_said_of_an_earlier_holder() {
    let compare_and_delete = "EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end\" 1 job old";
    for end in [
        "DEL job",
        "UNLINK job",
        compare_and_delete,
        "LOCK.RELEASE job old",
        "LOCK.FORCE-RELEASE job old",
        "FLUSHALL",
        "FLUSHDB",
        "RENAME job other",
        "RENAME new job",
        "MOVE job 3",
        "SWAPDB 0 3",
        "GETDEL job",
        "SET job new PX 30000",
        "SET job new XX KEEPTTL",
        "GETSET job new",
        "COPY new job REPLACE",
        "PEXPIRE job 0",
        "time",
        "time and maintenance",
    ] {
        let mut node = node();
        node.caller.client_id = 7;
        node.run("SET new new PX 20000");
        node.run("LOCK.ACQUIRE job old 10000 OWNER mine");
        node.run("LOCK.EXTEND job old 11000");
        assert_eq!(holder(&mut node, "job"), "0 1 \"mine\" 7");
        node.caller.client_id = 8;
        node.advance(Duration::from_secs(1));
        match end {
            "time" => node.advance(Duration::from_secs(11)),
            "time and maintenance" => {
                node.advance(Duration::from_secs(11));
                node.engine.reclaim(node.now.node, 1000);
            }
            line => assert!(!node.reply(line).is_error(), "{line}"),
        }
        if node.run("EXISTS job") == "0" {
            assert_eq!(node.run("LOCK.INFO job"), "nil", "{end}");
            node.run("SET job new NX PX 30000");
        }
        assert_eq!(holder(&mut node, "job"), "0 0 nil 8", "{end}");
    }
}

#[test]
fn a_script_that_fails_leaves_what_is_known_as_it_was() {
    for step in [
        "redis.call('del', KEYS[1])",
        "redis.call('del', KEYS[1]) redis.call('set', KEYS[1], 'new', 'PX', 9)",
        "redis.call('set', KEYS[1], 'new')",
        "redis.call('pexpire', KEYS[1], 50000)",
        "redis.call('flushall') redis.call('set', 'another', 'new')",
    ] {
        let mut node = node();
        node.caller.client_id = 7;
        node.run("LOCK.ACQUIRE job old 10000 OWNER mine");
        node.run("LOCK.EXTEND job old 11000");
        node.caller.client_id = 8;
        let script = format!("EVAL \"{step} while true do end\" 1 job");
        let reply = node.run(&script);
        assert!(reply.starts_with('-'), "{step}: {reply}");
        assert_eq!(node.run("GET job"), "\"old\"", "{step}");
        assert_eq!(holder(&mut node, "job"), "0 1 \"mine\" 7", "{step}");
    }
}

#[test]
fn a_set_of_the_same_token_is_an_extension() {
    let mut node = node();
    node.caller.client_id = 7;
    node.run("LOCK.ACQUIRE job a 30000 OWNER mine");
    node.advance(Duration::from_millis(5));
    node.caller.client_id = 8;
    node.run("SET job a XX PX 40000");
    assert_eq!(holder(&mut node, "job"), "5 1 \"mine\" 7");
    node.run("SET job a XX PX 30000");
    assert_eq!(
        holder(&mut node, "job"),
        "5 1 \"mine\" 7",
        "it ends earlier"
    );
    node.run("SET job b XX PX 40000");
    assert_eq!(holder(&mut node, "job"), "0 0 nil 8");
}

#[test]
fn after_a_restart_it_is_unknown_since_when_a_lock_is_held() {
    let mut node = node();
    node.run("LOCK.ACQUIRE job a 30000 OWNER mine");
    node.run(&format!("EVAL \"{REDISSON}\" 1 other 30000 4d2:17"));
    node.engine = node.replayed();
    node.run("LOCK.EXTEND job a 40000");
    for key in ["job", "other"] {
        assert_eq!(fact(&mut node, key, "since-known"), "0");
        assert_eq!(holder(&mut node, key), "nil nil nil nil");
        assert_eq!(fact(&mut node, key, "client-name"), "nil");
    }
    assert_eq!(fact(&mut node, "job", "ttl-ms"), "40000");
    node.run("LOCK.RELEASE job a");
    node.run("LOCK.ACQUIRE job b 30000");
    assert_eq!(fact(&mut node, "job", "since-known"), "1");
}

#[test]
fn the_text_of_an_owner_is_short_and_changes_nothing_around_it() {
    let mut node = node();
    let refused =
        "-ERR the owner of a lock is a text of 1 to 256 bytes in UTF-8 without control characters";
    let texts = ["x".repeat(257), "x".repeat(100_000), String::new()];
    let texts = texts.iter().map(String::as_bytes);
    let bytes: [&[u8]; 6] = [
        b"a\nb",
        b"\x1b[2J",
        b"\0",
        b"\x7f",
        b"\xff\xfe",
        "\u{85}".as_bytes(),
    ];
    for text in texts.chain(bytes) {
        let words = [
            b"LOCK.ACQUIRE".as_slice(),
            b"job",
            b"a",
            b"1000",
            b"OWNER",
            text,
        ];
        assert_eq!(render(&node.execute(&words)), refused);
        assert_eq!(node.run("EXISTS job"), "0");
    }
    for line in [
        "LOCK.ACQUIRE job a 1000 OWNER",
        "LOCK.ACQUIRE job a 1000 OWNER a OWNER b",
        "LOCK.ACQUIRE job a 1000 GUESS 1 GUESS 2",
        "LOCK.ACQUIRE job a 1000 OWNER a b",
    ] {
        assert_eq!(node.run(line), "-ERR syntax error", "{line}");
    }
    let longest = "\u{e9}".repeat(128);
    node.run(&format!("LOCK.ACQUIRE a t 1000 OWNER {longest} GUESS 1"));
    node.run("LOCK.ACQUIRE b t 1000 guess 1 owner \"two words\"");
    let bytes = longest.as_bytes().escape_ascii();
    assert_eq!(fact(&mut node, "a", "owner"), format!("\"{bytes}\""));
    assert_eq!(fact(&mut node, "a", "fence"), "1");
    assert_eq!(fact(&mut node, "b", "owner"), "\"two words\"");
    assert_eq!(fact(&mut node, "b", "fence"), "1");
}

#[test]
fn what_is_no_lock_is_said_to_be_none() {
    let mut node = node();
    node.run("RPUSH list a");
    node.run("SADD set a");
    node.run(&format!("SET long {} PX 1000", "x".repeat(1025)));
    for key in ["list", "set", "long"] {
        let reply = node.run(&format!("LOCK.INFO {key}"));
        assert!(
            reply.starts_with("-WRONGTYPE this key is no lock"),
            "{reply}"
        );
    }
    for key in ["list", "set"] {
        let reply = node.run(&format!("LOCK.FORCE-RELEASE {key} a"));
        assert!(
            reply.starts_with("-WRONGTYPE this key is no lock"),
            "{reply}"
        );
    }
    assert_eq!(node.run("EXISTS list set"), "2");
}

/// All rows of LOCK.LIST, and how many pages they were on.
fn list(node: &mut Node, pattern: &str) -> (Vec<Reply>, usize) {
    let (mut rows, mut pages, mut cursor) = (Vec::new(), 0, "0".to_owned());
    loop {
        let Reply::Array(mut page) = node.reply(&format!("LOCK.LIST {pattern} {cursor}")) else {
            panic!("a page is an array")
        };
        let (Some(Reply::Array(more)), Some(Reply::Bulk(next))) = (page.pop(), page.pop()) else {
            panic!("{page:?}")
        };
        assert!(more.len() <= 100);
        rows.extend(more);
        pages += 1;
        cursor = String::from_utf8(next).expect("a number");
        if cursor == "0" {
            return (rows, pages);
        }
    }
}

#[test]
fn a_list_has_each_lock_and_nothing_else() {
    let mut node = node();
    node.caller.client_id = 7;
    node.run("LOCK.ACQUIRE lock:a t 1000 OWNER mine");
    node.run("SET lock:b t PX 2000");
    node.run(&format!("EVAL \"{REDISSON}\" 1 lock:c 3000 4d2:17"));
    node.run("SET lock:plain t");
    node.run("HSET lock:hash field value");
    node.run("RPUSH lock:list a");
    node.run("PEXPIRE lock:list 1000");
    node.run("SET other t PX 1000");
    node.advance(Duration::from_millis(1));
    let (rows, pages) = list(&mut node, "lock:*");
    let names: Vec<String> = rows.iter().map(|row| fact_of(row, "name")).collect();
    assert_eq!(names, ["\"lock:c\"", "\"lock:b\"", "\"lock:a\""]);
    assert_eq!(pages, 1);
    assert_eq!(
        render(&rows[2]),
        "[\"name\", \"lock:a\", \"type\", \"string\", \"token\", \"t\", \"ttl-ms\", 999, \"held-ms\", 1, \
         \"owner\", \"mine\", \"client-id\", 7, \"client-name\", \"worker-7\", \"client-address\", \"10.0.0.7:5000\"]"
    );
    assert_eq!(fact_of(&rows[0], "token"), "[\"4d2:17\", \"1\"]");
    let whole = node.reply("LOCK.LIST");
    let Reply::Array(whole) = whole else {
        panic!("{whole:?}")
    };
    assert!(matches!(&whole[1], Reply::Array(rows) if rows.len() == 4));
    assert_eq!(node.run("LOCK.LIST * x"), "-ERR invalid cursor");
    assert_eq!(node.run("LOCK.LIST * 0 1"), "-ERR syntax error");
    for number in 0..1000 {
        node.run(&format!("SET many:{number} t PX 1000"));
    }
    let (rows, pages) = list(&mut node, "many:*");
    assert_eq!(rows.len(), 1000);
    assert!(pages >= 10, "{pages}");
    node.advance(Duration::from_secs(5));
    assert_eq!(list(&mut node, "*").0, []);
}

#[test]
fn a_lock_is_broken_by_the_token_that_was_shown_and_no_other() {
    let mut node = node();
    node.run("SET job old NX PX 1000");
    assert_eq!(node.run("LOCK.FORCE-RELEASE job other"), "0");
    node.run("DEL job");
    assert_eq!(node.run("LOCK.FORCE-RELEASE job old"), "0");
    node.run("SET job new NX PX 1000");
    assert_eq!(node.run("LOCK.FORCE-RELEASE job old"), "0");
    assert!(node.effects.journal.is_empty());
    assert_eq!(node.run("GET job"), "\"new\"");
    assert_eq!(node.run("LOCK.FORCE-RELEASE job new"), "1");
    assert_eq!(node.run("EXISTS job"), "0");
    node.run("HSET job 4d2:17 2 mode read");
    for token in ["4d2:18", "2", "mode"] {
        assert_eq!(node.run(&format!("LOCK.FORCE-RELEASE job {token}")), "0");
    }
    assert_eq!(node.run("LOCK.FORCE-RELEASE job 4d2:17"), "1");
    assert_eq!(node.run("EXISTS job"), "0");
}

#[test]
fn who_waits_for_a_lock_of_redisson_is_woken() {
    let fair = "RPUSH redisson_lock_queue:{job} 5e1:1 5e1:2";
    for (lines, name, channel, message) in [
        (
            vec!["HSET job 4d2:17 1"],
            "job",
            "redisson_lock__channel:{job}",
            "0",
        ),
        (
            vec!["HSET {a}job 4d2:17 1"],
            "{a}job",
            "redisson_lock__channel:{a}job",
            "0",
        ),
        (
            vec!["HSET job mode read 4d2:17 1"],
            "job",
            "redisson_rwlock:{job}",
            "0",
        ),
        (
            vec!["HSET job mode write 4d2:17 1"],
            "job",
            "redisson_rwlock:{job}",
            "1",
        ),
        (
            vec!["HSET job 4d2:17 1", fair],
            "job",
            "redisson_lock__channel:{job}:5e1:1",
            "0",
        ),
    ] {
        let mut node = node();
        let listener = Subscriber {
            worker: 0,
            connection: 1,
            client: 2,
        };
        let channels = node.engine.channels();
        let _ = channels.subscribe(listener, Subscription::Channel, channel.as_bytes());
        for line in lines {
            node.run(line);
        }
        assert_eq!(node.run(&format!("LOCK.FORCE-RELEASE {name} 4d2:18")), "0");
        assert!(node.effects.published.is_empty());
        assert_eq!(node.run(&format!("LOCK.FORCE-RELEASE {name} 4d2:17")), "1");
        let published = format!("{:?}", node.effects.published);
        assert_eq!(node.effects.published.len(), 1, "{channel}: {published}");
        let content = format!("{:?}", message.as_bytes());
        assert!(published.contains(&content), "{published}");
    }
}

/// What is known is forgotten for some, and no lock is.
#[test]
fn more_locks_than_records_forget_what_is_known_of_some_and_no_lock() {
    let mut node = node();
    let count = 600_000;
    let owner = "x".repeat(256);
    let acquire = |node: &mut Node, number: u64| {
        node.log.clear();
        let (name, token) = (number.to_string(), b"token");
        node.execute(&[
            b"LOCK.ACQUIRE",
            name.as_bytes(),
            token,
            b"60000",
            b"OWNER",
            owner.as_bytes(),
        ])
    };
    for number in 0..count {
        assert!(matches!(acquire(&mut node, number), Reply::Array(_)));
    }
    assert_eq!(node.engine.count(0).keys, count);
    let (rows, _) = list(&mut node, "*");
    assert_eq!(rows.len() as u64, count);
    let has = |name: &str| {
        let is_known = |row: &&Reply| fact_of(row, name) != "nil";
        rows.iter().filter(is_known).count()
    };
    assert_eq!(has("held-ms"), 1 << 19);
    let owned = has("owner");
    assert!((1..=(8 << 20) / 256).contains(&owned), "{owned}");
    // The newer ones have the records.
    assert_eq!(fact(&mut node, "599999", "since-known"), "1");
    assert_eq!(fact(&mut node, "0", "since-known"), "0");
    assert_eq!(node.run("GET 0"), "\"token\"");
}
