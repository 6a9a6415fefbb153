//! Clients in the node's own process where something ends: the node, a connection, a thread, or the program's patience.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use quorlock_server::config::Config;
use quorlock_server::{CallError, Node, NodeStream, Value};
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};

use crate::machine::hooked_clock::HookedClock;
use crate::machine::{Lists, configured, run, wire};

/// What a thread does at its next reading of the clock.
enum Next {
    Wait(Sender<()>, Receiver<()>),
    Panic,
}

/// A clock at which the thread of this name does something once; set by the test.
type Trap = Arc<Mutex<Option<(&'static str, Next)>>>;

async fn trapped(directives: Lists<'_>) -> (Arc<Node>, Trap) {
    let trap = Trap::default();
    let hook = trap.clone();
    let clock = HookedClock::new(move |_| {
        let name = std::thread::current();
        let next = {
            let mut trap = hook.lock().unwrap();
            trap.take_if(|(thread, _)| name.name() == Some(*thread))
        };
        match next {
            Some((_, Next::Wait(arrived, go))) => {
                arrived.send(()).unwrap();
                go.recv().unwrap();
            }
            Some((_, Next::Panic)) => panic!("planted"),
            None => {}
        }
    });
    let builder = configured(directives).clock(Arc::new(clock));
    (Arc::new(builder.ephemeral().start().await.unwrap()), trap)
}

/// Calls on a thread of this name; the result comes over the channel.
fn call_on(
    name: &str,
    node: &Arc<Node>,
    words: &'static [&'static str],
) -> Receiver<Result<Value, CallError>> {
    let (sender, results) = channel();
    let node = Arc::clone(node);
    let calls = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let _ = sender.send(runtime.block_on(node.call(words)));
    };
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(calls).unwrap();
    results
}

/// Waits at the next reading of a thread; the second end lets it go on.
fn stop_at(trap: &Trap, thread: &'static str) -> (Receiver<()>, Sender<()>) {
    let ((arrived, has_arrived), (go, goes)) = (channel(), channel());
    *trap.lock().unwrap() = Some((thread, Next::Wait(arrived, goes)));
    (has_arrived, go)
}

/// A call on a thread of this name that stands at a reading of the clock; the second end lets it go on. Another thread that
/// has the event loop at that moment may answer it, without a reading on its own: then the next one is tried.
fn caught(
    node: &Arc<Node>,
    trap: &Trap,
    thread: &'static str,
) -> (Receiver<Result<Value, CallError>>, Sender<()>) {
    loop {
        let (has_arrived, go) = stop_at(trap, thread);
        let call = call_on(thread, node, &["PING"]);
        loop {
            if has_arrived.recv_timeout(Duration::from_millis(5)).is_ok() {
                return (call, go);
            }
            let Ok(answer) = call.try_recv() else {
                continue;
            };
            if trap.lock().unwrap().take().is_some() {
                answer.unwrap();
                break;
            }
            let (sender, call) = channel();
            sender.send(answer).unwrap();
            has_arrived.recv_timeout(PATIENCE).unwrap();
            return (call, go);
        }
    }
}

async fn stops(node: &Arc<Node>) {
    let stopped = tokio::time::timeout(PATIENCE, node.stopped()).await;
    if stopped.is_err() {
        std::mem::forget(Arc::clone(node));
        panic!("the node does not stop");
    }
}

/// Found by reading: who ran the event loop took the order to stop, and nobody told the thread.
#[test]
fn a_node_stops_whose_last_turn_another_thread_has_run() {
    run(async {
        let (node, trap) = trapped(&[]).await;
        let first = call_on("caller", &node, &["PING"]);
        first.recv_timeout(PATIENCE).unwrap().unwrap();
        let (second, go) = caught(&node, &trap, "caller");
        node.request_stop();
        tokio::time::sleep(Duration::from_millis(300)).await;
        go.send(()).unwrap();
        stops(&node).await;
        // It may have been executed before.
        let _answer = second.recv_timeout(PATIENCE).expect("an answer");
    });
}

/// Found by reading: a connection that came behind the thread's last turn stayed open for ever.
#[test]
fn a_call_that_comes_as_the_node_ends_is_refused() {
    run(async {
        let (node, trap) =
            trapped(&[("appendfsync", &["always"]), ("first-start", &["serve"])]).await;
        let (late, go) = caught(&node, &trap, "late");
        node.request_stop();
        stops(&node).await;
        go.send(()).unwrap();
        late.recv_timeout(PATIENCE).expect("an answer").unwrap_err();
    });
}

/// The same where a thread of the program has panicked in the event loop.
#[test]
fn a_call_that_comes_after_a_panic_is_refused() {
    run(async {
        let (node, trap) = trapped(&[]).await;
        let mut idle = node.connect().unwrap();
        let (late, go) = caught(&node, &trap, "late");
        let first = call_on("caller", &node, &["PING"]);
        first.recv_timeout(PATIENCE).unwrap().unwrap();
        // Another thread may answer it: then the next one panics.
        let answers = || {
            *trap.lock().unwrap() = Some(("caller", Next::Panic));
            let call = call_on("caller", &node, &["PING"]);
            call.recv_timeout(PATIENCE).is_ok()
        };
        while answers() {}
        stops(&node).await;
        go.send(()).unwrap();
        late.recv_timeout(PATIENCE).expect("an answer").unwrap_err();
        assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0);
    });
}

