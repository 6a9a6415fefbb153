//! EVAL, EVALSHA and SCRIPT: the cache, the arguments, and what a script is to the log.

use super::{Node, eval, render, run, state_of};
use quorlock_engine::channels::{Subscriber, Subscription};
use quorlock_engine::notifications::Events;
use quorlock_engine::{EngineOptions, Reply, ScriptLimits};

/// Planted: events beyond the bound are dropped and nobody is told.
#[test]
fn who_listens_to_more_events_than_a_script_may_cause_is_disconnected() {
    let mut node = Node::default();
    node.engine.set_events(Events::parse("KEm").unwrap());
    let listener = |client| Subscriber {
        worker: 0,
        connection: 0,
        client,
    };
    let channels = node.engine.channels();
    channels.subscribe(listener(1), Subscription::Pattern, b"__keyspace@0__:k*");
    channels.subscribe(listener(2), Subscription::Channel, b"other");
    let key = "k".repeat(4000);
    let body = "for i=1,tonumber(ARGV[1]) do redis.call('get',KEYS[1]) end";
    eval(&mut node, body, &[&key], &["1000"]);
    assert_eq!(node.effects.published.len(), 1000);
    assert!(node.engine.channels().take_missed().is_empty());
    eval(&mut node, body, &[&key], &["20000"]);
    assert!((10_000..20_000).contains(&node.effects.published.len()));
    assert_eq!(node.engine.channels().take_missed(), [listener(1)]);
    assert_eq!(node.engine.channels().clients(), 1);
}

#[test]
fn a_text_that_is_no_lua_is_refused() {
    let mut node = Node::default();
    for body in [
        "retrn",
        "return return",
        "if",
        "\x1bLua",
        "return 'open",
        "goto x",
    ] {
        let reply = run(&mut node, body);
        let start = "-ERR Error compiling script (new function): user_script:1: ";
        assert!(reply.starts_with(start), "{body:?}: {reply}");
    }
    let reply = node.execute(&[b"SCRIPT", b"LOAD", b"retrn"]);
    assert!(
        render(&reply).starts_with("-ERR Error compiling script"),
        "{reply:?}"
    );
}

#[test]
fn a_text_has_a_size_limit_however_it_comes() {
    let script_limits = ScriptLimits {
        body_bytes: 1000,
        ..ScriptLimits::default()
    };
    let mut node = Node::with(EngineOptions {
        script_limits,
        ..EngineOptions::default()
    });
    for bytes in [999, 1000, 1001] {
        let body = format!("return {bytes}{}", " ".repeat(bytes - 10 - bytes / 1000));
        assert_eq!(body.len(), bytes);
        let refused =
            format!("-ERR script of {bytes} bytes is longer than script-size-limit (1000 bytes)");
        let (expected, loaded) = if bytes > 1000 {
            (refused.clone(), refused)
        } else {
            let sha = run(
                &mut Node::default(),
                &format!("return redis.sha1hex('{body}')"),
            );
            (bytes.to_string(), sha)
        };
        let load = node.execute(&[b"SCRIPT", b"LOAD", body.as_bytes()]);
        assert_eq!(render(&load), loaded);
        assert_eq!(run(&mut node, &body), expected);
        let read_only = node.execute(&[b"EVAL_RO", body.as_bytes(), b"0"]);
        assert_eq!(render(&read_only), expected);
    }
}

#[test]
fn a_cached_script_sees_new_keys_and_arguments() {
    let mut node = Node::default();
    let body = "return {KEYS[1] or 'no key', ARGV[1] or 'nothing', #KEYS, #ARGV}";
    let first = eval(&mut node, body, &["a"], &["1"]);
    assert_eq!(render(&first), "[\"a\", \"1\", 1, 1]");
    let second = eval(&mut node, body, &["b", "c"], &["2", "3"]);
    assert_eq!(render(&second), "[\"b\", \"2\", 2, 2]");
    let third = eval(&mut node, body, &[], &[]);
    assert_eq!(render(&third), "[\"no key\", \"nothing\", 0, 0]");
    let keys: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let many = eval(&mut node, "return {#KEYS, KEYS[2000], #ARGV}", &keys, &keys);
    assert_eq!(render(&many), "[2000, \"1999\", 2000]");
}

