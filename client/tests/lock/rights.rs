//! A client whose user has exactly the rights that the book gives it, and one whose user may not send INFO.

use std::time::Duration;

use quorlock_client::{AcquireError, LockRequest, Redlock, Wait};
use quorlock_server::Node;
use quorlock_testkit::eventually;

const TTL: Duration = Duration::from_millis(900);

/// The rules in the row of the book's table.
fn rules() -> Vec<String> {
    let page = include_str!("../../../docs/book/users.md");
    let mut rows = page.lines();
    let row = rows.find(|line| line.starts_with("| the client of Quorlock |"));
    let rules = row.unwrap().split('`').nth(1).unwrap();
    rules.split(' ').map(str::to_owned).collect()
}

/// Three nodes, with a user of these rules.
async fn nodes(rules: &[String]) -> Vec<Node> {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let mut user = vec!["worker", "on", ">pw", "~jobs:*", "+ping"];
        user.extend(rules.iter().map(String::as_str));
        let builder = Node::builder().ephemeral().directive("user", &user);
        nodes.push(builder.start().await.unwrap());
    }
    nodes
}

fn client(nodes: &[Node]) -> Redlock {
    let urls = nodes
        .iter()
        .map(|node| format!("redis://worker:pw@{}", node.address()));
    Redlock::builder().nodes(urls).build().unwrap()
}

fn request(redlock: &Redlock, name: &str) -> LockRequest {
    let lock = redlock.lock(name).ttl(TTL);
    lock.wait(Wait::For(Duration::from_secs(20)))
}

#[tokio::test]
async fn the_rights_of_the_book_are_enough_for_every_kind_of_lock() {
    let nodes = nodes(&rules()).await;
    let (one, other) = (client(&nodes), client(&nodes));
    let guard = request(&one, "jobs:a").fenced().acquire().await.unwrap();
    let busy = request(&other, "jobs:a").wait(Wait::None).acquire().await;
    assert!(matches!(busy, Err(AcquireError::Busy { .. })), "{busy:?}");
    let first = guard.valid_until();
    eventually("the guard extends it, over more than one lease", || {
        guard.valid_until().since(first) > TTL
    });
    let waiting = request(&other, "jobs:a").acquire();
    let (released, next) = tokio::join!(guard.release(), waiting);
    assert!(released.released());
    assert!(next.unwrap().release().await.released());
    let readers = [
        request(&one, "jobs:r").shared().acquire().await.unwrap(),
        request(&other, "jobs:r").shared().acquire().await.unwrap(),
    ];
    for reader in readers {
        assert!(reader.release().await.released());
    }
    let leads = one.election("jobs:e").ttl(TTL).campaign().await;
    assert!(leads.is_ok(), "{leads:?}");
}

#[tokio::test]
async fn without_info_a_client_does_not_know_who_votes() {
    let rules: Vec<String> = rules().into_iter().filter(|it| it != "+info").collect();
    let nodes = nodes(&rules).await;
    let refused = request(&client(&nodes), "jobs:a").wait(Wait::None);
    let refused = refused.acquire().await.unwrap_err();
    assert!(
        matches!(refused, AcquireError::NoQuorum { .. }),
        "{refused}"
    );
}
