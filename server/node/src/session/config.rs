//! CONFIG: the directives this node runs with, and changing some of them while it runs.
//!
//! CONFIG SET takes all of its pairs or none, as in Redis 7. A change of durability or of the cap
//! goes into the log before anything is executed under it, and is acknowledged once it is synced.

use std::convert::Infallible;

use quorlock_engine::{
    Engine, ErrorReply, GlobBudget, NodeTime, PATTERN_BYTES_MAX, PATTERN_TOO_EXPENSIVE,
    PATTERN_TOO_LONG, Reply, ScriptLimits,
};
use quorlock_persistence::Position;

use super::{acl, members};
use crate::config::{Config, NoTtlDurability, Password, RestartDelayReply};
use crate::core::commit::Failure;
use crate::core::executor::{Executor, Phase};
use crate::core::settings::durability;
use crate::core::state::NodeState;
use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};
use crate::session::named_request::NamedRequest;
use crate::session::prepared_change::{PreparedChange, is_prepared};

pub(crate) fn config(
    session: &mut Session,
    batch: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Answered {
    let request = NamedRequest::of(arguments);
    request.check()?;
    let reply = match request.names().1 {
        "get" => matching(batch, &arguments[2..])?,
        "set" => return set(session, batch, &arguments[2..]),
        "resetstat" => {
            batch.node.statistics.reset(batch.node.clients.total());
            batch.node.access.denials().count_anew();
            batch.count_anew();
            let (executor, _) = batch.executor()?;
            executor.count_anew();
            Reply::Ok
        }
        "rewrite" => rewrite(batch)?,
        _ => Reply::help("CONFIG", HELP),
    };
    Ok(Answer::Reply(reply))
}

fn matching(batch: &Batch<'_>, patterns: &[&[u8]]) -> Result<Reply, ErrorReply> {
    if patterns.len() > PATTERNS_MAX {
        return Err(TOO_MANY_PATTERNS);
    }
    if patterns.iter().any(|it| it.len() > PATTERN_BYTES_MAX) {
        return Err(PATTERN_TOO_LONG);
    }
    let patterns: Vec<Vec<u8>> = patterns.iter().map(|it| it.to_ascii_lowercase()).collect();
    let mut budget = GlobBudget::default();
    // A copy: a change of the configuration holds the engine, and would wait for this.
    let config = batch.node.settings.config().clone();
    let mut pairs = Vec::new();
    for name in config.names() {
        let mut is_wanted = false;
        for pattern in &patterns {
            let is_match = budget.matches(pattern, name.as_bytes());
            is_wanted |= is_match.map_err(|_| PATTERN_TOO_EXPENSIVE)?;
        }
        if is_wanted && let Some(value) = config.value_of(name) {
            // The port that was asked for as 0 is the one that was found.
            let value = if name == "port" {
                batch.node.facts.port.to_string()
            } else {
                value
            };
            pairs.push((Reply::bulk(name), Reply::bulk(value)));
        }
    }
    Ok(Reply::Map(pairs))
}

/// Writes what is in force into the configuration file. This waits for the disk, so the engine is not locked meanwhile.
fn rewrite(batch: &mut Batch<'_>) -> Result<Reply, ErrorReply> {
    let node = batch.node;
    let (Some(files), Some(path)) = (&node.files, &node.config.file) else {
        return Err(NO_FILE);
    };
    batch.release();
    let written = {
        let _rewriting = node.settings.rewriting();
        let config = node.settings.config().clone();
        let users = node.access.users().clone();
        config.rewrite(path, &**files, &node.config, &users)
    };
    match written {
        Ok(()) => {
            batch.warn("CONFIG REWRITE executed with success.".to_owned());
            Ok(Reply::Ok)
        }
        Err(why) => {
            let path = path.display();
            batch.warn(format!(
                "CONFIG REWRITE failed: {path} is what it was: {why}"
            ));
            Err(ErrorReply::new(format!("ERR Rewriting config file: {why}")))
        }
    }
}

fn set(session: &Session, batch: &mut Batch<'_>, words: &[&[u8]]) -> Answered {
    let node = batch.node;
    let prepared = prepare(batch, words)?;
    // Under the engine's lock, so that two changes cannot mix.
    let (executor, now) = batch.executor()?;
    let before = node.settings.config().clone();
    let Changed { after, mut lines } = changed(&before, words)?;
    within_what_the_process_has(node, &before, &after)?;
    let of_members = members::judge(session, node, executor.time.raw, &before, &after)
        .map_err(|why| failed("cluster-size", &why))?;
    if !prepared.is_of(&after) {
        return Err(CHANGED_MEANWHILE.into());
    }
    if let Phase::Stopped(why) = &executor.phase {
        // Nothing may follow the last record of the log.
        let text = format!("ERR nothing can be changed any more: {why}");
        return Err(ErrorReply::new(text).into());
    }
    if executor.appender.room() == 0 {
        // The last bytes are for the records of an orderly stop.
        return Err(executor.no_room().into());
    }
    let position = apply(executor, now.node, &before, &after);
    lines.extend(changes(&before, &after, words));
    lines.extend(cap_only_in_the_log(&node.config, &before, &after));
    let password = after.requirepass.clone();
    if let Some(set) = &node.log_filter
        && after.loglevel != before.loglevel
    {
        set(after.loglevel);
    }
    node.settings.replace(after);
    let close_sockets = prepared.install();
    set_default_password(batch, words, password)?;
    members::carry_out(session, batch, of_members, words)?;
    if let Some(changes) = &mut batch.changes {
        changes.note_config(before);
    }
    lines.into_iter().for_each(|line| batch.warn(line));
    batch.release();
    if let Some(close_sockets) = close_sockets {
        close_sockets();
    }
    node.signals.activity.notify_all();
    // A worker whose clients are all idle would see a shorter time only when one of them is not.
    node.deliveries.wake_all();
    Ok(match position {
        Some(position) => Answer::Durable(Reply::Ok, position),
        None => Answer::Reply(Reply::Ok),
    })
}

/// The default user gets the password that is set, if one is.
fn set_default_password(
    batch: &mut Batch<'_>,
    words: &[&[u8]],
    password: Option<Password>,
) -> Result<(), Failure> {
    let mut names = words.iter().step_by(2);
    if !names.any(|name| name.eq_ignore_ascii_case(b"requirepass")) {
        return Ok(());
    }
    let password = password.as_ref();
    let password = password.map(|password| password.as_str().as_bytes());
    let Ok(()) = acl::change_users(batch, |users| {
        users.set_default_password(password);
        Ok::<(), Infallible>(())
    })?;
    Ok(())
}

/// Whether a CONFIG SET of these pairs waits for the disk, writes a record of its own into the log, or disconnects clients: none of
/// that may happen in the middle of a transaction.
pub(super) fn needs_more_than_the_engine(pairs: &[&[u8]]) -> bool {
    pairs.iter().step_by(2).any(|name| {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        is_prepared(&name) || RECORDED.contains(&&*name)
    })
}

/// Takes back what CONFIG SETs of a transaction have changed.
pub(super) fn put_back(batch: &mut Batch<'_>, config: Config) -> Result<(), Failure> {
    let node = batch.node;
    let (executor, now) = batch.executor()?;
    let changed = node.settings.config().clone();
    let position = apply(executor, now.node, &changed, &config);
    debug_assert!(position.is_none(), "that would not have run there");
    if let Some(set) = &node.log_filter
        && config.loglevel != changed.loglevel
    {
        set(config.loglevel);
    }
    node.settings.replace(config);
    batch.warn("EXEC has taken back its transaction, CONFIG SET included".to_owned());
    batch.follow_thresholds();
    Ok(())
}

/// What only the process, or the program around the node, can say of a change.
fn within_what_the_process_has(
    node: &NodeState,
    before: &Config,
    after: &Config,
) -> Result<(), ErrorReply> {
    let wanted = after.maxclients;
    if wanted > before.maxclients {
        let fit = (node.process.clients_max)(wanted);
        if fit < wanted {
            return Err(failed(
                "maxclients",
                &format!(
                    "The operating system is not able to handle the specified number of clients, try with {fit}"
                ),
            ));
        }
    }
    if after.loglevel != before.loglevel && node.log_filter.is_none() {
        return Err(failed(
            "loglevel",
            "the program that the node is a part of decides what is logged",
        ));
    }
    if !after.script_native && !quorlock_engine::HAS_INTERPRETER {
        return Err(failed(
            "script-native",
            "this program was built without the interpreter, so that no script could run at all",
        ));
    }
    Ok(())
}

/// Prepares what waits for files or sockets, with the engine released.
fn prepare(batch: &mut Batch<'_>, words: &[&[u8]]) -> Result<PreparedChange, ErrorReply> {
    if !PreparedChange::is_needed(words) {
        return Ok(PreparedChange::default());
    }
    batch.release();
    let node = batch.node;
    let before = node.settings.config().clone();
    let after = changed(&before, words)?.after;
    let prepared = PreparedChange::new(node, &before, &after, words);
    prepared.map_err(|(name, why)| failed(&name, &why))
}

/// One line for each directive that has another value now.
fn changes(before: &Config, after: &Config, words: &[&[u8]]) -> Vec<String> {
    let change = |name: &&[u8]| {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let (old, new) = (before.value_of(&name)?, after.value_of(&name)?);
        if name == "requirepass" {
            // As in Redis also where it is the same: the default user may have had others.
            return Some("CONFIG SET: the password of the default user is another one until the node stops; connections stay as they are".to_owned());
        }
        let line = format!("CONFIG SET: {name} was {old} and is {new} until the node stops");
        (old != new).then_some(line)
    };
    words.iter().step_by(2).filter_map(change).collect()
}

/// A cap above the configuration's is known to the next start from the log alone.
fn cap_only_in_the_log(file: &Config, before: &Config, after: &Config) -> Option<String> {
    let cap = after.restart_delay_max;
    let is_raised = cap != before.restart_delay_max && cap > file.restart_delay_max;
    is_raised.then(|| {
        format!(
            "CONFIG SET: restart-delay-max is above the {} ms that this node was started with. Change the \
             configuration as well: a start whose log is gone, was put back, or did not survive a power loss \
             goes by its configuration, and would not wait for the locks granted under the higher value",
            file.restart_delay_max.as_millis()
        )
    })
}

/// Carries a change out; returns the position of its record, if it has one.
fn apply(
    executor: &mut Executor,
    now: NodeTime,
    before: &Config,
    after: &Config,
) -> Option<Position> {
    executor.rules.no_ttl_is_synced = after.no_ttl_durability == NoTtlDurability::Sync;
    executor.rules.answers_loading = after.restart_delay_reply == RestartDelayReply::Loading;
    executor.engine.set_require_ttl(after.require_ttl);
    executor
        .engine
        .set_reply_bytes_max(after.proto_max_reply_len);
    follow(&mut executor.engine, after);
    let is_recorded = before.appendfsync != after.appendfsync
        || before.restart_delay_max != after.restart_delay_max;
    is_recorded.then(|| executor.change_mode(now, durability(after), after.restart_delay_max))
}

/// What the engine is told that may change while it runs and decides nothing about keys.
pub(crate) fn follow(engine: &mut Engine, config: &Config) {
    engine.set_events(config.notify_keyspace_events);
    let limits = ScriptLimits {
        time: config.script_time_limit,
        body_bytes: config.script_size_limit,
        loaded_bytes: config.script_load_limit,
        ..engine.script_limits()
    };
    engine.set_script_limits(limits, config.script_native);
    let memory_max = usize::try_from(config.maxmemory);
    engine.set_memory_max(memory_max.unwrap_or(usize::MAX));
    let keys_max = usize::try_from(config.tracking_table_max_keys);
    engine
        .tracking()
        .set_keys_max(keys_max.unwrap_or(usize::MAX));
}

/// What a CONFIG SET makes of a configuration.
struct Changed {
    after: Config,
    /// What to warn of in the node's log.
    lines: Vec<String>,
}

/// The configuration with all pairs applied. As in Redis all names are looked at before any value.
fn changed(config: &Config, words: &[&[u8]]) -> Result<Changed, ErrorReply> {
    let (pairs, []) = words.as_chunks::<2>() else {
        return Err(ErrorReply::SYNTAX);
    };
    let pairs: Vec<[String; 2]> = pairs
        .iter()
        .map(|pair| pair.map(|word| String::from_utf8_lossy(word).into_owned()))
        .collect();
    let is_text = |word: &[u8]| std::str::from_utf8(word).is_ok();
    for (index, [name, value]) in pairs.iter().enumerate() {
        let Some(current) = config.value_of(name) else {
            return Err(ErrorReply::new(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )));
        };
        if !is_text(words[2 * index + 1]) {
            let why = match name.eq_ignore_ascii_case("requirepass") {
                true => "a password is UTF-8; ACL SETUSER takes any bytes",
                false => "a value is UTF-8",
            };
            return Err(failed(name, why));
        }
        // What is already so can be had: tools set `save` and `appendonly` to what they need.
        if !Config::is_live(name) && current != *value {
            return Err(failed(name, &fixed(name)));
        }
        let is_twice = pairs[..index]
            .iter()
            .any(|[other, _]| other.eq_ignore_ascii_case(name));
        if is_twice {
            return Err(failed(name, "duplicate parameter"));
        }
    }
    let mut after = config.clone();
    for [name, value] in pairs.iter().filter(|[name, _]| Config::is_live(name)) {
        after
            .set(name, &[value])
            .map_err(|problem| failed(name, &problem.to_string()))?;
    }
    let is_named = |directive: &str| {
        let mut names = pairs.iter().map(|[name, _]| name);
        names.any(|name| name.eq_ignore_ascii_case(directive))
    };
    let notices = after.notices().iter();
    let named = notices.filter(|notice| is_named(&notice.directive));
    let lines = named.map(ToString::to_string).collect();
    Ok(Changed { after, lines })
}

