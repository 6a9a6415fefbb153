//! A client's requests on servers in memory, which are scripted.

mod listener;
mod order;
mod servers;

use std::cell::{Cell, RefCell};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep};

use super::*;
use crate::connection::tests::told;
use crate::request_bytes::RequestBytes;

/// What a server does upon a request.
enum Says {
    Reply(String),
    Late(String),
    Nothing,
    Close,
}

fn reply(text: impl Into<String>) -> Says {
    Says::Reply(text.into())
}

type Script = dyn Fn(u16, &str) -> Says;

/// Servers by their ports, and what they were asked: the command, and the name of a script.
#[derive(Clone)]
struct Servers {
    says: Rc<Script>,
    asked: Rc<RefCell<Vec<String>>>,
    known: KnownServers,
    /// The last connection on which SUBSCRIBE was sent.
    listener: Rc<RefCell<Option<mpsc::UnboundedSender<String>>>>,
}

impl Servers {
    /// Two masters at the ports 1 and 2, of which the second has the slot of `a`. What they are asked about the cluster they answer
    /// unless `says` does, which is asked with an empty word whether there is a server at all.
    fn new(says: impl Fn(u16, &str) -> Option<Says> + 'static) -> Self {
        let usual = |port: u16, command: &str| match command {
            "" if port > 3 => Says::Close,
            "CLUSTER SLOTS" => reply(slots(2)),
            "CLUSTER INFO" => reply("$16\r\ncluster_state:ok\r\n"),
            "INFO server" => reply("$20\r\nredis_version:7.0.15\r\n"),
            "SUBSCRIBE" => reply("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"),
            "UNSUBSCRIBE" => reply("*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n"),
            "ASKING" | "AUTH" => reply("+OK\r\n"),
            _ => reply(":1\r\n"),
        };
        Self {
            says: Rc::new(move |port, command| {
                says(port, command).unwrap_or_else(|| usual(port, command))
            }),
            asked: Rc::default(),
            known: KnownServers::default(),
            listener: Rc::default(),
        }
    }

    async fn serve(self, port: u16, mut stream: DuplexStream) {
        let mut requests = RequestBytes::default();
        let mut buffer = [0; 4096];
        let (publish, mut published) = mpsc::unbounded_channel::<String>();
        loop {
            let count = tokio::select! {
                count = stream.read(&mut buffer) => count.unwrap_or(0),
                Some(message) = published.recv() => match &*message {
                    "" => 0,
                    message => {
                        stream.write_all(message.as_bytes()).await.expect("the client reads");
                        continue;
                    }
                },
            };
            if count == 0 {
                return;
            }
            requests.append(&buffer[..count]);
            while let Ok(Some(words)) = requests.next() {
                let word = |at: usize| String::from_utf8_lossy(&words[at]).into_owned();
                let command = match &*word(0) {
                    "CLUSTER" | "INFO" => format!("{} {}", word(0), word(1)),
                    other => other.to_owned(),
                };
                if command == "EVAL" || command == "ASKING" {
                    self.asked.borrow_mut().push(format!("{port} {command}"));
                }
                if command == "SUBSCRIBE" {
                    *self.listener.borrow_mut() = Some(publish.clone());
                }
                let says = (self.says)(port, &command);
                if matches!(says, Says::Late(_)) {
                    sleep(PATIENCE / 5).await;
                }
                match says {
                    Says::Reply(text) | Says::Late(text) => stream
                        .write_all(text.as_bytes())
                        .await
                        .expect("the client reads"),
                    Says::Nothing => {}
                    Says::Close => return,
                }
            }
        }
    }

    async fn gateway(&self) -> io::Result<Gateway> {
        let servers = self.clone();
        let connect = move |_, port| {
            let (ours, theirs) = duplex(1 << 16);
            let is_there = !matches!((servers.says)(port, ""), Says::Close);
            if is_there {
                spawn_local(servers.clone().serve(port, theirs));
            }
            async move {
                match is_there {
                    true => Ok(ours),
                    false => Err(io::ErrorKind::ConnectionRefused.into()),
                }
            }
        };
        let seeds = [("h".to_owned(), 1), ("h".to_owned(), 2)];
        let (login, known) = ((Some("me"), Some("s3cret")), self.known.clone());
        super::connect(connect, &seeds, login, PATIENCE, known).await
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.borrow_mut())
    }
}

/// What CLUSTER SLOTS says where this port has the upper half, with the slot of `a`.
fn slots(port: u16) -> String {
    slots_of(["i1", &format!("i{port}")], port)
}

