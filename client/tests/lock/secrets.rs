//! No password is in anything that is written: errors, statuses, `{:?}` and log lines.

use std::fmt;
use std::sync::Mutex;

use quorlock_client::{Redlock, blocking};
use quorlock_testkit::eventually;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::fake_node::FakeNode;
use crate::refused;

/// In every password of these tests, and in nothing else.
const MARKER: &str = "hunter2";

/// What was logged by any thread of this process about a password.
static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// How many lines there were at all.
static LINES: Mutex<usize> = Mutex::new(0);

struct Log;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        *LINES.lock().unwrap() += 1;
        if line.0.contains(MARKER) {
            LOGGED.lock().unwrap().push(line.0);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn no_password_is_in_anything_that_is_written() {
    tracing::subscriber::set_global_default(Log).unwrap();
    let [wrong, repeats, cut] = ["wrong", "repeats", "cut"].map(FakeNode::start);
    wrong.state().password = Some("right");
    for node in [&repeats, &cut] {
        node.state().repeats_login = true;
    }
    let long = format!("{MARKER}-{}", "x".repeat(1000));
    let builder = Redlock::builder().nodes([
        format!("redis://:{MARKER}@{}", wrong.address()),
        format!("redis://user:{MARKER}@{}", repeats.address()),
        format!("redis://:{long}@{}", cut.address()),
    ]);
    let mut texts = vec![format!("{builder:?}")];
    assert!(texts[0].contains(&wrong.address().to_string()), "{texts:?}");
    // Those that cannot be read are shown by `{:?}` before they are refused.
    for unreadable in [
        format!("redis://:{MARKER}@h:99999"),
        format!("user:{MARKER}@h"),
        format!("{MARKER}@h"),
        format!("redis://h?password={MARKER}"),
    ] {
        let builder = Redlock::builder().node(unreadable);
        texts.push(format!("{builder:?}"));
        let error = builder.build().unwrap_err();
        texts.extend([error.to_string(), format!("{error:?}")]);
    }
    let redlock = builder.build().unwrap();
    let error = refused(&redlock, "a").await;
    texts.extend([error.to_string(), format!("{error:?}")]);
    // It still says what happened.
    assert!(
        texts
            .iter()
            .any(|text| text.contains("unknown command 'AUTH'")),
        "{error}"
    );
    for status in redlock.probe().await {
        texts.extend([status.to_string(), format!("{status:?}")]);
    }
    let token = quorlock_client::Token::fresh();
    let release = redlock.release("a", &token).await;
    texts.extend([release.to_string(), format!("{release:?}")]);
    let error = redlock.extend("a", &token, crate::TTL).await.unwrap_err();
    texts.extend([error.to_string(), format!("{error:?}")]);
    texts.push(format!("{:?}", redlock.statistics().await));
    texts.push(format!("{redlock:?}{:?}", redlock.lock("a")));
    texts.push(format!("{:?}", blocking::Redlock::from(redlock)));
    // Lines are written on a thread of their own.
    eventually("the log was read", || *LINES.lock().unwrap() > 0);
    texts.extend(LOGGED.lock().unwrap().drain(..));
    for text in texts {
        assert!(!text.contains(MARKER), "{text}");
    }
}