/// Redis's words, and why it is so.
fn fixed(name: &str) -> String {
    format!(
        "can't set immutable config: {}",
        Config::why_immutable(name)
    )
}

fn failed(name: &str, why: &str) -> ErrorReply {
    ErrorReply::new(format!(
        "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
    ))
}

const CHANGED_MEANWHILE: ErrorReply = ErrorReply::fixed(
    "ERR CONFIG SET failed - another CONFIG SET has changed the same directives meanwhile; nothing was changed, try again",
);

/// What is in the log, or is about the clients of other lists of nodes.
const RECORDED: [&str; 3] = ["appendfsync", "restart-delay-max", "cluster-size"];

const NO_FILE: ErrorReply = ErrorReply::fixed("ERR The server is running without a config file");

/// More patterns than directives make no sense.
const PATTERNS_MAX: usize = 256;

const TOO_MANY_PATTERNS: ErrorReply = ErrorReply::fixed(
    "ERR CONFIG GET takes at most 256 patterns; ask for the rest with another one",
);

const HELP: &[&str] = &[
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_no_text_is_no_value() {
        let refusal = |words: &[&[u8]]| changed(&Config::default(), words).map(drop);
        for (name, part) in [
            ("maxmemory", "a value is UTF-8"),
            ("requirepass", "ACL SETUSER"),
        ] {
            let error = refusal(&[name.as_bytes(), b"1\xff"]).expect_err("it is no text");
            assert!(error.to_string().contains(part), "{error}");
        }
        refusal(&[b"requirepass", "\u{e9}".as_bytes()]).expect("it is text");
        refusal(&[b"max\xffmemory", b"1"]).expect_err("there is no such directive");
    }

    #[test]
    fn a_cap_raised_above_the_configuration_is_warned_of() {
        let with = |seconds| {
            let mut config = Config::default();
            config.restart_delay_max = Duration::from_secs(seconds);
            config
        };
        let warns =
            |before, after| cap_only_in_the_log(&with(60), &with(before), &with(after)).is_some();
        assert!(warns(60, 61));
        assert!(warns(90, 75), "lowered, and still above");
        assert!(!warns(90, 90), "nothing changed");
        assert!(!warns(90, 60));
        assert!(!warns(20, 40), "the configuration covers it");
    }
}
