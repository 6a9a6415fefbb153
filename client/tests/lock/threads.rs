//! The thread that the clients of a process share: what it is shared by, and what none of them does to another.
//!
//! What a process has is counted in one of its own, which runs the test again: other tests have clients too.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use quorlock_client::{
    Boot, BootTime, ClientInstant, Clock, Loss, RawTime, Redlock, SystemClock, blocking,
};
use quorlock_testkit::{eventually, pause};

use crate::fake_node::FakeNode;
use crate::{TTL, builder, client};

#[test]
fn fifty_clients_have_one_thread_and_the_descriptors_of_one() {
    alone(
        "threads::fifty_clients_have_one_thread_and_the_descriptors_of_one",
        || {
            let nodes = FakeNode::five();
            let before = polls();
            let clients: Vec<_> = (0..50)
                .map(|_| blocking::Redlock::from(client(&nodes)))
                .collect();
            for redlock in &clients {
                assert_eq!(redlock.statistics().held, 0);
            }
            assert_eq!(client_threads(), 1);
            assert_eq!(polls() - before, POLLS_OF_A_THREAD);
            for (number, redlock) in clients.iter().enumerate() {
                let guard = redlock
                    .lock(format!("a{number}"))
                    .ttl(TTL)
                    .acquire()
                    .unwrap();
                guard.extend().unwrap();
                assert!(guard.release().released());
            }
            assert_eq!(client_threads(), 1);
        },
    );
}

#[test]
fn clients_that_were_dropped_and_owe_to_dead_nodes_keep_no_thread_of_their_own() {
    alone(
        "threads::clients_that_were_dropped_and_owe_to_dead_nodes_keep_no_thread_of_their_own",
        || {
            let nodes = FakeNode::five();
            let before = polls();
            let held: Vec<_> = (0..20)
                .map(|number| {
                    let redlock = blocking::Redlock::from(client(&nodes));
                    let lock = redlock
                        .lock(format!("a{number}"))
                        .ttl(Duration::from_secs(3));
                    (lock.acquire().unwrap(), redlock)
                })
                .collect();
            drop(nodes);
            // In a task none of them waits.
            runtime().block_on(async { drop(held) });
            pause(Duration::from_millis(300));
            // They look for the nodes until the leases end, and a client that is built meanwhile has their thread.
            assert_eq!(client_threads(), 1);
            let redlock = Redlock::builder().node("redis://127.0.0.1:1").build();
            let redlock = blocking::Redlock::from(redlock.unwrap());
            assert!(!redlock.probe()[0].votes());
            assert_eq!(client_threads(), 1);
            drop(redlock);
            eventually("the leases end", || client_threads() == 0);
            eventually("nothing is left", || polls() <= before);
        },
    );
}

#[test]
fn the_thread_ends_with_the_last_client_and_starts_with_the_next() {
    alone(
        "threads::the_thread_ends_with_the_last_client_and_starts_with_the_next",
        || {
            let nodes = FakeNode::five();
            let before = polls();
            for _ in 0..3 {
                let (one, other) = (client(&nodes), blocking::Redlock::from(client(&nodes)));
                let guard = other.lock("a").ttl(TTL).acquire().unwrap();
                drop(one.clone());
                drop((one, other));
                assert_eq!(client_threads(), 1);
                guard.extend().unwrap();
                assert!(guard.release_everywhere().released());
                eventually("the thread ends", || client_threads() == 0);
                eventually("its descriptors are closed", || polls() == before);
            }
            // Each of these may come at any moment of the thread's end.
            for round in 0..500 {
                let redlock = Redlock::builder().node("redis://127.0.0.1:1").build();
                let redlock = blocking::Redlock::from(redlock.unwrap());
                // One that does not run has nothing to say.
                assert_eq!(redlock.probe().len(), 1, "{round}");
            }
        },
    );
}

