//! `quorlock log import`: what a node has of append-only files, what is refused, and what is left then.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::append_only::{Imported, ask, commands, in_future};

#[test]
fn keys_of_all_kinds_are_served_once_the_restart_delay_is_over() {
    let hour = in_future(Duration::from_secs(3600));
    let base = commands(&[
        "SELECT 0",
        "SET string value",
        "RPUSH list a b",
        "SADD set m",
        "HMSET hash f 1 g 2",
        "ZADD ranks inf top -1.5 low",
        "SELECT 3",
        &format!("SET lock token PXAT {hour}"),
    ]);
    let increment = commands(&[
        "RPUSH list c",
        "HINCRBY hash f 4",
        "MULTI",
        "SET both 1",
        "EXEC",
    ]);
    let annotated = [b"#TS:1700000000\r\n", increment.as_slice()].concat();
    let imported = Imported::with(&base, &annotated);
    let report = imported.import(&["--json", "--cluster", "blue"]).json();
    assert_eq!(
        (&report["keys"], &report["files"]),
        (&7.into(), &2.into()),
        "{report}"
    );
    assert_eq!((&report["cut"], &report["ended"]), (&().into(), &0.into()));

    let directory = imported.directory();
    let check = ["log", "check", directory.to_str().unwrap(), "--json"];
    let found = imported.shell.quorlock(&check).json();
    assert_eq!(
        (&found["state"], &found["node"]),
        (&"whole".into(), &report["id"]),
        "{found}"
    );
    let delay_ms = found["next_start"]["delay_ms"].as_u64().unwrap();
    assert!((60_000..70_000).contains(&delay_ms), "{found}");

    let mut node = imported.start(&[]);
    assert!(ask(&node, "GET string").starts_with("-RESTARTDELAY"));
    assert_eq!(node.info("quorlock_cluster_id").as_deref(), Some("blue"));
    node.stop();
    // A stop within the delay does not end it.
    let node = imported.start(&[]);
    assert!(ask(&node, "GET string").starts_with("-RESTARTDELAY"));
    drop(node);

    let node = imported.start(&["--restart-delay", "off"]);
    for (asked, answer) in [
        ("GET string", "value"),
        ("LRANGE list 0 -1", "[a, b, c]"),
        ("SMEMBERS set", "[m]"),
        ("HGET hash f", "5"),
        ("ZRANGE ranks 0 -1 WITHSCORES", "[low, -1.5, top, inf]"),
        ("GET both", "1"),
        ("TTL string", ":-1"),
        ("DBSIZE", ":6"),
    ] {
        assert_eq!(ask(&node, asked), answer, "{asked}");
    }
    assert_eq!(
        node.info("db3")
            .as_deref()
            .map(|it| it.starts_with("keys=1,expires=1")),
        Some(true)
    );
}

/// The first deadline of a renewed lock is long past when the files are read. It has to be there all the same.
#[test]
fn a_lock_that_was_renewed_is_held_and_one_that_has_ended_is_not() {
    let past = in_future(Duration::ZERO) - 60_000;
    let end = in_future(Duration::from_secs(30));
    let imported = Imported::with(
        &[],
        &commands(&[
            &format!("SET renewed token PXAT {past}"),
            &format!("SET ended token PXAT {past}"),
            &format!("PEXPIREAT renewed {end}"),
            &format!("SET kept token PXAT {past}"),
            "PERSIST kept",
        ]),
    );
    let node = imported.served(&[]);
    assert_eq!(ask(&node, "GET ended"), "nil");
    assert_eq!(ask(&node, "SET renewed other NX"), "nil");
    assert_eq!(ask(&node, "PTTL kept"), ":-1");
    let left_ms: u64 = ask(&node, "PTTL renewed")[1..].parse().unwrap();
    assert!((20_000..=30_000).contains(&left_ms), "{left_ms}");
    let end_ms: u128 = ask(&node, "PEXPIRETIME renewed")[1..].parse().unwrap();
    assert!(end_ms.abs_diff(end) < 2000, "{end_ms} and {end}");
}

