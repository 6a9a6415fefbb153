//! Log lines on their way to the program's subscriber, on a thread of their own.
//!
//! Invariant: what a subscriber does with a line, and how long that takes, is no concern of the client's thread, which
//! renews locks. So many lines wait; what does not fit is counted, and that is said as soon as there is room again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use quorlock_client_rules::log_line::{LogLine, News};
use tracing::Level;
use tracing::level_filters::LevelFilter;

/// The way to the thread that writes, which is started for the first line and ends when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Log {
    lines: Option<SyncSender<LogLine>>,
    left_out: Arc<AtomicU64>,
}

impl Log {
    /// Has a line written, if somebody listens to lines of its level. Waits for nothing.
    pub(super) fn write(&mut self, line: LogLine) {
        if level(&line.news) > LevelFilter::current() {
            return;
        }
        if self.lines.is_none() {
            self.lines = start(&self.left_out);
        }
        let sent = self.lines.as_ref().map(|lines| lines.try_send(line));
        match sent {
            Some(Ok(())) => return,
            // The subscriber has panicked.
            Some(Err(TrySendError::Disconnected(_))) => self.lines = None,
            Some(Err(TrySendError::Full(_))) | None => {}
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts the thread, if the system has one.
fn start(left_out: &Arc<AtomicU64>) -> Option<SyncSender<LogLine>> {
    let (lines, queue) = sync_channel(LINES_MAX);
    let left_out = Arc::clone(left_out);
    let thread = thread::Builder::new().name("quorlock-log".to_owned());
    let started = thread.spawn(move || write_all(&queue, &left_out));
    started.ok().map(|_| lines)
}

fn write_all(queue: &Receiver<LogLine>, left_out: &AtomicU64) {
    for line in queue {
        emit(&line);
        let lines = left_out.swap(0, Ordering::Relaxed);
        if lines > 0 {
            tracing::warn!(
                lines,
                "log lines were left out: the log did not take them in time"
            );
        }
    }
}

fn level(news: &News) -> Level {
    match news {
        News::MovedOver
        | News::NoConnection(_)
        | News::WithoutTurns
        | News::NotQueued(_)
        | News::NotLimited(_) => Level::DEBUG,
        _ => Level::WARN,
    }
}

fn emit(LogLine { node, news }: &LogLine) {
    match news {
        News::NoIdentity => {
            tracing::warn!(%node, "does not tell its identity and does not vote");
        }
        News::Agent => tracing::warn!(%node, "is an agent and no node, and does not vote"),
        News::OtherCluster { cluster, expected } => {
            tracing::warn!(%node, %cluster, %expected, "belongs to another cluster");
        }
        News::OtherSize(size) => {
            tracing::warn!(%node, size, "its cluster has another number of nodes");
        }
        News::SameAs(other) => {
            tracing::warn!(%node, other, "is the same node as another one listed");
        }
        News::Replaced => tracing::warn!(
            %node,
            "another node answers here than before: it grants no lock until one of the other would have expired"
        ),
        News::WentBack => tracing::warn!(
            %node,
            "the node is in an earlier state than before, as if an older image of its disk had been put back: it has forgotten \
             what it granted since, and grants no lock until one of those would have expired"
        ),
        News::MovedOver => {
            tracing::debug!(%node, "moved to a new connection: the old one is silent");
        }
        News::NoConnection(cause) => tracing::debug!(%node, %cause, "no connection"),
        News::WithoutTurns => tracing::debug!(
            %node,
            "its version knows no TURN of LOCK.WAIT: a turn lasts 50 ms there, which is too short for this client's round trips"
        ),
        News::ReleasesGivenUp(releases) => tracing::warn!(
            %node,
            releases,
            "more releases are owed to the node than are kept, 25000 and 8 MiB of names and tokens: what it holds of the others ends with its ttl"
        ),
        News::NotQueued(cause) => tracing::debug!(%node, %cause, "a release was not queued"),
        News::NotLimited(error) => {
            tracing::debug!(%node, %error, "TCP_USER_TIMEOUT was refused");
        }
    }
}

/// How many lines wait for the subscriber.
const LINES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use std::fmt;
    use std::sync::Mutex;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0.push_str(&format!("{field}={value:?} "));
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::WARN
        }

        fn max_level_hint(&self) -> Option<LevelFilter> {
            Some(LevelFilter::WARN)
        }

        fn event(&self, event: &Event<'_>) {
            let mut line = Line(String::new());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn what_does_not_fit_is_counted_and_said_once_there_is_room() {
        let (sender, queue) = sync_channel(LINES_MAX);
        let mut log = Log {
            lines: Some(sender),
            ..Log::default()
        };
        let left_out = Arc::clone(&log.left_out);
        let line = |news| LogLine {
            node: Arc::from("redis://a:1"),
            news,
        };
        let lines = Lines::default();
        tracing::subscriber::with_default(lines.clone(), || {
            for _ in 0..LINES_MAX + 5 {
                log.write(line(News::NoIdentity));
            }
            // Nobody listens to these.
            log.write(line(News::MovedOver));
            drop(log);
            write_all(&queue, &left_out);
        });
        let lines = lines.0.lock().unwrap();
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert!(lines[0].contains("redis://a:1"), "{}", lines[0]);
        assert!(lines[1].contains("lines=5"), "{}", lines[1]);
    }
}