#[test]
fn keys_and_arguments_may_be_any_bytes() {
    let mut node = Node::default();
    let bytes: Vec<u8> = (0..=255).collect();
    let body = b"redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1]) == ARGV[1]";
    let reply = node.execute(&[b"EVAL", body, b"1", &bytes, &bytes]);
    assert_eq!(reply, Reply::Integer(1));
    assert_eq!(node.execute(&[b"GET", &bytes]), Reply::Bulk(bytes));
}

#[test]
fn the_number_of_keys_is_checked() {
    let mut node = Node::default();
    #[rustfmt::skip]
    let cases = [
        ("EVAL \"return 1\" x", "-ERR value is not an integer or out of range"),
        ("EVAL \"return 1\" -1", "-ERR Number of keys can\\'t be negative"),
        ("EVAL \"return 1\" 3 a", "-ERR Number of keys can\\'t be greater than number of args"),
        ("EVAL \"return 1\"", "-ERR wrong number of arguments for \\'eval\\' command"),
        ("EVALSHA abc 0", "-NOSCRIPT No matching script. Please use EVAL."),
        ("EVAL \"return 1\" 99999999999999999999", "-ERR value is not an integer or out of range"),
    ];
    for (line, expected) in cases {
        assert_eq!(node.run(line), expected, "{line}");
    }
}

#[test]
fn scripts_are_known_by_their_sha1_until_flushed() {
    let mut node = Node::default();
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    assert_eq!(node.run(&format!("SCRIPT EXISTS {sha} {sha}")), "[0, 0]");
    assert_eq!(node.run("SCRIPT LOAD \"return 1\""), format!("\"{sha}\""));
    assert_eq!(node.run(&format!("EVALSHA {sha} 0")), "1");
    assert_eq!(node.run(&format!("EVALSHA {} 0", sha.to_uppercase())), "1");
    assert_eq!(node.run(&format!("SCRIPT EXISTS {sha} ffff")), "[1, 0]");
    assert_eq!(node.run("EVAL \"return 2\" 0"), "2");
    assert_eq!(
        node.run("EVALSHA 7f923f79fe76194c868d7e1d0820de36700eb649 0"),
        "2"
    );
    for mode in ["", " SYNC", " async"] {
        assert_eq!(node.run(&format!("SCRIPT FLUSH{mode}")), "OK");
    }
    assert_eq!(
        node.run(&format!("EVALSHA {sha} 0")),
        "-NOSCRIPT No matching script. Please use EVAL."
    );
    assert_eq!(node.run("EVAL \"return 1\" 0"), "1");
}

