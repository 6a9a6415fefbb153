//! Log lines in Redis's look: `1234:M 20 Nov 2026 16:57:47.123 * Ready to accept connections tcp`, or as JSON:
//! `{"time":"2026-11-20T16:57:47.123Z","level":"notice","pid":1234,"message":"Ready to accept connections tcp"}`.
//!
//! Tools that read Redis's log read the former. The time is UTC, whatever the machine's time zone. A line for syslog has none: the
//! daemon adds it.

use std::fmt::{self, Debug};

use quorlock_server::Date;
use quorlock_server::config::LogFormat;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::clock;

/// Formats events.
#[derive(Debug)]
pub(super) enum LogLine {
    /// Of the log, with the number of the process.
    Log(LogFormat, u32),
    /// For syslog, as RFC 3164 has it.
    Syslog { facility: u8, tag: String },
}

impl LogLine {
    pub(super) fn new(format: LogFormat) -> Self {
        Self::Log(format, std::process::id())
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
        let level = *event.metadata().level();
        match self {
            Self::Log(LogFormat::Json, pid) => {
                return writeln!(writer, "{}", as_json(&Date::of(clock::wall()), *pid, event));
            }
            Self::Log(LogFormat::Redis, pid) => {
                let date = Date::of(clock::wall());
                write!(writer, "{pid}:M {date} {} ", mark(level))?;
            }
            Self::Syslog { facility, tag } => {
                let priority = u32::from(*facility) * 8 + severity(level);
                write!(writer, "<{priority}>{tag}: ")?;
            }
        }
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

/// The name of the level: those of `loglevel`, and one for errors.
fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "notice",
        Level::DEBUG => "verbose",
        Level::TRACE => "debug",
    }
}

/// As Redis maps its levels for syslog, and errors as errors.
fn severity(level: Level) -> u32 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 5,
        Level::DEBUG => 6,
        Level::TRACE => 7,
    }
}

/// One line, with what people look for first in front.
fn as_json(date: &Date, pid: u32, event: &Event<'_>) -> String {
    let mut recorded = EventFields::default();
    event.record(&mut recorded);
    let (time, level) = (date.rfc_3339(), name(*event.metadata().level()));
    let message = Value::String(recorded.message);
    let mut line =
        format!("{{\"time\":\"{time}\",\"level\":\"{level}\",\"pid\":{pid},\"message\":{message}");
    if !recorded.fields.is_empty() {
        line.push_str(",\"fields\":");
        line.push_str(&Value::Object(recorded.fields).to_string());
    }
    line.push('}');
    line
}

/// What an event says.
#[derive(Default)]
struct EventFields {
    message: String,
    fields: Map<String, Value>,
}

impl EventFields {
    fn add(&mut self, field: &Field, value: Value) {
        self.fields.insert(field.name().to_owned(), value);
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            _ => self.add(field, text.into()),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            _ => self.add(field, value.into()),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;

    use super::*;

    /// Keeps what is written.
    #[derive(Default)]
    struct Captured(Mutex<Vec<u8>>);

    impl io::Write for &Captured {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics").extend(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_of_json_has_time_level_message_and_fields() {
        let captured = Arc::new(Captured::default());
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .event_format(LogLine::new(LogFormat::Json))
            .with_writer(Arc::clone(&captured));
        let guard = tracing_subscriber::registry().with(lines).set_default();
        tracing::warn!(client = %"a\"b", count = 7_u64, late = true, "two\nlines of {}", 2);
        tracing::error!("alone");
        drop(guard);
        let bytes = captured.0.lock().expect("nobody panics").clone();
        let text = String::from_utf8(bytes).expect("it is text");
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("it is JSON"))
            .collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0]["level"], "warning");
        assert_eq!(lines[0]["message"], "two\nlines of 2");
        let fields = serde_json::json!({ "client": "a\"b", "count": 7, "late": true });
        assert_eq!(lines[0]["fields"], fields);
        let time = lines[0]["time"].as_str().expect("it is there");
        assert_eq!((time.len(), &time[10..11], &time[23..]), (24, "T", "Z"));
        assert_eq!(lines[1]["level"], "error");
        assert_eq!(lines[1].get("fields"), None);
    }
}
