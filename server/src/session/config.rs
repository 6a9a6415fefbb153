//! CONFIG GET: the directives this node runs with.

use quorlock_engine::{ErrorReply, Reply, glob_matches};

use crate::node::commit::Failure;
use crate::session::Session;
use crate::session::batch::{Answer, Batch};

pub(crate) fn config(
    _: &mut Session,
    batch: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Result<Answer, Failure> {
    let subcommand = arguments[1].to_ascii_lowercase();
    let reply = match (subcommand.as_slice(), &arguments[2..]) {
        (b"get", []) => Reply::Error(ErrorReply::wrong_arity("config|get")),
        (b"get", patterns) => matching(batch, patterns),
        (b"resetstat", []) => {
            batch.shared.statistics.reset();
            Reply::Ok
        }
        (b"set" | b"rewrite", _) => Reply::Error(ErrorReply::fixed(
            "ERR CONFIG SET and CONFIG REWRITE are not in this version: change the configuration \
             file or the command line and restart the node (a clean stop keeps its locks)",
        )),
        _ => Reply::Error(ErrorReply::unknown_subcommand("config", arguments[1])),
    };
    Ok(Answer::Reply(reply))
}

fn matching(batch: &Batch<'_>, patterns: &[&[u8]]) -> Reply {
    let config = &batch.shared.config;
    let mut pairs = Vec::new();
    for name in config.names() {
        let is_wanted = patterns
            .iter()
            .take(PATTERNS_MAX)
            .any(|pattern| glob_matches(&pattern.to_ascii_lowercase(), name.as_bytes()));
        if is_wanted && let Some(value) = config.value_of(name) {
            // The port that was asked for as 0 is the one that was found.
            let value = if name == "port" {
                batch.shared.port.to_string()
            } else {
                value
            };
            pairs.push((Reply::bulk(name), Reply::bulk(value)));
        }
    }
    Reply::Map(pairs)
}

/// More patterns than directives make no sense.
const PATTERNS_MAX: usize = 256;