#[test]
fn the_subcommands_of_script_are_checked() {
    let mut node = Node::default();
    #[rustfmt::skip]
    let cases = [
        ("SCRIPT", "-ERR wrong number of arguments for \\'script\\' command"),
        ("SCRIPT foo", "-ERR unknown subcommand \\'foo\\'. Try SCRIPT HELP."),
        ("SCRIPT LOAD", "-ERR wrong number of arguments for \\'script|load\\' command"),
        ("SCRIPT EXISTS", "-ERR wrong number of arguments for \\'script|exists\\' command"),
        ("SCRIPT FLUSH x", "-ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
        ("SCRIPT KILL", "-NOTBUSY No scripts in execution right now."),
    ];
    for (line, expected) in cases {
        assert_eq!(node.run(line), expected, "{line}");
    }
    assert!(node.run("SCRIPT HELP").starts_with("[SCRIPT <subcommand>"));
}

#[test]
fn old_texts_make_room_and_loaded_ones_stay() {
    let mut node = Node::default();
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    node.run("SCRIPT LOAD \"return 1\"");
    for number in 0..1200 {
        assert_eq!(
            run(&mut node, &format!("return {number}")),
            number.to_string()
        );
    }
    assert!(
        node.engine.script_count() <= 501,
        "{}",
        node.engine.script_count()
    );
    assert_eq!(node.run(&format!("EVALSHA {sha} 0")), "1");
    assert_eq!(
        run(&mut node, "return 3"),
        "3",
        "an old text is compiled again"
    );
}

/// Beyond 8 MiB of loaded texts every new script drove out all others that had come with EVAL.
#[test]
fn loaded_scripts_do_not_drive_out_evaluated_ones() {
    let mut node = Node::default();
    let filling = " ".repeat(60 * 1024);
    for number in 0..200 {
        let body = format!("return {number}{filling}");
        assert!(
            !node
                .execute(&[b"SCRIPT", b"LOAD", body.as_bytes()])
                .is_error()
        );
    }
    let shas = ["11", "12", "13"].map(|number| {
        run(&mut node, &format!("return {number}"));
        run(
            &mut node,
            &format!("return redis.sha1hex('return {number}')"),
        )
    });
    for (sha, number) in shas.iter().zip(["11", "12", "13"]) {
        assert_eq!(node.run(&format!("EVALSHA {sha} 0")), number);
    }
}

#[test]
fn a_script_in_use_stays_however_many_others_come() {
    let mut node = Node::default();
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    run(&mut node, "return 1");
    for number in 2..2000 {
        run(&mut node, &format!("return {number}"));
        if number % 400 == 0 {
            assert_eq!(node.run(&format!("EVALSHA {sha} 0")), "1");
        }
    }
    assert_eq!(node.engine.script_count(), 500);
    for number in 0..500 {
        run(&mut node, &format!("return 0 + {number}"));
    }
    let forgotten = node.run(&format!("EVALSHA {sha} 0"));
    assert!(forgotten.starts_with("-NOSCRIPT"), "{forgotten}");
}

/// Its worst case: a text of nothing but small functions.
#[test]
fn four_mebibytes_of_loaded_scripts_take_little_more_than_their_text() {
    let script_limits = ScriptLimits {
        loaded_bytes: 4 << 20,
        ..ScriptLimits::default()
    };
    let mut node = Node::with(EngineOptions {
        script_limits,
        ..EngineOptions::default()
    });
    let mut filling = "f=function()end ".repeat(250);
    filling.push_str("return 1");
    let mut shas = Vec::new();
    for number in 0..1000 {
        let body = format!("-- {number}\nlocal f {filling}");
        let reply = node.execute(&[b"SCRIPT", b"LOAD", body.as_bytes()]);
        if reply.is_error() {
            break;
        }
        shas.push(render(&reply).trim_matches('"').to_owned());
    }
    // More than are kept compiled.
    assert!(shas.len() > 925, "{}", shas.len());
    let kilobytes = node.engine.script_memory() >> 10;
    assert!(
        kilobytes < 5 << 10,
        "{kilobytes} KiB before any of them ran"
    );
    for sha in &shas {
        assert_eq!(
            render(&node.execute(&[b"EVALSHA", sha.as_bytes(), b"0"])),
            "1"
        );
    }
    let megabytes = node.engine.script_memory() >> 20;
    assert!(megabytes < 4 + 32, "{megabytes} MiB after many have run");
}

#[test]
fn loading_without_end_is_refused_before_memory_runs_out() {
    let mut node = Node::default();
    let filling = " ".repeat(60 * 1024);
    let loaded = (0..1000)
        .take_while(|number| {
            let body = format!("return {number}{filling}");
            !node
                .execute(&[b"SCRIPT", b"LOAD", body.as_bytes()])
                .is_error()
        })
        .count();
    assert!((250..280).contains(&loaded), "{loaded}");
    let body = format!("return 1000{filling}");
    let refusal = render(&node.execute(&[b"SCRIPT", b"LOAD", body.as_bytes()]));
    assert!(
        refusal.starts_with(&format!("-ERR {loaded} loaded scripts take ")),
        "{refusal}"
    );
    assert!(refusal.contains("script-load-limit (16777216 bytes). SCRIPT FLUSH forgets them all"));
    assert_eq!(node.run("EVAL \"return 7\" 0"), "7", "EVAL goes on");
    let known = node.execute(&[b"SCRIPT", b"LOAD", format!("return 0{filling}").as_bytes()]);
    assert!(!known.is_error(), "what is loaded can be loaded again");
    let refusal = render(&node.execute(&[b"SCRIPT", b"LOAD", body.as_bytes()]));
    assert!(
        refusal.contains("SCRIPT FLUSH"),
        "also for one that EVAL knows: {refusal}"
    );
    assert_eq!(node.run("SCRIPT FLUSH"), "OK");
    assert_eq!(
        node.run("SCRIPT LOAD \"return 1\""),
        "\"e0e1f9fabfc9d4800c877a703b823ac0578ff8db\""
    );
}

#[test]
fn read_only_scripts_read_and_do_not_write() {
    let mut node = Node::default();
    node.run("SET a 1");
    assert_eq!(
        node.run("EVAL_RO \"return redis.call('get',KEYS[1])\" 1 a"),
        "\"1\""
    );
    let reply = node.run("EVAL_RO \"return redis.call('set','a','b')\" 0");
    assert!(reply.starts_with("-ERR Write commands are not allowed from read-only scripts."));
    let sha = node.run("SCRIPT LOAD \"return redis.call('del','a')\"");
    let reply = node.run(&format!("EVALSHA_RO {sha} 0"));
    assert!(reply.starts_with("-ERR Write commands are not allowed from read-only scripts."));
    assert_eq!(
        node.run(&format!("EVALSHA {sha} 0")),
        "1",
        "the next call may write again"
    );
}

#[test]
fn a_script_is_one_group_and_its_time_stands_still() {
    let mut node = Node::default();
    let body = "redis.call('set','a','1','px',100) redis.call('set','b','2','px',200) \
                redis.call('del','a') return redis.call('pttl','b')";
    assert_eq!(run(&mut node, body), "200");
    assert_eq!(node.log.len(), 1, "one command, one group");
    assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
    assert_eq!(run(&mut node, "return redis.call('get','b')"), "\"2\"");
    assert_eq!(node.log.len(), 1, "reading logs nothing");
}

#[test]
fn a_script_that_raises_keeps_what_it_did() {
    let mut node = Node::default();
    let reply = run(&mut node, "redis.call('set','a','1') error('late')");
    assert!(
        reply.starts_with("-ERR user_script:1: late script: "),
        "{reply}"
    );
    assert_eq!(node.run("GET a"), "\"1\"");
    assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
}

#[test]
fn a_script_has_its_own_database() {
    let mut node = Node::default();
    assert_eq!(
        run(
            &mut node,
            "redis.call('select', 3) return redis.call('set','a','1')"
        ),
        "OK"
    );
    assert_eq!(
        node.run("GET a"),
        "nil",
        "the caller's database is what it was"
    );
    assert_eq!(
        run(&mut node, "return redis.call('get','a')"),
        "nil",
        "and the next script's"
    );
    node.caller.database = 3;
    assert_eq!(node.run("GET a"), "\"1\"");
}

#[test]
fn what_scripts_log_can_be_read_and_is_bounded() {
    let mut node = Node::default();
    run(
        &mut node,
        "for i=1,1000 do redis.log(redis.LOG_WARNING, 'line', i) end",
    );
    let lines = node.engine.take_script_log();
    assert_eq!(lines.len(), 64);
    assert_eq!((lines[0].level, &*lines[0].text), (3, &b"line 1"[..]));
    assert_eq!(node.engine.take_script_log(), []);
}

#[test]
fn an_engine_can_be_moved_to_another_thread_with_its_scripts() {
    let mut node = Node::default();
    let body = "redis.call('incr', KEYS[1]) return redis.call('get', KEYS[1])";
    assert_eq!(render(&eval(&mut node, body, &["n"], &[])), "\"1\"");
    let mut node = std::thread::spawn(move || {
        assert_eq!(render(&eval(&mut node, body, &["n"], &[])), "\"2\"");
        node
    })
    .join()
    .unwrap();
    assert_eq!(render(&eval(&mut node, body, &["n"], &[])), "\"3\"");
}
