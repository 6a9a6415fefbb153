//! Nodes whose lists of locks have no end: `quorlock locks` ends beside them, and says of which node it has read a part.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use quorlock_testkit::{NodeProcess, eventually};
use serde_json::Value;

use crate::shell::Shell;

/// Listens like a node that has no locks, and names these cursors behind its pages. Ends with the test's process. Gives its URL.
fn endless(id: &'static str, cursor: fn(u64) -> u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || answer(stream, id, cursor));
        }
    });
    url
}

fn answer(stream: TcpStream, id: &str, cursor: fn(u64) -> u64) {
    let mut requests = BufReader::new(stream);
    let mut pages = 0;
    while let Some(words) = next_request(&mut requests) {
        let reply = match &*words[0] {
            "INFO" => {
                let info = format!("quorlock_version:1\r\nrun_id:{id}\r\n");
                format!("${}\r\n{info}\r\n", info.len())
            }
            "LOCK.LIST" | "SCAN" => {
                pages += 1;
                let cursor = cursor(pages).to_string();
                format!("*2\r\n${}\r\n{cursor}\r\n*0\r\n", cursor.len())
            }
            _ => "$-1\r\n".to_owned(),
        };
        if requests.get_mut().write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// The words of a request; none where the connection was closed.
fn next_request(from: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut number = |kind: char| {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        let mut bytes = Vec::new();
        let count: usize = line.trim_end().strip_prefix(kind)?.parse().ok()?;
        if kind == '$' {
            bytes.resize(count + 2, 0);
            from.read_exact(&mut bytes).ok()?;
            bytes.truncate(count);
        }
        Some((count, String::from_utf8_lossy(&bytes).into_owned()))
    };
    let (count, _) = number('*')?;
    (0..count).map(|_| Some(number('$')?.1)).collect()
}

#[test]
fn a_list_that_has_no_end_is_read_for_a_time_and_its_node_is_named() {
    let shell = Shell::new();
    let nodes = ["one", "two"].map(|name| NodeProcess::start(shell.path(), name, &[]));
    for node in &nodes {
        eventually("the lock is taken", || {
            let taken = node.ask(&["SET", "job", "t", "PX", "600000"]);
            taken.is_ok_and(|reply| reply == "+OK")
        });
    }
    let [one, two] = &nodes;
    let (counting, circling) = (
        endless("counts", |page| page),
        endless("circles", |page| 1 + page % 3),
    );
    let locks = |list: &[&str], more: &[&str]| {
        let list = list.join(",");
        shell.quorlock(&[&["locks", "--nodes", &list][..], more].concat())
    };
    for (url, why, more) in [
        (&counting, "had no end after", &["--within", "100ms"][..]),
        (
            &counting,
            "had no end after",
            &["--within", "100ms", "--all"],
        ),
        (&circling, "a cursor came again", &[]),
        (&circling, "a cursor came again", &["--all"]),
    ] {
        let list = [one.url(), url.clone(), two.url()];
        let list = list.each_ref().map(String::as_str);
        let text = locks(&list, more);
        assert_eq!(text.code, Some(0), "{}", text.stderr);
        let lines: Vec<&str> = text.stdout.lines().collect();
        let named = format!("  not whole: {url}: its list of locks ");
        let named = lines.iter().find(|line| line.starts_with(&named));
        assert!(
            named.is_some_and(|line| line.contains(why)),
            "{}",
            text.stdout
        );
        assert!(
            text.stdout.contains("1 lock, 1 held; 3 of 3"),
            "{}",
            text.stdout
        );
        let ended = locks(&list, &[more, &["--json"]].concat());
        let last = ended.stdout.lines().last().unwrap();
        let counts: Value = serde_json::from_str(last).unwrap();
        assert_eq!(counts["complete"], false, "{counts}");
        assert_eq!(counts["unfinished"][0]["node"], url.as_str(), "{counts}");
        assert_eq!(counts["answered"], 3, "{counts}");
    }
    // A lock that is held may be on no list that was read to its end.
    let first = one.url();
    let few = locks(&[&first, &counting, &circling], &["--within", "100ms"]);
    assert_eq!(few.code, Some(69), "{}", few.stdout);
    assert_eq!(
        few.stdout.matches("not whole: ").count(),
        2,
        "{}",
        few.stdout
    );
}
