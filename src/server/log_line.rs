//! Log lines in Redis's look: `1234:M 20 Nov 2026 16:57:47.123 * Ready to accept connections tcp`.
//!
//! Tools that read Redis's log read this one. The time is UTC, whatever the machine's time zone.

use std::fmt;

use quorlock_server::Date;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::clock;

/// Formats events as Redis does.
#[derive(Debug)]
pub(super) struct LogLine {
    pid: u32,
}

impl LogLine {
    pub(super) fn new() -> Self {
        Self {
            pid: std::process::id(),
        }
    }
}

impl<S, N> FormatEvent<S, N> for LogLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (date, mark) = (Date::of(clock::wall()), mark(*event.metadata().level()));
        write!(writer, "{}:M {date} {mark} ", self.pid)?;
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Redis's sign for the level of a line.
fn mark(level: Level) -> char {
    match level {
        Level::ERROR | Level::WARN => '#',
        Level::INFO => '*',
        Level::DEBUG => '-',
        Level::TRACE => '.',
    }
}
