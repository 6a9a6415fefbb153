//! `quorlock server`: one node as a process, started, stopped and logging as redis-server does.
//!
//! SIGTERM and SIGINT stop it cleanly, a second SIGINT ends it at once, and SIGHUP makes a log file
//! that was moved away anew, and reads the certificates again. The exit code is 0 after a clean stop, 64 where the command line or the configuration is
//! wrong, and 1 otherwise.

pub(crate) mod log_file;
mod log_line;
pub(crate) mod supervision;
mod syslog;
pub(crate) mod systemd;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;

use quorlock_server::config::{
    Config, Invocation, LogLevel, Supervised, USAGE, parse_command_line,
};
use quorlock_server::{Node, NodeBuilder};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit_code::{FAILED, Failure};
use crate::output::{self, Format};
use crate::runtime;
use log_file::LogFile;
use log_line::LogLine;
use supervision::PidFile;
use systemd::{Report, Says};

/// Runs a node; `words` are a configuration file and directives, in Redis's grammar.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    run_prepared(words, |builder, _| Ok(builder))
}

/// The same, with a last word on what the node is built from; it is told the data directory.
pub(crate) fn run_prepared(
    words: &[OsString],
    prepare: impl FnOnce(NodeBuilder, &Path) -> Result<NodeBuilder, Failure>,
) -> ExitCode {
    let outcome = invocation(words).and_then(|invocation| {
        match invocation {
            Invocation::Serve(config) => return serve(*config, prepare),
            Invocation::Help => output::line(USAGE.trim_end()),
            Invocation::Version => {
                output::line(concat!("quorlock server v=", env!("CARGO_PKG_VERSION")));
            }
        }
        Ok(ExitCode::SUCCESS)
    });
    outcome.unwrap_or_else(|failure| {
        Format::Text.failure(&failure);
        failure.into()
    })
}

pub(crate) fn invocation(words: &[OsString]) -> Result<Invocation, Failure> {
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let words =
        words.ok_or_else(|| Failure::usage("the directives of a node must be written in UTF-8"))?;
    parse_command_line(&words, &mut io::stdin().lock()).map_err(Failure::usage)
}

fn serve(
    config: Config,
    prepare: impl FnOnce(NodeBuilder, &Path) -> Result<NodeBuilder, Failure>,
) -> Result<ExitCode, Failure> {
    // Before the log file, which may lie in it.
    quorlock_server::require_directory(&config.dir).map_err(Failure::failed)?;
    let (log_filter, log_file) = start_log(&config)?;
    let pid = std::process::id();
    tracing::info!("Quorlock {} starting, pid {pid}", env!("CARGO_PKG_VERSION"));
    for line in config.notice_lines() {
        tracing::warn!("{line}");
    }
    let is_supervised = matches!(
        config.reports.supervised,
        Supervised::Systemd | Supervised::Auto
    );
    let says = Says::All(config.reports.ready);
    let pid_path = config
        .pidfile
        .as_ref()
        .map(|path| in_data_directory(&config, path));
    runtime::block_on(async {
        // Before the node starts: it answers before `start` returns, and who saw it answer
        // may ask it to stop.
        let signals = listen()?;
        let directory = config.dir.clone();
        let builder = Node::builder().config(config).owns_process();
        let builder = prepare(builder.log_filter(log_filter), &directory)?;
        let node = builder.start().await.map_err(|error| {
            // Where the log goes to the output, who reads one reads the other as well.
            let error = in_flags(&error.to_string());
            if log_file.is_some() {
                tracing::error!("{error}");
            }
            Failure::failed(error)
        })?;
        // Port 0 found one: this line says which.
        if node.address().port() != 0 {
            tracing::info!("Listening on {}", node.address());
        }
        if let Some(path) = node.unix_socket() {
            tracing::info!("Listening on {}", path.display());
        }
        let _pid_file = pid_path.and_then(PidFile::create);
        let report = is_supervised.then(|| Report::begin(&node, says));
        let code = until_end(node, signals, log_file).await;
        if let Some(report) = report {
            report.end().await;
        }
        code
    })
}

/// A start's error as the user of a command line reads it: a directive is a flag there.
pub(crate) fn in_flags(error: &str) -> String {
    let mut words = error.split("the directive ");
    let mut text = words.next().unwrap_or_default().to_owned();
    for rest in words {
        text.push_str("--");
        text.push_str(rest);
    }
    text
}

/// The signals a node reacts to, from the moment this exists: interrupt, terminate and, in any case since a closed
/// terminal does not end a node, hangup.
pub(crate) fn listen() -> Result<[Signal; 3], Failure> {
    let listen = |kind| {
        signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))
    };
    Ok([
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
        listen(SignalKind::hangup())?,
    ])
}