#[test]
fn what_is_cut_off_at_the_end_is_left_out_and_said() {
    let whole = commands(&["SET a 1", "SET b 2"]);
    let last = commands(&["SET c 3"]);
    let transaction = commands(&["MULTI", "SET d 4", "SET e 5"]);
    for (behind, is_transaction) in [(&last, false), (&transaction, true)] {
        for length in [1, 2, 5, behind.len() - 1] {
            let bytes = [&whole, &behind[..length]].concat();
            let imported = Imported::with(&whole, &bytes);
            let report = imported.import(&["--json"]).json();
            let cut = &report["cut"];
            assert_eq!(cut["offset"].as_u64(), Some(whole.len() as u64), "{report}");
            assert_eq!(cut["bytes"].as_u64(), Some(length as u64), "{report}");
            let began = length >= commands(&["MULTI"]).len();
            assert_eq!(cut["is_transaction"], is_transaction && began, "{report}");
            assert_eq!(report["keys"], 2, "{report}");
        }
    }
    let imported = Imported::with(&whole, &transaction);
    let text = imported.import(&[]).stdout;
    for part in [
        "was cut off",
        "from offset 0",
        "a transaction without its end",
    ] {
        assert!(text.contains(part), "'{part}' is not said:\n{text}");
    }
    // A transaction whose end is damaged would take all behind it along.
    for end in ["EXEK", "DISCARD"] {
        let damaged = commands(&["MULTI", "SET d 4", end, "SET lock token"]);
        Imported::with(&whole, &damaged).is_refused(
            &[],
            &["is damaged at offset 42", end, "no server logs that"],
        );
    }
    // What comes before the last file has to be whole.
    Imported::with(&transaction, &whole).is_refused(
        &[],
        &["base.aof is damaged at offset 0", "another file follows"],
    );
    Imported::with(&whole[..whole.len() - 1], &[])
        .is_refused(&[], &["base.aof is damaged at offset 27"]);
}

#[test]
fn damage_is_refused_with_its_file_and_offset() {
    let first = commands(&["SET key value"]);
    let at = first.len();
    let behind = commands(&["SET other value", "SET third value"]);
    for (from, to, what) in [
        ("*3", "+3", "a command has to begin here"),
        ("$5\r\nother", "$9\r\nother", "is damaged"),
        ("$5\r\nother", "$4\r\nother", "is damaged"),
        ("*3", "*2", "a command has to begin here"),
        ("$3\r\nSET", "$03\r\nSET", "invalid bulk length"),
        ("SET\r\n$5", "SET\n\r$5", "do not fit"),
        ("$5", "$999999999999", "is damaged"),
        ("*3", "*9999999999", "is damaged"),
        ("$5", "$-1", "is damaged"),
        // It claims all that follows, and more: a crash leaves nothing behind what it cuts off.
        (
            "$5\r\nother",
            "$5000000\r\nother",
            "another one seems to begin",
        ),
    ] {
        let text = String::from_utf8(behind.clone())
            .unwrap()
            .replacen(from, to, 1);
        let bytes = [&first, text.as_bytes()].concat();
        let imported = Imported::with(&bytes, &[]);
        let ended = imported.import(&[]);
        assert_eq!(ended.code, Some(2), "{from} {to}: {}", ended.stdout);
        // A length that is too small shows behind what it ends.
        assert!(
            ended.stderr.contains("base.aof is damaged at offset "),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains(what), "{from} {to}: {}", ended.stderr);
    }
    let cut = [&first, &commands(&["SET other value"])[..12], &first[..]].concat();
    Imported::with(&first, &cut).is_refused(&[], &[&format!("incr.aof is damaged at offset {at}")]);
    let zeros = [&first[..], &[0; 512]].concat();
    Imported::with(&first, &zeros)
        .is_refused(&[], &[&format!("at offset {at}"), r"there is '\x00'"]);
    let unmatched = commands(&["EXEC"]);
    Imported::with(&unmatched, &[]).is_refused(&[], &["MULTI and EXEC do not match"]);
}

/// redis-server and redis-check-aof refuse them as well.
#[test]
fn lines_that_end_with_lf_alone_are_damage_and_no_end_that_was_cut_off() {
    let whole = commands(&["SET key value"]);
    let text: Vec<u8> = whole
        .iter()
        .copied()
        .filter(|byte| *byte != b'\r')
        .collect();
    let said = ["is damaged at offset 0", "end with LF alone"];
    Imported::with(&text, &[]).is_refused(&[], &said);
    Imported::with(&[], &text).is_refused(&[], &said);
    // Its own lines are such that only the last one of the file is.
    let behind = [&whole[..], b"*2\r\n$3\nDEL\r"].concat();
    let said = format!("is damaged at offset {}", whole.len());
    Imported::with(&[], &behind).is_refused(&[], &[&said]);
}

