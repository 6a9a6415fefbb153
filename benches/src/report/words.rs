//! What a row measures, in words.

use crate::workload::{Broken, Log, Opponent, Probed, Traffic, Workload};

/// What is sent, how the log is kept, and by how many connections.
pub(super) fn describe(workload: &Workload) -> String {
    if let Traffic::Redlock { broken } = workload.traffic {
        return describe_redlock(workload, broken);
    }
    if workload.traffic == Traffic::Crowd {
        let callers = workload.connections;
        return format!(
            "our client: {callers} callers wait for one name and give up together beside a lock of 3 s, which lives; as peer a \
             hundredth of the callers; CPU is that of the client's thread for each caller"
        );
    }
    let traffic = match workload.traffic {
        Traffic::Acquire => "SET NX PX".to_owned(),
        Traffic::Refused => "SET NX PX on 10 keys, refused".to_owned(),
        Traffic::ReleaseMiss if workload.is_interpreted => {
            "EVALSHA compare-and-delete, miss, ours in the interpreter".to_owned()
        }
        Traffic::ReleaseMiss => "EVALSHA compare-and-delete, miss".to_owned(),
        Traffic::Cycle => "SET NX PX, then EVALSHA that deletes".to_owned(),
        Traffic::Reentrant => "EVALSHA of Redisson's reentrant lock".to_owned(),
        Traffic::ReentrantCycle => "Redisson's reentrant lock taken and given back".to_owned(),
        Traffic::Transaction => "MULTI, five commands, EXEC".to_owned(),
        Traffic::HandOver => "LPUSH to half of the connections, which wait with BLPOP".to_owned(),
        Traffic::Publish { listeners } => format!("PUBLISH to {listeners} who listen"),
        Traffic::ScoredAdd => "ZADD of one of 1,000 members".to_owned(),
        Traffic::ScoredRemoveNone => {
            "ZREMRANGEBYSCORE that finds nothing among 1,000 members".to_owned()
        }
        Traffic::ReadBesideAcquire { writers } => {
            format!("GET beside SET NX PX by {writers} connections on other keys")
        }
        Traffic::Fill => "resident memory a lock".to_owned(),
        Traffic::Probe(probed) => {
            let keys = workload.operations;
            match probed {
                Probed::ExpiringKeys => format!("PING every millisecond while {keys} keys expire"),
                Probed::LivingKeys => format!("PING every millisecond while {keys} keys live"),
                Probed::Nobody => "a thread that sleeps to every millisecond, no PING".to_owned(),
            }
        }
        Traffic::ExpiredEvents { writers } => {
            let keys = workload.operations;
            format!("events of {keys} expired keys, {writers} connections take locks")
        }
        Traffic::Start => "from exec to PONG, an empty folder".to_owned(),
        Traffic::Idle => "nothing, without clients".to_owned(),
        Traffic::IdleConnections => {
            let count = workload.operations;
            format!("resident memory of one of {count} idle connections")
        }
        Traffic::Redlock { .. } | Traffic::Crowd => "Redlock".to_owned(),
        Traffic::Replay => {
            let millions = workload.operations / 1_000_000;
            format!("from exec to PONG, {millions} million SET NX PX and DEL in the log")
        }
    };
    let log = describe_log(workload);
    let delay = workload.sync_delay.map_or(String::new(), |delay| {
        format!(" and {} ms of sync delay", delay.as_millis())
    });
    if is_told_whole(workload.traffic) {
        return format!("{traffic}, {log}{delay}");
    }
    let plural = if workload.connections == 1 { "" } else { "s" };
    format!(
        "{traffic}, {log}{delay}, {} connection{plural}, depth {}",
        workload.connections, workload.depth
    )
}

/// Whose log it is, and how it is kept.
fn describe_log(workload: &Workload) -> String {
    match workload.opponent {
        Opponent::Peer | Opponent::Rslock | Opponent::AllWell | Opponent::Fewer => {
            log_name(workload.log).to_owned()
        }
        Opponent::Ours(log) => {
            let (ours, other) = (log_name(workload.log), log_name(log));
            format!("our own {ours} (as ours) and {other} (as peer)")
        }
    }
}

/// Whether connections and depth say nothing about the row.
fn is_told_whole(traffic: Traffic) -> bool {
    matches!(
        traffic,
        Traffic::Replay
            | Traffic::Probe(_)
            | Traffic::ExpiredEvents { .. }
            | Traffic::Start
            | Traffic::Idle
            | Traffic::IdleConnections
    )
}

fn describe_redlock(workload: &Workload, broken: Broken) -> String {
    let callers = match workload.connections {
        1 => "1 caller".to_owned(),
        callers => format!("{callers} callers"),
    };
    let nodes = match broken {
        Broken::Nothing => "five redis-servers, rslock as peer",
        Broken::Dead => "two of five redis-servers killed, all five well as peer",
        Broken::Hung => "two of five redis-servers stopped, all five well as peer",
    };
    format!("our client: acquire and release, {callers}, {nodes}; CPU is the client's")
}

fn log_name(log: Log) -> &'static str {
    match log {
        Log::None => "no log",
        Log::EverySecond => "fsync everysec",
        Log::Always => "fsync always",
    }
}
