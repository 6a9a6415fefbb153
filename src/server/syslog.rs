//! The directive `syslog-enabled`: messages to the machine's syslog, besides where they go anyway.
//!
//! Lines are those of RFC 3164 without a time and a machine, which the daemon adds: a node knows UTC alone.

use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock_server::config::Syslog as Settings;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::log_line::LogLine;
use crate::clock;

/// Where the daemon of a machine listens.
pub(super) const SOCKET: &str = "/dev/log";

/// What sends all events to the daemon at `path`.
///
/// # Errors
/// When the system has no socket to give. Whether anybody listens shows later, and may change.
pub(super) fn layer<S>(
    settings: &Settings,
    path: &Path,
) -> io::Result<impl Layer<S> + Send + Sync + 'static + use<S>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let socket = UnixDatagram::unbound()?;
    // A daemon that is behind must not hold up a node.
    socket.set_nonblocking(true)?;
    let daemon = Daemon {
        socket,
        path: path.to_owned(),
        losses: Mutex::default(),
    };
    let line = LogLine::Syslog {
        facility: settings.facility,
        tag: format!("{}[{}]", settings.ident, std::process::id()),
    };
    Ok(tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .log_internal_errors(false)
        .event_format(line)
        .with_writer(Arc::new(daemon)))
}

/// The way to the daemon.
#[derive(Debug)]
struct Daemon {
    socket: UnixDatagram,
    path: PathBuf,
    losses: Mutex<Losses>,
}

/// The lines that the daemon has not taken. A daemon that is behind takes one and not the next: that is said at once, and then at
/// most once a minute, with their number.
#[derive(Debug, Default)]
struct Losses {
    unsaid: u64,
    said: Option<Duration>,
}

impl Losses {
    /// Notes what became of a line. Where it is to be said now: how many were lost since it was said last.
    fn note(&mut self, is_sent: bool, now: Duration) -> Option<u64> {
        self.unsaid += u64::from(!is_sent);
        let is_time = self
            .said
            .is_none_or(|said| now.saturating_sub(said) >= SAID_EVERY);
        if self.unsaid == 0 || !is_time {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

const SAID_EVERY: Duration = Duration::from_secs(60);

/// Takes a whole line, as `tracing_subscriber` writes it. One that is lost stands in the log all the same.
impl Write for &Daemon {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let sent = self.socket.send_to(line.trim_ascii_end(), &self.path);
        let mut losses = self.losses.lock().expect("none of its holders can panic");
        let lost = losses.note(sent.is_ok(), clock::now());
        drop(losses);
        if let Some(lost) = lost {
            let path = self.path.display();
            let why = sent.map_or_else(
                |error| error.to_string(),
                |_| "it takes them again".to_owned(),
            );
            writeln!(
                io::stderr().lock(),
                "messages that syslog at {path} did not take, and that are in the log alone: {lost} ({why})"
            )?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;

    use super::*;

    #[test]
    fn a_daemon_that_is_behind_makes_no_flood_of_its_own_and_no_loss_is_left_out() {
        let mut losses = Losses::default();
        let mut note = |is_sent, seconds| losses.note(is_sent, Duration::from_secs(seconds));
        assert_eq!(note(true, 100), None);
        assert_eq!(note(false, 100), Some(1), "at once");
        for second in 100..160 {
            assert_eq!((note(true, second), note(false, second)), (None, None));
        }
        assert_eq!(note(true, 160), Some(60), "also where it takes them again");
        assert_eq!(note(true, 300), None, "there is nothing to say");
        assert_eq!(note(false, 300), Some(1));
    }

    #[test]
    fn a_daemon_gets_each_message_with_its_priority_and_may_be_away() {
        let home = tempfile::tempdir().expect("there is room");
        let path = home.path().join("log");
        let settings = Settings {
            is_enabled: true,
            ident: "node-1".to_owned(),
            facility: 19,
        };
        let layer = layer(&settings, &path).expect("there are sockets");
        let _guard = tracing_subscriber::registry().with(layer).set_default();
        tracing::info!("nobody listens");
        let daemon = UnixDatagram::bind(&path).expect("the name is free");
        daemon.set_nonblocking(true).expect("it is a socket");
        let next = || {
            let mut line = [0; 100];
            let length = daemon.recv(&mut line).expect("it was sent");
            String::from_utf8_lossy(&line[..length]).into_owned()
        };
        let pid = std::process::id();
        tracing::info!("serves");
        assert_eq!(next(), format!("<157>node-1[{pid}]: serves"));
        tracing::error!("fails");
        assert_eq!(next(), format!("<155>node-1[{pid}]: fails"));
        // A daemon that takes nothing holds up nobody.
        (0..10_000).for_each(|_| tracing::warn!("again"));
        assert_eq!(next(), format!("<156>node-1[{pid}]: again"));
    }
}
