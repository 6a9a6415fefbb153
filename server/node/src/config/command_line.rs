//! The command line of `quorlock server`, in the grammar of redis-server:
//! `[FILE] [--directive value ...] [-]`.
//!
//! Directives are put together as text that follows the file, so that they override it and obey the
//! same rules. The text after a directive's name is its value even when it begins with a dash.

use std::io::Read;
use std::path::Path;

use super::error::{ConfigError, Origin};
use super::file::Reader;
use super::{Config, Files};
use quorlock_engine::words;

/// What the command line asks for.
#[derive(Debug)]
pub enum Invocation {
    /// Run a node.
    Serve(Box<Config>),
    /// Print the version and exit.
    Version,
    /// Print [`USAGE`] and exit.
    Help,
}

/// Reads the arguments after `quorlock server`. `-` reads more lines from `stdin`.
///
/// # Errors
/// When an argument, a line or a file is no configuration; the error says where.
pub fn parse(
    arguments: &[&str],
    stdin: &mut dyn Read,
    files: &dyn Files,
) -> Result<Invocation, ConfigError> {
    match arguments {
        ["-v" | "--version"] => return Ok(Invocation::Version),
        ["-h" | "--help", ..] => return Ok(Invocation::Help),
        _ => {}
    }
    let mut config = Config::default();
    let mut reader = Reader::new(files);
    let options = match arguments.split_first() {
        Some((file, options)) if !file.starts_with('-') => {
            reader.read_file(&mut config, Path::new(file))?;
            options
        }
        _ => arguments,
    };
    let is_after_file = options.len() < arguments.len();
    let options = match options {
        ["-", rest @ ..] if !is_after_file => {
            reader.read_stream(&mut config, stdin)?;
            rest
        }
        [rest @ .., "-"] => {
            reader.read_stream(&mut config, stdin)?;
            rest
        }
        _ => options,
    };
    for line in option_lines(options) {
        reader.apply_line(&mut config, &line, Origin::CommandLine, 0)?;
    }
    reader.finish()?;
    Ok(Invocation::Serve(Box::new(config)))
}

/// The lines that `--name value ...` stands for.
fn option_lines(options: &[&str]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    // Whether the name before this argument still lacks a value, which may begin with dashes.
    let mut lacks_value = false;
    for (index, option) in options.iter().enumerate() {
        match option.strip_prefix("--") {
            Some(text) if !lacks_value => {
                let mut line = text.as_bytes().to_vec();
                // `--port 7777` can also come as one argument.
                lacks_value = text.split_whitespace().count() <= 1;
                let is_last = options
                    .get(index + 1)
                    .is_none_or(|next| next.starts_with("--"));
                if is_last && text.eq_ignore_ascii_case("save") {
                    // A program that passes on an empty list means: no snapshots.
                    line.extend_from_slice(b" \"\"");
                    lacks_value = false;
                }
                lines.push(line);
            }
            _ => {
                lacks_value = false;
                if lines.is_empty() {
                    lines.push(Vec::new());
                }
                if let Some(line) = lines.last_mut() {
                    line.push(b' ');
                    words::quote(line, option.as_bytes());
                }
            }
        }
    }
    lines
}

/// What `--help` prints.
pub const USAGE: &str = "\
Usage: quorlock server [FILE] [--directive value ...] [-]
       quorlock server -              read the configuration from standard input
       quorlock server -v | --version
       quorlock server -h | --help

FILE is in the format of redis.conf; what follows overrides it.

Examples:
       quorlock server                                   127.0.0.1:6379, data in this directory
       quorlock server --port 7777 --dir /var/lib/quorlock
       quorlock server configs/node.conf --appendfsync always
       quorlock server --bind 127.0.0.1 10.0.0.5 --requirepass-file /etc/quorlock/password
       echo 'port 7777' | quorlock server -

Every directive is explained in configs/node.conf.
";