/// The same, with the ids of both servers.
fn slots_of(ids: [&str; 2], port: u16) -> String {
    let server = |port, id: &str| format!("*3\r\n$0\r\n\r\n:{port}\r\n$2\r\n{id}\r\n");
    format!(
        "*2\r\n*3\r\n:0\r\n:8191\r\n{}*3\r\n:8192\r\n:16383\r\n{}",
        server(1, ids[0]),
        server(port, ids[1])
    )
}

const PATIENCE: Duration = Duration::from_millis(500);
const TAKE: [&str; 1] = ["SET a t NX PX 9000"];

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("there is a runtime");
    LocalSet::new().block_on(&runtime, test);
}

#[test]
fn a_request_follows_its_slot_and_asking_stands_before_it() {
    run(async {
        let servers = Servers::new(|port, command| {
            (port == 2 && command == "EVAL").then(|| reply("-MOVED 15495 :3\r\n"))
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        assert_eq!(told(&mut node, &TAKE).await, "+OK ");
        assert_eq!(servers.asked(), ["2 EVAL", "3 EVAL"]);
        assert_eq!(
            told(&mut node, &["SET b t NX PX 9000", TAKE[0]]).await,
            "+OK +OK "
        );
        let mut asked = servers.asked();
        asked.sort();
        assert_eq!(asked, ["1 EVAL", "3 EVAL"], "where it has gone is known");

        let servers = Servers::new(|port, command| {
            (port == 2 && command == "EVAL").then(|| reply("-ASK 15495 :3\r\n"))
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        for _ in 0..2 {
            assert_eq!(told(&mut node, &TAKE).await, "+OK ");
            let asked = ["2 EVAL", "3 ASKING", "3 EVAL"];
            assert_eq!(
                servers.asked(),
                asked,
                "other names of the slot may be here"
            );
        }
        // Two that send each request to the other.
        let servers = Servers::new(|port, command| {
            let to = format!("-MOVED 15495 :{}\r\n", 5 - port);
            (command == "EVAL").then(|| reply(to))
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        let refused = told(&mut node, &TAKE).await;
        assert!(refused.contains("changes hands"), "{refused}");
    });
}

#[test]
fn what_a_server_may_have_done_is_not_asked_again_and_what_was_not_sent_is() {
    run(async {
        let is_gone = Rc::new(RefCell::new(false));
        let gone = Rc::clone(&is_gone);
        let servers = Servers::new(move |port, command| match command {
            "EVAL" if port == 2 => {
                *gone.borrow_mut() = true;
                Some(Says::Close)
            }
            "CLUSTER SLOTS" if *gone.borrow() => Some(reply(slots(3))),
            _ => None,
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        sleep(PATIENCE).await;
        let refused = told(&mut node, &TAKE).await;
        assert!(
            refused.starts_with("-ERR Redis Cluster: h:2: it has closed"),
            "{refused}"
        );
        assert_eq!(servers.asked(), ["2 EVAL"], "it may have been done");
        assert_eq!(told(&mut node, &TAKE).await, "+OK ");
        assert_eq!(servers.asked(), ["3 EVAL"], "its follower is known by then");

        let is_gone = Rc::new(RefCell::new(false));
        let gone = Rc::clone(&is_gone);
        let servers = Servers::new(move |port, command| match command {
            "EVAL" | "" if port == 2 && *gone.borrow() => Some(Says::Close),
            "EVAL" if port == 2 => Some(Says::Close),
            "CLUSTER SLOTS" if *gone.borrow() => Some(reply(slots(3))),
            _ => None,
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        // It knows no other one yet.
        let refused = told(&mut node, &TAKE).await;
        assert!(refused.starts_with("-ERR"), "{refused}");
        sleep(PATIENCE).await;
        *is_gone.borrow_mut() = true;
        servers.asked();
        assert_eq!(told(&mut node, &TAKE).await, "+OK ");
        assert_eq!(
            servers.asked(),
            ["3 EVAL"],
            "there was no connection to the other one"
        );
    });
}

#[test]
fn a_master_that_serves_nothing_is_left_for_the_one_that_has_its_slots_now() {
    run(async {
        for words in [
            "-CLUSTERDOWN The cluster is down\r\n",
            "-LOADING Redis is loading the dataset in memory\r\n",
            "-READONLY You can't write against a read only replica.\r\n",
        ] {
            let (follower, views) = (Rc::new(Cell::new(2)), Rc::new(Cell::new(0)));
            let (now, seen) = (Rc::clone(&follower), Rc::clone(&views));
            let servers = Servers::new(move |port, command| match command {
                "EVAL" if port == 2 => Some(reply(words)),
                "CLUSTER SLOTS" => {
                    seen.set(seen.get() + 1);
                    // It does not know itself.
                    Some(reply(slots(if port == 2 { 2 } else { now.get() })))
                }
                _ => None,
            });
            let mut node = servers.gateway().await.expect("it is a cluster");
            sleep(PATIENCE).await;
            views.set(0);
            for _ in 0..9 {
                assert!(told(&mut node, &TAKE).await.starts_with(&words[..8]));
            }
            assert_eq!(views.get(), 1, "the others are not asked each time");
            follower.set(3);
            sleep(PATIENCE).await;
            servers.asked();
            assert_eq!(told(&mut node, &TAKE).await, "+OK ");
            assert_eq!(servers.asked(), ["2 EVAL", "3 EVAL"], "{words}");
        }
    });
}

#[test]
fn a_server_that_hangs_is_waited_for_once() {
    run(async {
        let servers =
            Servers::new(|port, command| (port == 2 && command == "EVAL").then_some(Says::Nothing));
        let mut node = servers.gateway().await.expect("it is a cluster");
        assert_eq!(told(&mut node, &TAKE).await, "");
        let begun = Instant::now();
        let mut buffer = [0; 256];
        let count = node.read(&mut buffer).await.expect("it is in memory");
        let refused = String::from_utf8_lossy(&buffer[..count]).into_owned();
        assert!(
            refused.contains("h:2: does not answer in time"),
            "{refused}"
        );
        assert!(begun.elapsed() <= PATIENCE, "{:?}", begun.elapsed());
        let lines = [TAKE[0], "SET b t NX PX 9000"];
        let answers = told(&mut node, &lines).await;
        assert!(
            answers.contains("has not answered in time +OK "),
            "{answers}"
        );
        sleep(PATIENCE).await;
        servers.asked();
        assert_eq!(told(&mut node, &TAKE).await, "");
        assert_eq!(servers.asked(), ["2 EVAL"], "it is asked again");
    });
}

#[test]
fn several_names_are_one_script_where_their_slots_agree() {
    run(async {
        let servers = Servers::new(|_, _| None);
        let mut node = servers.gateway().await.expect("it is a cluster");
        let lines = [
            "EVAL ACQUIRE_ALL_SCRIPT 2 {a}1 {a}2 t1 9000",
            "EVAL ACQUIRE_ALL_SCRIPT 2 a b t1 9000",
            "EVAL RELEASE_ALL_SCRIPT 2 a b t1",
            "LOCK.ACQUIRE a t 9000",
        ];
        let answers = told(&mut node, &lines).await;
        assert!(
            answers.starts_with(":1 -ERR these names are in different hash slots"),
            "{answers}"
        );
        assert!(
            answers.contains(":0 -ERR unknown command 'LOCK.ACQUIRE'"),
            "{answers}"
        );
        assert_eq!(servers.asked(), ["2 EVAL"]);
    });
}

#[test]
fn a_list_of_locks_is_that_of_the_masters_of_now() {
    run(async {
        let is_over = Rc::new(Cell::new(false));
        let now = Rc::clone(&is_over);
        let servers = Servers::new(move |port, command| match command {
            "CLUSTER SLOTS" if now.get() => Some(reply(slots(3))),
            "SCAN" if port == 1 => Some(reply("*2\r\n$1\r\n0\r\n*0\r\n")),
            "SCAN" => Some(reply(format!("*2\r\n$1\r\n0\r\n*1\r\n$2\r\na{port}\r\n"))),
            "EVAL" => Some(reply("*2\r\n$2\r\nt1\r\n:9000\r\n")),
            _ => None,
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        let lines = ["SCAN 0 MATCH *"];
        assert_eq!(told(&mut node, &lines).await, "*2 $1 0 *1 $2 a2 ");
        is_over.set(true);
        sleep(PATIENCE).await;
        assert_eq!(told(&mut node, &lines).await, "*2 $1 0 *1 $2 a3 ");
    });
}

#[test]
fn the_rest_of_several_names_is_waited_for_while_the_caller_waits() {
    run(async {
        let left = Rc::new(Cell::new(20));
        let more = Rc::clone(&left);
        let servers = Servers::new(move |_, command| {
            let again = || reply("-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
            let before = more.replace(more.get() - i32::from(command == "EVAL"));
            (command == "EVAL" && before > 0).then(again)
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        let mut take = async || {
            let line = "EVAL ACQUIRE_ALL_SCRIPT 2 {a}1 {a}2 t1 9000";
            let (begun, mut buffer) = (Instant::now(), [0; 256]);
            assert_eq!(told(&mut node, &[line]).await, "");
            let count = node.read(&mut buffer).await.expect("it is in memory");
            let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
            (text, begun.elapsed())
        };
        assert_eq!(take().await.0, ":1\r\n");
        assert!(servers.asked().len() == 21);
        left.set(1_000);
        let (text, took) = take().await;
        assert!(text.starts_with("-TRYAGAIN"), "{text}");
        assert!(PATIENCE < took && took < PATIENCE * 2, "{took:?}");
    });
}

#[test]
fn what_is_no_cluster_is_refused_for_good_and_one_that_is_down_for_now() {
    run(async {
        let refused = async |says: fn(u16, &str) -> Option<Says>| {
            let error = Servers::new(says).gateway().await.expect_err("no cluster");
            (error.kind(), error.to_string())
        };
        let (kind, text) = refused(|_, command| {
            let alone = "-ERR This instance has cluster support disabled\r\n";
            (command == "CLUSTER SLOTS").then(|| reply(alone))
        })
        .await;
        assert_eq!(kind, io::ErrorKind::InvalidData);
        assert!(text.contains("write redis://HOST:PORT"), "{text}");
        let (kind, text) = refused(|_, command| {
            (command == "AUTH").then(|| reply("-WRONGPASS invalid username-password pair\r\n"))
        })
        .await;
        assert_eq!(kind, io::ErrorKind::InvalidData);
        assert!(
            text.contains("WRONGPASS") && !text.contains("s3cret"),
            "{text}"
        );
        let (kind, text) = refused(|_, command| {
            let down = "$18\r\ncluster_state:fail\r\n";
            (command == "CLUSTER INFO").then(|| reply(down))
        })
        .await;
        assert_eq!(kind, io::ErrorKind::Other);
        assert!(
            text.contains("h:1: CLUSTERDOWN") && text.contains("h:2: "),
            "{text}"
        );
        let (_, text) =
            refused(|_, command| (command == "CLUSTER SLOTS").then_some(Says::Nothing)).await;
        assert!(text.contains("does not answer in time"), "{text}");
        // One of two is enough.
        let servers =
            Servers::new(|port, command| (port == 1 && command.is_empty()).then_some(Says::Close));
        assert!(servers.gateway().await.is_ok());
    });
}

#[test]
fn servers_of_two_clusters_keep_no_locks_together() {
    run(async {
        let of = async |first: &'static str, second: &'static str| {
            let servers = Servers::new(move |port, command| match (port, command) {
                (1, "CLUSTER SLOTS") => Some(reply(first)),
                (2, "CLUSTER SLOTS") => Some(Says::Late(second.to_owned())),
                // One that is down counts as well.
                (2, "CLUSTER INFO") => Some(reply("$18\r\ncluster_state:fail\r\n")),
                _ => None,
            });
            servers.gateway().await
        };
        let leaked = |ids| &*slots_of(ids, 2).leak();
        let (ours, theirs) = (leaked(["i1", "i2"]), leaked(["i8", "i9"]));
        let error = of(ours, theirs).await.expect_err("there are two");
        let text = error.to_string();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(text.contains("h:1 and h:2 are in two clusters"), "{text}");
        // One of a failover is missing on either side, and a server that was taken out of the cluster is alone and has no slots.
        assert!(of(ours, leaked(["i2", "i3"])).await.is_ok());
        assert!(of(ours, "*0\r\n").await.is_ok());
    });
}

#[test]
fn another_cluster_is_not_taken_for_the_first_one() {
    run(async {
        let ids = Rc::new(RefCell::new(["i1", "i2"]));
        let now = Rc::clone(&ids);
        let servers = Servers::new(move |port, command| match command {
            "CLUSTER SLOTS" => Some(reply(slots_of(*now.borrow(), 2))),
            "EVAL" if port == 2 => Some(Says::Close),
            _ => None,
        });
        let mut node = servers.gateway().await.expect("it is a cluster");
        let asked = async |node: &mut Gateway| {
            sleep(PATIENCE).await;
            told(node, &TAKE).await
        };
        assert!(asked(&mut node).await.contains("it has closed"));
        // All servers of before are replaced, but not at once.
        for next in [["i2", "i3"], ["i3", "i4"]] {
            *ids.borrow_mut() = next;
            assert!(asked(&mut node).await.contains("it has closed"));
        }
        *ids.borrow_mut() = ["i8", "i9"];
        servers.asked();
        for _ in 0..2 {
            let refused = asked(&mut node).await;
            assert!(refused.contains("h:2: it names no server"), "{refused}");
        }
        let error = servers.gateway().await.expect_err("the client is the same");
        assert!(error.to_string().contains("it names no server"), "{error}");
        assert_eq!(error.kind(), io::ErrorKind::Other);
        assert_eq!(
            servers.asked(),
            [""; 0],
            "nothing is asked of the other one"
        );
        *ids.borrow_mut() = ["i3", "i4"];
        assert!(servers.gateway().await.is_ok());
    });
}
