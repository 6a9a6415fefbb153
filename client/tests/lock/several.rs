//! Several locks at once, on nodes that run the scripts: Quorlock's, Redis's, and both together.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock_client::{AcquireError, ExtendError, Redlock, Wait, blocking};
use quorlock_server::Node;

use crate::TTL;
use crate::fake_node::FakeNode;
use crate::in_process::{Embedded, listed};

#[tokio::test]
async fn several_locks_are_held_renewed_lost_and_released_together() {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(Node::builder().ephemeral().start().await.unwrap());
    }
    let urls: Vec<_> = nodes.iter().map(Node::url).collect();
    check(&urls).await;
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn several_locks_are_held_renewed_lost_and_released_together_on_redis() {
    let folder = tempfile::tempdir().unwrap();
    let servers = [0, 1, 2].map(|number| Redis::start(&folder, number));
    let urls = servers.each_ref().map(|server| server.url.clone());
    check(&urls).await;
    let node = Node::builder().ephemeral().start().await.unwrap();
    let [first, second, _] = urls;
    check(&[first, second, node.url()]).await;
}

/// A server of its own, which ends with the test.
pub(crate) struct Redis {
    process: Child,
    pub(crate) socket: PathBuf,
    pub(crate) url: String,
}

impl Redis {
    pub(crate) fn start(folder: &tempfile::TempDir, number: usize) -> Self {
        let socket = folder.path().join(format!("{number}.sock"));
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let url = format!("unix://{}", socket.display());
        Self {
            process,
            socket,
            url,
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

async fn check(urls: &[String]) {
    let client = || Redlock::builder().nodes(urls).build().unwrap();
    let redlock = client();
    let all_up = async {
        while redlock
            .probe()
            .await
            .iter()
            .any(|node| node.identity.is_none())
        {}
    };
    tokio::time::timeout(TTL, all_up)
        .await
        .expect("the nodes are up");
    held_and_released(&redlock).await;
    lost_by_one_name(&redlock).await;
    // Callers of two clients, in all orders.
    let orders = [["x", "y"], ["y", "x"], ["y", "z"], ["z", "x"]];
    let other = client();
    let turns = orders.into_iter().zip([&redlock, &other, &other, &redlock]);
    let callers: Vec<_> = turns
        .map(|(names, client)| {
            let locks = client.locks(names).ttl(TTL).wait(Wait::For(3 * TTL));
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = locks.clone().acquire().await.unwrap();
                    assert!(!guard.release().await.was_lost());
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

/// Whether a lock is free, which is seen by having it.
async fn is_free(redlock: &Redlock, name: &str) -> bool {
    let acquired = redlock.lock(name).ttl(TTL).wait(Wait::None).acquire().await;
    match acquired {
        Ok(guard) => guard.release_everywhere().await.is_free(),
        Err(AcquireError::Busy { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

async fn held_and_released(redlock: &Redlock) {
    let several = |names: &[&str]| redlock.locks(names).ttl(TTL).wait(Wait::None);
    let guard = several(&["b", "c", "a", "b"]).acquire().await.unwrap();
    assert!(guard.names().eq([b"a", b"b", b"c"]));
    assert_eq!(guard.name(), b"a");
    for name in ["a", "b", "c"] {
        assert!(!is_free(redlock, name).await, "{name}");
    }
    let busy = several(&["d", "c"]).acquire().await.unwrap_err();
    let AcquireError::Busy { name, holder, .. } = &busy else {
        panic!("{busy}")
    };
    assert_eq!((&**name, holder.as_ref()), ("c, d", Some(guard.token())));
    assert!(is_free(redlock, "d").await, "none is kept that was free");
    // What lasts longer is not shortened, and the others are extended.
    let longer = redlock.extend("b", guard.token(), 6 * TTL).await.unwrap();
    assert!(longer.kept() > Some(5 * TTL));
    tokio::time::sleep(Duration::from_millis(20)).await;
    guard.extend().await.unwrap();
    for (name, least, most) in [
        ("a", TTL, 2 * TTL),
        ("b", 5 * TTL, 6 * TTL),
        ("c", TTL, 2 * TTL),
    ] {
        let kept = redlock
            .extend(name, guard.token(), Duration::from_secs(1))
            .await;
        let kept = kept.unwrap().kept().unwrap();
        let least = least - Duration::from_secs(1);
        assert!(kept > least && kept <= most, "{name}: {kept:?}");
    }
    assert!(guard.release_everywhere().await.is_free());
    for name in ["a", "b", "c"] {
        assert!(is_free(redlock, name).await, "{name}");
    }
}

async fn lost_by_one_name(redlock: &Redlock) {
    let guard = redlock.locks(["a", "b"]).ttl(TTL).acquire().await.unwrap();
    let mine = guard.token().clone();
    assert!(redlock.release("b", &mine).await.is_free());
    let lost = guard.extend().await.unwrap_err();
    assert!(matches!(lost, ExtendError::Lost(_)), "{lost}");
    assert!(!guard.is_valid());
    assert!(guard.release_everywhere().await.was_lost());
    assert!(is_free(redlock, "a").await && is_free(redlock, "b").await);
    // Who holds one of them alone keeps the others free.
    let one = redlock.lock("b").ttl(TTL).acquire().await.unwrap();
    let both = redlock.locks(["a", "b"]).wait(Wait::None).acquire().await;
    assert!(matches!(both, Err(AcquireError::Busy { .. })));
    redlock.settle().await;
    assert!(is_free(redlock, "a").await);
    assert!(!one.release_everywhere().await.was_lost());
    // Where it has a lock delay, none of them is freed by a loss.
    let locks = redlock.locks(["a", "b"]).ttl(TTL).lock_delay(TTL);
    let short = Duration::from_millis(300);
    let guard = locks.max_lifetime(short).acquire().await.unwrap();
    guard.lost().await;
    let token = guard.token().clone();
    drop(guard);
    redlock.settle().await;
    for name in ["a", "b"] {
        assert!(!is_free(redlock, name).await, "{name}");
        assert!(redlock.release(name, &token).await.released());
    }
    // A lease of several is released by its token, name by name.
    let lease = redlock
        .locks(["a", "b"])
        .ttl(TTL)
        .acquire_lease()
        .await
        .unwrap();
    for name in lease.names() {
        assert!(redlock.release(name, lease.token()).await.released());
    }
}

#[tokio::test]
async fn a_key_of_another_type_keeps_no_other_name_from_being_released() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let redlock = listed(&nodes).build().unwrap();
    let guard = redlock.locks(["a", "b"]).ttl(TTL).acquire().await.unwrap();
    // Behind what it was asked for, each node answers this.
    redlock.probe().await;
    for node in &nodes {
        node.call(&["DEL", "a"]).await;
        assert_eq!(node.call(&["RPUSH", "a", "x"]).await, ":1\r\n");
    }
    assert!(guard.release_everywhere().await.was_lost());
    // It is asked for behind what each node was sent before.
    assert!(is_free(&redlock, "b").await);
}

#[test]
fn sets_of_names_that_cannot_be_are_refused_before_anything_is_sent() {
    let nodes = FakeNode::five();
    let redlock = blocking::Redlock::from(crate::client(&nodes));
    let many: Vec<_> = (0..65).map(|number| number.to_string()).collect();
    let long = "x".repeat(60_000);
    let none: [&str; 0] = [];
    for (request, reason) in [
        (redlock.locks(none), "1 to 64 names"),
        (
            redlock.locks(&many),
            "1 to 64 names are locked together, not 65",
        ),
        (redlock.locks(["a", ""]), "a lock needs a name"),
        (
            redlock.locks([&format!("{long}1"), &format!("{long}2")]),
            "fewer than 65536 bytes in all",
        ),
        (redlock.locks(["a", "b"]).fenced(), "no fence in common"),
        (
            redlock.locks(["a", "b"]).owner("me"),
            "a set of several names has no owner",
        ),
    ] {
        let refused = request.acquire();
        let Err(AcquireError::Invalid { reason: told }) = refused else {
            panic!("{reason}: {refused:?}")
        };
        assert!(told.contains(reason), "{told}");
    }
    assert_eq!(nodes[0].state().connections, 0);
}