/// Waits for a signal or for the node's own end, and stops the node.
pub(crate) async fn until_end(
    node: Node,
    [mut interrupt, mut terminate, mut hangup]: [Signal; 3],
    log_file: Option<Arc<LogFile>>,
) -> Result<ExitCode, Failure> {
    let mut is_announced = false;
    let mut kept = pin!(log_file::kept(log_file.as_deref()));
    let name = loop {
        tokio::select! {
            ended = node.stopped() => return Ok(exit_code(ended)),
            _ = interrupt.recv() => break "SIGINT",
            _ = terminate.recv() => break "SIGTERM",
            _ = hangup.recv() => hang_up(&node, log_file.is_some()),
            () = &mut kept => {}
            // During a restart delay it answers already, but grants nothing.
            Ok(()) = node.serving(), if !is_announced => {
                is_announced = true;
                if node.address().port() != 0 {
                    tracing::info!("Ready to accept connections tcp");
                }
                if node.unix_socket().is_some() {
                    tracing::info!("Ready to accept connections unix");
                }
            }
        }
    };
    tracing::warn!("Received {name} scheduling shutdown...");
    let mut interrupts = u32::from(name == "SIGINT");
    let mut stopping = pin!(node.stop());
    loop {
        tokio::select! {
            stopped = &mut stopping => return Ok(exit_code(stopped)),
            _ = interrupt.recv() => interrupts += 1,
        }
        // The first may be sent together with a supervisor's SIGTERM, and nobody insists.
        if interrupts > 1 {
            tracing::warn!("You insist... exiting now.");
            // At once, as asked: not even the destructors may wait for the disk.
            std::process::exit(i32::from(FAILED));
        }
    }
}

/// Any line makes the log file anew, and who sends SIGHUP wants it now. The files of TLS are read again.
fn hang_up(node: &Node, has_log_file: bool) {
    if has_log_file {
        tracing::warn!("Received SIGHUP: here the log goes on");
    }
    match node.reload_certificates() {
        Ok(true) => {
            tracing::warn!("Received SIGHUP: new connections use the files of TLS as they are now")
        }
        Ok(false) => {}
        Err(why) => tracing::error!(
            "Received SIGHUP: the files of TLS cannot be used, and new connections use what was read before: {why}"
        ),
    }
}

fn exit_code(end: Result<(), quorlock_server::Failure>) -> ExitCode {
    match end {
        Ok(()) => {
            tracing::warn!("Quorlock is now ready to exit, bye bye...");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            tracing::error!("{failure}");
            ExitCode::from(FAILED)
        }
    }
}

/// A log that has begun: what changes how much, and the file.
type StartedLog<F> = (F, Option<Arc<LogFile>>);

/// Begins to log.
pub(crate) fn start_log(
    config: &Config,
) -> Result<StartedLog<impl Fn(LogLevel) + Send + Sync + use<>>, Failure> {
    let (filter, handle) = reload::Layer::new(threshold(config.loglevel));
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .log_internal_errors(false)
        .event_format(LogLine::new(config.reports.log_format));
    let path = Path::new(syslog::SOCKET);
    let is_wanted = config.reports.syslog.is_enabled;
    let syslog = is_wanted.then(|| syslog::layer(&config.reports.syslog, path));
    let syslog = syslog.transpose().map_err(|error| {
        Failure::failed(format!("cannot make a socket for syslog: {error}"))
            .remedy("leave out --syslog-enabled")
    })?;
    let registry = tracing_subscriber::registry().with(filter).with(syslog);
    let file = match &config.logfile {
        None => {
            registry.with(lines).init();
            None
        }
        Some(path) => {
            let path = in_data_directory(config, path);
            let file = LogFile::open(path.clone()).map_err(|error| {
                Failure::failed(format!(
                    "cannot write the log file {}: {error}",
                    path.display()
                ))
                .remedy("name another with --logfile, or leave it out to log to the output")
            })?;
            let file = Arc::new(file);
            registry.with(lines.with_writer(Arc::clone(&file))).init();
            Some(file)
        }
    };
    let set_level = move |level| {
        // It fails only where the log is gone.
        let _ = handle.reload(threshold(level));
    };
    Ok((set_level, file))
}

fn threshold(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::TRACE,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
    }
}

/// Redis works inside its data directory, so other paths of the configuration start there.
fn in_data_directory(config: &Config, path: &Path) -> PathBuf {
    config.dir.join(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_flags_on_a_command_line() {
        assert_eq!(
            in_flags("choose another with the directive port, or with the directive dir"),
            "choose another with --port, or with --dir"
        );
        assert_eq!(in_flags("nothing of it"), "nothing of it");
    }
}