/// Found by reading: the thread's panic left open what it should have closed.
#[test]
fn a_call_ends_where_the_thread_panics() {
    run(async {
        let (node, trap) = trapped(&[]).await;
        let blocked = call_on("caller", &node, &["BLPOP", "l", "0"]);
        while !wire(&node)
            .ask("INFO clients")
            .contains("blocked_clients:1")
        {
            tokio::task::yield_now().await;
        }
        *trap.lock().unwrap() = Some(("quorlock-local", Next::Panic));
        wire(&node).ask("RPUSH l a");
        let ended = blocked.recv_timeout(PATIENCE).expect("an answer");
        assert_eq!(ended.unwrap_err(), CallError::Closed);
    });
}

/// Found by reading: the node took the program's panic for its own, and stopped.
#[test]
fn a_node_goes_on_where_a_thread_of_the_program_panics() {
    run(async {
        let node = Arc::new(configured(&[]).ephemeral().start().await.unwrap());
        let stream = node.connect().unwrap();
        let thread = std::thread::spawn(move || {
            let _stream = stream;
            panic!("of the program");
        });
        assert!(thread.join().is_err());
        let pong = node.call(["PING"]).await;
        assert_eq!(pong.unwrap(), Value::Status("PONG".to_owned()));
        assert!(wire(&node).ask("PING").contains("PONG"));
    });
}

