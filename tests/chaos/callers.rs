//! One and then two of five nodes are killed while twenty callers share fifty locks: every
//! acquisition succeeds, and no lock has two holders.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quorlock_client::{Redlock, Wait};
use quorlock_testkit::{NodeProcess, eventually, observed_now};
use quorlock_tests::history::{Event, History};

use crate::delay::{is_refused, serve};

const CALLERS: u64 = 20;
const LOCKS: u64 = 50;
const TTL: Duration = Duration::from_secs(5);
const HOLD: Duration = Duration::from_millis(20);
const WAIT: Duration = Duration::from_secs(5);

/// What all callers of a run share.
#[derive(Default)]
struct Run {
    history: History,
    holds: AtomicU64,
    is_over: AtomicBool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_five_nodes_may_die_while_callers_lock_and_unlock() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let directives = ["--appendfsync", "everysec"];
    let mut nodes: Vec<NodeProcess> = (1..=5)
        .map(|number| NodeProcess::start(folder.path(), &format!("node-{number}"), &directives))
        .collect();
    let urls: Vec<String> = nodes.iter().map(NodeProcess::url).collect();
    let run = Arc::new(Run::default());
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| tokio::spawn(call(run.clone(), urls.clone(), caller)))
        .collect();

    await_locks(&run, 200);
    nodes[1].kill();
    await_locks(&run, 200);
    nodes[3].kill();
    let killed = observed_now();
    await_locks(&run, 200);
    for number in [1, 3] {
        nodes[number].start_again();
    }
    // While the callers go on, the killed nodes sit out their delay.
    let restarted = [&nodes[1], &nodes[3]];
    for node in restarted {
        assert!(is_refused(node), "it served after an unclean stop");
    }
    for waited in serve(restarted, killed) {
        assert!(
            waited >= TTL,
            "it served {waited:?} after its end; a lock may live {TTL:?}"
        );
    }
    await_locks(&run, 50);
    run.is_over.store(true, Ordering::Relaxed);

    let mut problems = Vec::new();
    for caller in callers {
        problems.extend(caller.await.expect("a caller does not panic"));
    }
    let acquisitions = run.history.acquisitions();
    assert!(
        problems.is_empty(),
        "of {acquisitions} acquisitions, failed: {problems:#?}"
    );
    assert!(
        acquisitions > 500,
        "only {acquisitions} acquisitions: the run says nothing"
    );
    let overlaps = run.history.overlaps();
    let (fences, disordered) = run.history.fences();
    assert!(fences > 100, "only {fences} fences: they say nothing");
    assert_eq!(disordered, 0, "of {fences} fences");
    assert!(
        overlaps.is_empty(),
        "{acquisitions} acquisitions, overlaps: {overlaps:#?}"
    );
}

/// Waits until the callers have taken so many locks more.
fn await_locks(run: &Run, more: usize) {
    let enough = run.history.acquisitions() + more;
    eventually("the callers go on", || run.history.acquisitions() >= enough);
}

/// Locks and unlocks until the run is over; returns what went wrong.
async fn call(run: Arc<Run>, urls: Vec<String>, caller: u64) -> Vec<String> {
    let redlock = Redlock::builder()
        .nodes(urls)
        .build()
        .expect("five nodes make a client");
    let mut problems = Vec::new();
    let mut turn = caller;
    while !run.is_over.load(Ordering::Relaxed) {
        // A walk that meets the other callers again and again, and needs no random numbers.
        turn = turn.wrapping_mul(31).wrapping_add(caller).wrapping_add(7);
        let lock = turn % LOCKS;
        let request = redlock
            .lock(format!("chaos:{lock}"))
            .ttl(TTL)
            .wait(Wait::For(WAIT));
        // Every other lock has a fence.
        let request = match lock % 2 {
            0 => request,
            _ => request.fenced(),
        };
        let lock = u32::try_from(lock).expect("there are few locks");
        let hold = run.holds.fetch_add(1, Ordering::Relaxed);
        let asked = observed_now();
        run.history.note(lock, hold, Event::Asked { at: asked });
        let guard = match request.acquire().await {
            Ok(guard) => guard,
            Err(error) => {
                let waited = observed_now().saturating_sub(asked);
                problems.push(format!("lock {lock} after {waited:?}: {error}"));
                continue;
            }
        };
        let at = observed_now();
        let claimed_until = at + guard.remaining();
        let acquired = Event::Acquired {
            at,
            claimed_until,
            fence: guard.fence(),
        };
        run.history.note(lock, hold, acquired);
        tokio::select! {
            () = tokio::time::sleep(HOLD) => {}
            loss = guard.lost() => {
                run.history.note(lock, hold, Event::Lost { at: observed_now() });
                problems.push(format!("lock {lock} was lost: {loss:?}"));
            }
        }
        run.history
            .note(lock, hold, Event::ReleaseAsked { at: observed_now() });
        // Nodes are being killed: what they did with it is not the question here.
        let _release = guard.release().await;
    }
    redlock.settle().await;
    problems
}