#[test]
fn a_fifo_is_refused_by_its_name_and_not_waited_for() {
    let imported = Imported::new();
    let folder = imported.source().join("appendonlydir");
    let mut made = Command::new("mkfifo");
    let made = made.arg(folder.join("pipe")).arg(folder.join("x.manifest"));
    assert!(made.status().unwrap().success());
    let refuses = |source: &Path, name: &str| {
        let program = quorlock_testkit::binary::quorlock();
        let mut import = Command::new("timeout");
        import.arg("30").arg(program).args(["log", "import"]);
        let ended = import
            .arg(source)
            .arg(imported.directory())
            .output()
            .unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(66), "{stderr}");
        let said = format!("{name} cannot be read: it is not a regular file");
        assert!(stderr.contains(&said), "{stderr}");
    };
    refuses(&imported.source(), "x.manifest");
    refuses(&folder.join("pipe"), "pipe");
    fs::remove_file(folder.join("x.manifest")).unwrap();
    imported.write("x.manifest", b"file pipe seq 1 type i\n");
    refuses(&imported.source(), "pipe");
}

#[test]
fn a_snapshot_is_refused_with_the_commands_that_make_files_without_one() {
    let said = [
        "base.rdb begins with a snapshot",
        "config set aof-use-rdb-preamble no",
        "redis-cli bgrewriteaof",
    ];
    let imported = Imported::new();
    imported.write("appendonly.aof.1.base.rdb", b"REDIS0010\xfa\x09redis-ver");
    imported.write(
        "appendonly.aof.manifest",
        b"file appendonly.aof.1.base.rdb seq 1 type b\n",
    );
    imported.is_refused(&[], &said);
}

#[test]
fn what_a_node_does_not_have_is_refused_by_name_or_left_out_on_request() {
    let first = commands(&["SET key value"]);
    let behind = commands(&[
        "XADD stream * field value",
        "BF.ADD filter a",
        "XADD stream * a b",
        "SET last 1",
    ]);
    let imported = Imported::with(&[], &[first.clone(), behind].concat());
    let at = format!("incr.aof, offset {}", first.len());
    imported.is_refused(&[], &[&at, "XADD", "streams", "--skip-unsupported"]);
    let report = imported.import(&["--json", "--skip-unsupported"]).json();
    assert_eq!(report["skipped"]["XADD"], 2, "{report}");
    assert_eq!(report["skipped"]["BF.ADD"], 1, "{report}");
    assert_eq!(report["keys"], 2, "{report}");

    // What a node has, and what would mean something else here, is never left out.
    for (line, said) in [
        ("SETEX key 10 value", "counts from its execution"),
        ("SET key value PX 10", "counts from its execution"),
        ("EXPIRE key 10", "counts from its execution"),
        ("RPUSH key element", "WRONGTYPE"),
        ("SELECT 16", "16 databases"),
        ("RESTORE key2 0 bytes", "DUMP payload"),
    ] {
        let bytes = [first.clone(), commands(&[line])].concat();
        Imported::with(&[], &bytes).is_refused(&["--skip-unsupported"], &[&at, said]);
    }
    for line in [
        "EVAL return 0",
        "GET key",
        "BLPOP key 0",
        "LOCK.ACQUIRE key token 1000",
        "NONE",
    ] {
        let bytes = [first.clone(), commands(&[line])].concat();
        Imported::with(&[], &bytes).is_refused(&[], &[&at, line.split(' ').next().unwrap()]);
    }
}