/// Found by reading: the thread woke itself again and again until the time was up.
#[test]
fn a_worker_that_waits_for_a_time_sleeps() {
    run(async {
        let readings = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&readings);
        let clock = HookedClock::new(move |_| {
            if std::thread::current().name() == Some("quorlock-local") {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let builder = configured(&[]).clock(Arc::new(clock)).ephemeral();
        let node = builder.start().await.unwrap();
        let mut stream = node.connect().unwrap();
        stream.write_all(b"BLPOP l 5\r\n").await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let before = readings.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let more = readings.load(Ordering::SeqCst) - before;
        assert!(more < 20, "{more} readings in a tenth of a second");
    });
}

/// A task whose waker does this when it is woken, and this when it is dropped.
struct Task<W: Fn(), D: Fn()>(W, D);

impl<W: Fn() + Send + Sync, D: Fn() + Send + Sync> Wake for Task<W, D> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

impl<W: Fn(), D: Fn()> Drop for Task<W, D> {
    fn drop(&mut self) {
        (self.1)();
    }
}

fn await_with(stream: &mut NodeStream, waker: &Waker) {
    let mut buffer = [0; 64];
    let read = pin!(stream).poll_read(
        &mut Context::from_waker(waker),
        &mut ReadBuf::new(&mut buffer),
    );
    assert!(read.is_pending());
}

/// Found by reading: a waker ran while the event loop was locked, so that what it waited for never came.
#[test]
fn who_is_woken_may_wait_for_the_node() {
    run(async {
        let node = Arc::new(configured(&[]).ephemeral().start().await.unwrap());
        let mut stream = node.connect().unwrap();
        stream.write_all(b"BLPOP l 0\r\n").await.unwrap();
        let (sender, answers) = channel();
        let (other, sender) = (Arc::clone(&node), Mutex::new(sender));
        let asks = move || {
            let pong = call_on("other", &other, &["PING"]).recv_timeout(PATIENCE);
            sender.lock().unwrap().send(pong.is_ok()).unwrap();
        };
        await_with(&mut stream, &Waker::from(Arc::new(Task(asks, || {}))));
        node.call(["RPUSH", "l", "a"]).await.unwrap();
        assert_eq!(answers.recv_timeout(2 * PATIENCE), Ok(true));
    });
}

/// Found by reading: it waited for itself.
#[test]
fn the_last_owner_of_a_node_may_be_woken_by_it() {
    run(async {
        let node = Arc::new(configured(&[]).ephemeral().start().await.unwrap());
        let (mut stream, mut pusher) = (node.connect().unwrap(), wire(&node));
        stream.write_all(b"BLPOP l 0\r\n").await.unwrap();
        let (sender, dropped) = channel();
        let (owner, sender) = (Mutex::new(Some(node)), Mutex::new(sender));
        let drops = move || {
            drop(owner.lock().unwrap().take());
            let _ = sender.lock().unwrap().send(());
        };
        await_with(&mut stream, &Waker::from(Arc::new(Task(drops, || {}))));
        pusher.send(b"RPUSH l a\r\n");
        dropped.recv_timeout(PATIENCE).expect("the node is dropped");
    });
}

/// Found by reading: the last waker was dropped while the connection was locked.
#[test]
fn a_waker_that_is_replaced_may_use_the_node() {
    let (sender, done) = channel();
    std::thread::spawn(move || {
        run(async {
            let node = Arc::new(configured(&[]).ephemeral().start().await.unwrap());
            let mut stream = node.connect().unwrap();
            stream.write_all(b"BLPOP l 0\r\n").await.unwrap();
            // The thread has started.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let other = Arc::clone(&node);
            let pushes = move || {
                let mut call = pin!(other.call(["RPUSH", "l", "a"]));
                // It lets other tasks run before it is executed.
                let mut poll = || call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!((0..8).any(|_| poll().is_ready()));
            };
            await_with(&mut stream, &Waker::from(Arc::new(Task(|| {}, pushes))));
            await_with(&mut stream, Waker::noop());
            assert_ne!(stream.read(&mut [0; 64]).await.unwrap(), 0);
        });
        sender.send(()).unwrap();
    });
    done.recv_timeout(PATIENCE).expect("it ends");
}

/// Found by reading: what the event loop had not read yet was lost, unlike on a socket.
#[test]
fn what_was_sent_before_a_connection_is_dropped_is_executed() {
    run(async {
        let builder =
            configured(&[("appendfsync", &["always"]), ("first-start", &["serve"])]).ephemeral();
        let node = builder.start().await.unwrap();
        for number in 0..200 {
            let mut stream = node.connect().unwrap();
            let request = format!("SET k{number} 1 PX 30000\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(node.call(["DBSIZE"]).await.unwrap(), Value::Integer(200));
        let clients = wire(&node).ask("INFO clients");
        assert!(clients.contains("connected_clients:2\r\n"), "{clients}");
    });
}

/// Found by reading: the reason was thrown away.
#[test]
fn a_call_that_is_too_long_learns_why_it_was_refused() {
    run(async {
        let builder = configured(&[("proto-max-bulk-len", &["1mb"])]).ephemeral();
        let node = builder.start().await.unwrap();
        let long = vec![b'x'; 3_000_000];
        let refused = node.call([&b"SET"[..], b"k", &long]).await.unwrap_err();
        let is_told =
            matches!(&refused, CallError::Refused(text) if text.contains("invalid bulk length"));
        assert!(is_told, "{refused}");
        assert_eq!(node.call(["DBSIZE"]).await.unwrap(), Value::Integer(0));
    });
}

/// Found by reading: it was asked for the password, and at maxclients nobody could connect any more.
#[test]
fn a_connection_that_is_reset_needs_no_password_either() {
    run(async {
        let builder = configured(&[("requirepass", &["secret"])]).ephemeral();
        let node = builder.start().await.unwrap();
        let mut stream = node.connect().unwrap();
        stream.write_all(b"RESET\r\nDBSIZE\r\n").await.unwrap();
        let mut answers = [0; 12];
        stream.read_exact(&mut answers).await.unwrap();
        assert_eq!(&answers, b"+RESET\r\n:0\r\n");
    });
}

/// Longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a client in the process keeps open must not keep the next node from the directory.
#[test]
fn a_connection_that_outlives_its_node_keeps_nothing_of_it_in_use() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        quorlock_server::init(directory.path(), &Config::default()).unwrap();
        let start = || {
            let builder = configured(&[("first-start", &["serve"])]).port(0);
            builder.dir(directory.path()).start()
        };
        let node = start().await.unwrap();
        let _stream = node.connect().unwrap();
        node.call(["SET", "a", "1", "PX", "30000"]).await.unwrap();
        node.stop().await.unwrap();
        let next = start().await.expect("the directory is free");
        next.stop().await.unwrap();
    });
}

/// Planted: only a receiver that has gone before the node answers stops it.
#[test]
fn a_start_that_is_dropped_once_the_node_answers_stops_it() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        quorlock_server::init(directory.path(), &Config::default()).unwrap();
        let start = || {
            let builder = configured(&[("first-start", &["serve"])]).port(0);
            Box::pin(builder.dir(directory.path()).start())
        };
        let mut first = start();
        // It is polled once, and answers a while after.
        let polled = tokio::time::timeout(Duration::ZERO, &mut first).await;
        assert!(polled.is_err(), "it has answered at once");
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(first);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while start().await.is_err() {
            assert!(tokio::time::Instant::now() < deadline, "the node goes on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

/// They need no descriptor, and `maxclients` is about those that do.
#[test]
fn clients_in_the_process_take_no_place_of_those_with_sockets() {
    run(async {
        let builder = configured(&[("maxclients", &["1"])]).ephemeral();
        let node = builder.start().await.unwrap();
        let mut streams: Vec<_> = (0..5).map(|_| node.connect().unwrap()).collect();
        for stream in &mut streams {
            stream.write_all(b"PING\r\n").await.unwrap();
            let mut reply = [0; 7];
            stream.read_exact(&mut reply).await.unwrap();
        }
        assert!(
            wire(&node)
                .ask("INFO clients")
                .contains("connected_clients:6")
        );
        node.stop().await.unwrap();
    });
}