#[test]
fn a_client_has_a_thread_of_its_own_where_that_was_asked() {
    alone(
        "threads::a_client_has_a_thread_of_its_own_where_that_was_asked",
        || {
            let nodes = FakeNode::five();
            let own = || blocking::Redlock::from(builder(&nodes).own_thread(true).build().unwrap());
            let alone = own();
            assert_eq!((alone.statistics().held, client_threads()), (0, 1));
            let sharing = [client(&nodes), client(&nodes)];
            eventually("it has its name", || client_threads() == 2);
            let other = own();
            assert_eq!((other.statistics().held, client_threads()), (0, 3));
            drop(sharing);
            eventually("the shared thread ends", || client_threads() == 2);
            assert!(
                alone
                    .lock("a")
                    .ttl(TTL)
                    .acquire()
                    .unwrap()
                    .release()
                    .released()
            );
            drop((alone, other));
            eventually("both end", || client_threads() == 0);
        },
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_callers_of_one_client_do_not_delay_the_renewals_of_another() {
    let nodes = FakeNode::five();
    let (busy, other) = (client(&nodes), client(&nodes));
    let guard = other.lock("beside").ttl(Duration::from_secs(3));
    let guard = guard.acquire().await.unwrap();
    let (is_over, calls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let callers: Vec<_> = (0..10_000)
        .map(|_| {
            let (busy, is_over, calls) = (busy.clone(), is_over.clone(), calls.clone());
            // Its thread always has the next call.
            tokio::spawn(async move {
                while !is_over.load(Ordering::SeqCst) {
                    assert_eq!(busy.statistics().await.held, 0);
                    calls.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let (began, mut longest) = (SystemClock.now(), Duration::ZERO);
    while SystemClock.now().since(began) < Duration::from_secs(4) {
        let asked = SystemClock.now();
        let statistics = tokio::time::timeout(TTL, other.statistics()).await;
        assert_eq!(statistics.unwrap().held, 1);
        longest = longest.max(SystemClock.now().since(asked));
        assert_eq!(guard.loss(), None);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    is_over.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    assert!(calls.load(Ordering::SeqCst) > 20_000);
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert!(guard.is_valid() && !guard.is_renewal_failing());
    assert!(guard.release().await.released());
}

/// A clock of a program that panics on the client's thread once it is told to.
#[derive(Debug, Default)]
struct Panicking(AtomicBool);

impl Clock for Panicking {
    fn now(&self) -> ClientInstant {
        let is_on_the_thread = std::thread::current().name() == Some("quorlock-client");
        assert!(
            !(is_on_the_thread && self.0.load(Ordering::SeqCst)),
            "as it was told"
        );
        SystemClock.now()
    }
    fn raw(&self) -> RawTime {
        SystemClock.raw()
    }
    fn boottime(&self) -> BootTime {
        SystemClock.boottime()
    }
    fn wall_us(&self) -> u64 {
        SystemClock.wall_us()
    }
    fn boot(&self) -> Boot {
        SystemClock.boot()
    }
}

#[test]
fn a_client_that_panics_ends_alone() {
    alone("threads::a_client_that_panics_ends_alone", || {
        let nodes = FakeNode::five();
        let clock = Arc::new(Panicking::default());
        let panicking = builder(&nodes).clock(clock.clone()).build().unwrap();
        let panicking = blocking::Redlock::from(panicking);
        let other = blocking::Redlock::from(client(&nodes));
        let [lost, guard] = [(&panicking, "a"), (&other, "b")]
            .map(|(redlock, name)| redlock.lock(name).ttl(TTL).acquire().unwrap());
        clock.0.store(true, Ordering::SeqCst);
        assert!(panicking.lock("c").ttl(TTL).acquire().is_err());
        assert_eq!(lost.lost(), Loss::ClientStopped);
        // None of its calls waits for anything.
        assert!(!panicking.release("a", lost.token()).is_free());
        drop((lost, panicking));
        guard.extend().unwrap();
        assert_eq!((guard.loss(), client_threads()), (None, 1));
        // Nor does one that panics as soon as it has arrived keep the next from arriving.
        let stillborn = builder(&nodes).clock(clock).build().unwrap();
        assert!(
            blocking::Redlock::from(stillborn)
                .lock("d")
                .ttl(TTL)
                .acquire()
                .is_err()
        );
        assert!(
            blocking::Redlock::from(client(&nodes))
                .lock("e")
                .ttl(TTL)
                .acquire()
                .is_ok()
        );
        assert!(guard.release().released());
        drop(other);
        eventually("the thread ends", || client_threads() == 0);
    });
}

/// Runs `check` in a process of its own, in which nothing else runs.
pub(crate) fn alone(test: &str, check: impl FnOnce()) {
    const INSIDE: &str = "QUORLOCK_TEST_ALONE";
    if std::env::var_os(INSIDE).is_some() {
        return check();
    }
    let mut inside = Command::new(std::env::current_exe().unwrap());
    inside.args(["--exact", test, "--test-threads=1"]);
    let output = inside.env(INSIDE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let is_passed = output.status.success() && text.contains("1 passed");
    assert!(
        is_passed,
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// How many threads of this process run clients.
fn client_threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.trim() == "quorlock-client")
        .count()
}

/// How many descriptors this process has that are no connections: what clients poll with, and what wakes them.
fn polls() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let opened = descriptors.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
    let is_poll = |opened: &std::path::PathBuf| {
        opened.starts_with("anon_inode:[eventpoll]") || opened.starts_with("anon_inode:[eventfd]")
    };
    opened.filter(is_poll).count()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// A poll, the copy of it with which sockets are registered, and what wakes it.
const POLLS_OF_A_THREAD: usize = 3;