#[test]
fn a_single_file_is_taken_and_a_directory_that_is_not_clear_is_not() {
    let imported = Imported::new();
    let source = imported.source();
    fs::remove_dir(source.join("appendonlydir")).unwrap();
    let ended = imported.import(&[]);
    assert_eq!(ended.code, Some(66), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("holds no append-only files"),
        "{}",
        ended.stderr
    );
    fs::write(source.join("appendonly.aof"), commands(&["SET key value"])).unwrap();
    assert_eq!(imported.import(&["--json"]).json()["keys"], 1);
    fs::remove_dir_all(imported.directory()).unwrap();

    fs::create_dir(source.join("appendonlydir")).unwrap();
    imported.write("appendonly.aof.manifest", b"file x seq 1 type i\n");
    imported.is_refused(&[], &["several sets"]);
    fs::remove_file(source.join("appendonly.aof")).unwrap();
    for (manifest, said) in [
        ("", "it lists no file"),
        (
            "file ../x seq 1 type i\n",
            "line 1: the name is not that of a file",
        ),
        ("file x seq 1\n", "line 1: it does not name"),
        (
            "# comment\nfile x seq 1 type i endoffset 5\n",
            "line 2: it is not of the form",
        ),
        (
            "file x seq 2 type i\nfile y seq 2 type i\n",
            "line 2: the numbers",
        ),
        (
            "file x seq 2 type i\nfile y seq 1 type b\n",
            "line 2: the base",
        ),
        ("file \"x seq 1 type i\n", "line 1: its quotes"),
    ] {
        imported.write("appendonly.aof.manifest", manifest.as_bytes());
        imported.is_refused(&[], &[said]);
    }
    // History is not read, and a name may have quotes.
    let manifest = b"file gone seq 1 type h\nfile \"a file\" seq 2 type i\n";
    imported.write("appendonly.aof.manifest", manifest);
    imported.write("a file", &commands(&["SET key value"]));
    assert_eq!(imported.import(&["--json"]).json()["keys"], 1);
}

#[test]
fn a_directory_that_holds_anything_is_left_as_it_is() {
    let imported = Imported::with(&[], &commands(&["SET key value"]));
    fs::create_dir(imported.directory()).unwrap();
    fs::write(imported.directory().join("file"), "text").unwrap();
    let ended = imported.import(&[]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("it holds file"), "{}", ended.stderr);
    assert_eq!(fs::read_dir(imported.directory()).unwrap().count(), 1);
    fs::remove_file(imported.directory().join("file")).unwrap();
    assert_eq!(imported.import(&[]).code, Some(0));
    let ended = imported.import(&[]);
    assert_eq!(ended.code, Some(1), "a node is there: {}", ended.stdout);
}

/// The system kills it where a file becomes larger than the process may make one.
#[test]
fn no_node_starts_from_an_import_that_was_killed() {
    let imported = Imported::with(&[], &commands(&["SET key value"]));
    let (source, directory) = (imported.source(), imported.directory());
    let program = quorlock_testkit::binary::quorlock();
    let limited = "ulimit -c 0; ulimit -f 64; exec \"$@\"";
    let status = Command::new("sh")
        .args(["-c", limited, "sh"])
        .arg(program)
        .args(["log", "import"])
        .args([&source, &directory])
        .status()
        .unwrap();
    assert_eq!(status.code(), None, "it was killed");
    let words = [
        "server",
        "--port",
        "0",
        "--dir",
        directory.to_str().unwrap(),
    ];
    let ended = imported.shell.quorlock(&words);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    let said = "Remove the directory with its node.id, and import again";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let check = ["log", "check", directory.to_str().unwrap()];
    assert_eq!(imported.shell.quorlock(&check).code, Some(2));
    let ended = imported.import(&[]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    let note = fs::read_to_string(directory.join("node.id")).unwrap();
    assert!(
        note.contains("remove this directory and import again"),
        "{note}"
    );
}

/// Many keys in several segments, of which some are longer than a part of a checkpoint.
#[test]
fn much_is_imported_as_a_checkpoint_of_several_parts() {
    let long = "x".repeat(4000);
    let mut lines: Vec<String> = (0..2000)
        .map(|number| format!("SET key:{number} {long}"))
        .collect();
    let elements: Vec<String> = (0..50).map(|number| format!("{number}:{long}")).collect();
    lines.push(format!("RPUSH list {}", elements.join(" ")));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let imported = Imported::with(&commands(&lines), &[]);
    let node = imported.served(&[]);
    assert_eq!(ask(&node, "DBSIZE"), ":2001");
    assert_eq!(ask(&node, "LLEN list"), ":50");
    assert_eq!(ask(&node, "LINDEX list 49"), elements[49]);
    assert_eq!(ask(&node, "GET key:1999"), long);
}
