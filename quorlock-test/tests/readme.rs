//! The example of the README and of the book's chapter on embedding, word for word.

// begin
use std::time::Duration;

use quorlock_test::TestCluster;

#[tokio::test]
async fn a_lock_that_is_lost_is_not_valid() {
    let cluster = TestCluster::five().await;
    let redlock = cluster.client(); // client 0; cluster.url(0) is for any Redis client
    let lock = redlock.lock("job").ttl(Duration::from_secs(10));
    let guard = lock.acquire().await.unwrap();
    cluster.cut_off(0).await; // or kill, lose_power, pause, slow, disk_full, steal ...
    cluster.advance(Duration::from_secs(60)).await; // nodes and clients are a minute older
    assert!(!guard.is_valid());
    cluster.assert_free("job").await;
    cluster.assert_at_most_one_holder().await;
}
// end

#[test]
fn the_readme_and_the_book_show_the_test_above() {
    let own = include_str!("readme.rs");
    let shown = own
        .split_once("// begin\n")
        .and_then(|(_, rest)| rest.split_once("// end\n"))
        .map(|(shown, _)| format!("```rust\n{shown}```"))
        .expect("the marks are above");
    for document in ["README.md", "../docs/book/embedding.md"] {
        let path = format!("{}/{document}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("it is there");
        assert!(text.contains(&shown), "{path} shows another test");
    }
}
