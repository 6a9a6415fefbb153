//! The directives a node uses, one row each: name, default, what is allowed, meaning, how it is read,
//! how it is shown. The order is that of `configs/node.conf`, which explains every row.

use std::path::PathBuf;
use std::time::Duration;

use super::clients::ClientMemory;
use super::cluster_size::ClusterSize;
use super::directive::Directive;
use super::settings::{
    AppendFsync, DebugCommand, FirstStart, LogLevel, NoTtlDurability, RESTART_DELAYS, RestartDelay,
    RestartDelayReply, Supervised,
};
use super::times::{
    DAY, PATH_BYTES_MAX, optional_time, path, restart_delay, seconds, show_path, show_seconds, time,
};
use super::value::{
    events, integer, label, lock_patterns, memory, name_of, octal, one, one_of, percent_millionths,
    port_or_off, show_milliseconds, show_percent, show_yes_or_no, text, yes_or_no,
};
use super::{Problem, bind, password, scripts, supervision, users};

/// See the file's header.
pub(super) const USED: &[Directive] = &[
    Directive::used(
        "bind",
        "127.0.0.1 -::1",
        "up to 16 IP addresses, `*`, `::*`",
        "Addresses to listen on. `-` in front: may be missing on this machine.",
        |c, v| bind::parse_all(v).map(|addresses| c.bind = addresses),
        |c| bind::show_all(&c.bind),
    ),
    Directive::used(
        "port",
        "6379",
        "0 to 65535",
        "TCP port. 0 takes any free port (Redis would not listen at all), and none where there is a `unixsocket` or a `tls-port`.",
        |c, v| integer(one(v)?, 0, u16::MAX).map(|port| c.port = port),
        |c| c.port.to_string(),
    ),
    Directive::used(
        "unixsocket",
        "\"\"",
        "a path of up to 107 bytes",
        "A Unix socket to listen on as well. A relative path begins in `dir`. Empty: none.",
        |c, v| {
            text(one(v)?, 107)
                .map(|path| c.unixsocket = (!path.is_empty()).then(|| PathBuf::from(path)))
        },
        |c| {
            let path = c.unixsocket.as_ref();
            path.map_or_else(String::new, |path| path.to_string_lossy().into_owned())
        },
    ),
    Directive::used(
        "unixsocketperm",
        "0",
        "0 to 777, octal",
        "Permissions of that socket, which never has wider ones. 0 leaves them to the umask.",
        |c, v| octal(one(v)?).map(|mode| c.unixsocketperm = mode),
        |c| format!("{:o}", c.unixsocketperm),
    ),
    Directive::live(
        "protected-mode",
        "yes",
        "`yes`, `no`",
        "Refuse clients from other machines while no password is set.",
        |c, v| yes_or_no(one(v)?).map(|yes| c.protected_mode = yes),
        |c| show_yes_or_no(c.protected_mode),
    ),
    password::DIRECTIVE,
    password::FILE,
    users::FILE,
    users::LINE,
    Directive::used(
        "tcp-backlog",
        "511",
        "0 to 2147483647",
        "Connections the kernel holds until they are accepted.",
        |c, v| integer(one(v)?, 0, 2_147_483_647).map(|length| c.tcp_backlog = length),
        |c| c.tcp_backlog.to_string(),
    ),
    Directive::live(
        "tcp-keepalive",
        "300",
        "seconds, 0 = off",
        "Idle time after which the kernel asks whether the other end still lives.",
        |c, v| seconds(one(v)?).map(|time| c.tcp_keepalive = time),
        |c| show_seconds(c.tcp_keepalive),
    ),
    Directive::live(
        "timeout",
        "0",
        "seconds, 0 = never",
        "Idle time after which a client is disconnected. Its locks stay.",
        |c, v| seconds(one(v)?).map(|time| c.timeout = time),
        |c| show_seconds(c.timeout),
    ),
    Directive::live(
        "authentication-timeout",
        "60s",
        "milliseconds (unit allowed), 1ms to 1h",
        "Where a password is set: time from connecting within which it must be given, whatever else \
         is sent.",
        |c, v| time(one(v)?, HOUR).map(|time| c.authentication_timeout = time),
        |c| show_milliseconds(c.authentication_timeout),
    ),
    Directive::live(
        "request-timeout",
        "60s",
        "milliseconds (unit allowed) up to 24h, 0 = never",
        "Time from the first byte of a request within which all of it must arrive.",
        |c, v| optional_time(one(v)?).map(|time| c.request_timeout = time),
        |c| show_milliseconds(c.request_timeout.unwrap_or_default()),
    ),
    Directive::live(
        "send-timeout",
        "60s",
        "milliseconds (unit allowed) up to 24h, 0 = never",
        "Time after which a client is disconnected that has replies and takes none of their bytes.",
        |c, v| optional_time(one(v)?).map(|time| c.send_timeout = time),
        |c| show_milliseconds(c.send_timeout.unwrap_or_default()),
    ),
    Directive::live(
        "maxclients",
        "10000",
        "1 to 1000000",
        "Most connections at a time; further ones get an error and are closed, unless one that has not \
         authenticated can make room.",
        |c, v| integer(one(v)?, 1, 1_000_000).map(|clients| c.maxclients = clients),
        |c| c.maxclients.to_string(),
    ),
    Directive::live(
        "proto-max-bulk-len",
        "536870912",
        "bytes, from 1mb",
        "Longest argument of a request that is read: a longer one ends the connection. From 7 MiB on it is not kept, and its command \
         is refused.",
        |c, v| memory(one(v)?, MEBIBYTE, i64::MAX as u64).map(|bytes| c.proto_max_bulk_len = bytes),
        |c| c.proto_max_bulk_len.to_string(),
    ),
    Directive::live(
        "proto-max-reply-len",
        "67108864",
        "bytes, 1mb to 1gb",
        "Most memory that the reply to one request may take. A larger one is an error instead.",
        |c, v| {
            memory(one(v)?, MEBIBYTE, 1024 * MEBIBYTE).map(|bytes| c.proto_max_reply_len = bytes)
        },
        |c| c.proto_max_reply_len.to_string(),
    ),
    Directive::live(
        "client-query-buffer-limit",
        "67108864",
        "bytes, 1mb to 2gb",
        "Longest request as a whole. A longer one is read to its end and refused.",
        |c, v| {
            memory(one(v)?, MEBIBYTE, 2048 * MEBIBYTE)
                .map(|bytes| c.client_query_buffer_limit = bytes)
        },
        |c| c.client_query_buffer_limit.to_string(),
    ),
    Directive::live(
        "client-output-buffer-limit",
        "normal 128mb 8mb 60 replica 256mb 64mb 60 pubsub 32mb 8mb 60",
        "`<class> <hard> <soft> <soft seconds>`, repeated; 0 = no limit",
        "Replies that wait for one client: with the hard limit it is closed at once, with the soft one \
         after so many seconds.",
        |c, v| {
            let limits = c.client_output_buffer_limit.with(v)?;
            c.client_output_buffer_limit = limits;
            Ok(())
        },
        |c| c.client_output_buffer_limit.show(),
    ),
    Directive::live(
        "maxmemory",
        "0",
        "bytes, 0 = no limit",
        "What keys may take with their values. Beyond it what adds to them is refused with -OOM; releases and renewals go on.",
        |c, v| memory(one(v)?, 0, u64::MAX).map(|bytes| c.maxmemory = bytes),
        |c| c.maxmemory.to_string(),
    ),
    Directive::live(
        "maxmemory-clients",
        "256mb",
        "bytes up to 1024gb, or 1% to 100% of the machine's memory; 0 = no limit",
        "What the buffers of all clients may take together; beyond it the largest is closed.",
        |c, v| ClientMemory::parse(one(v)?).map(|memory| c.maxmemory_clients = memory),
        |c| c.maxmemory_clients.show(),
    ),
    Directive::live(
        "notify-keyspace-events",
        "\"\"",
        "letters of `KEg$lshzxetdnmA`",
        "Which events of keys are published, and on which channels.",
        |c, v| events(one(v)?).map(|events| c.notify_keyspace_events = events),
        |c| c.notify_keyspace_events.to_string(),
    ),
    Directive::live(
        "tracking-table-max-keys",
        "1000000",
        "0 to 4294967295, 0 = as many as fit into 512 MiB",
        "Keys that are remembered for clients with CLIENT TRACKING. Beyond it some are told to forget one.",
        |c, v| integer(one(v)?, 0, u32::MAX).map(|keys| c.tracking_table_max_keys = keys),
        |c| c.tracking_table_max_keys.to_string(),
    ),
    Directive::live(
        "metrics-port",
        "off",
        "`off`, 0 to 65535",
        "Port of the HTTP endpoint with /metrics, /readyz and /healthz. 0 takes any free port.",
        |c, v| port_or_off(one(v)?).map(|port| c.metrics_port = port),
        |c| {
            c.metrics_port
                .map_or_else(|| "off".to_owned(), |port| port.to_string())
        },
    ),
    Directive::live(
        "metrics-bind",
        "127.0.0.1 -::1",
        "up to 16 IP addresses, `*`, `::*`",
        "Addresses of that endpoint. It has no password, and shows neither keys nor tokens.",
        |c, v| bind::parse_words(v).map(|addresses| c.metrics_bind = addresses),
        |c| bind::show_all(&c.metrics_bind),
    ),
    Directive::used(
        "metrics-tls",
        "no",
        "`yes`, `no`",
        "Whether that endpoint speaks TLS, with `tls-cert-file` and `tls-key-file`. It asks for no certificate.",
        |c, v| yes_or_no(one(v)?).map(|yes| c.metrics_tls = yes),
        |c| show_yes_or_no(c.metrics_tls),
    ),
    Directive::used(
        "metrics-lock-patterns",
        "\"\"",
        "up to 16 patterns of up to 64 letters, digits and `*?:./{}_-`",
        "Names by which the metrics count locks apart: a lock counts for the first pattern that it matches. Empty: all together.",
        |c, v| lock_patterns(v).map(|patterns| c.metrics_lock_patterns = patterns),
        |c| c.metrics_lock_patterns.join(" "),
    ),
    Directive::used(
        "dir",
        ".",
        "a path",
        "Directory of the node: its identity and its log. It must exist. Never share or copy it.",
        |c, v| match text(one(v)?, PATH_BYTES_MAX)? {
            path if path.is_empty() => Err(Problem::new("argument must be a path")),
            path => {
                c.dir = PathBuf::from(path);
                Ok(())
            }
        },
        |c| c.dir.display().to_string(),
    ),
    Directive::used(
        "appendonly",
        "yes",
        "`yes`, `no`",
        "Log every lock. With `no` every start waits out what the last run may have granted.",
        |c, v| yes_or_no(one(v)?).map(|yes| c.appendonly = yes),
        |c| show_yes_or_no(c.appendonly),
    ),
    Directive::live(
        "appendfsync",
        "everysec",
        "`always`, `everysec`, `no`",
        "When the log is forced to the disk: before the reply, once per second, or never.",
        |c, v| one_of(AppendFsync::NAMES, one(v)?).map(|mode| c.appendfsync = mode),
        |c| name_of(AppendFsync::NAMES, &c.appendfsync).to_owned(),
    ),
    Directive::used(
        "log-direct-io",
        "yes",
        "`yes`, `no`",
        "With appendfsync always: write the log past the page cache, where the file system can.",
        |c, v| yes_or_no(one(v)?).map(|yes| c.log_direct_io = yes),
        |c| show_yes_or_no(c.log_direct_io),
    ),
    Directive::live(
        "auto-aof-rewrite-percentage",
        "100",
        "0 to 100000, 0 = only BGREWRITEAOF",
        "The log is compacted when it has grown by so much since the last time ...",
        |c, v| integer(one(v)?, 0, 100_000).map(|it| c.auto_aof_rewrite_percentage = it),
        |c| c.auto_aof_rewrite_percentage.to_string(),
    ),
    Directive::live(
        "auto-aof-rewrite-min-size",
        "67108864",
        "bytes, 1mb to 1tb",
        "... and has at least this size. It bounds what a small node keeps on disk.",
        |c, v| memory(one(v)?, MEBIBYTE, MEBIBYTE << 20).map(|it| c.auto_aof_rewrite_min_size = it),
        |c| c.auto_aof_rewrite_min_size.to_string(),
    ),
    Directive::used(
        "databases",
        "16",
        "1 to 16",
        "How many databases SELECT can choose from.",
        |c, v| integer(one(v)?, 1, 16).map(|databases| c.databases = databases),
        |c| c.databases.to_string(),
    ),
    Directive::live(
        "loglevel",
        "notice",
        "`debug`, `verbose`, `notice`, `warning`",
        "How much is written to the log file.",
        |c, v| one_of(LogLevel::NAMES, one(v)?).map(|level| c.loglevel = level),
        |c| name_of(LogLevel::NAMES, &c.loglevel).to_owned(),
    ),
    Directive::used(
        "logfile",
        "\"\"",
        "a path",
        "Where messages go. Empty: standard output.",
        |c, v| path(one(v)?).map(|path| c.logfile = path),
        |c| show_path(&c.logfile),
    ),
    supervision::LOG_FORMAT,
    supervision::SYSLOG_ENABLED,
    supervision::SYSLOG_IDENT,
    supervision::SYSLOG_FACILITY,
    Directive::used(
        "pidfile",
        "\"\"",
        "a path",
        "A file that holds the process id while the node runs. Empty: none.",
        |c, v| path(one(v)?).map(|path| c.pidfile = path),
        |c| show_path(&c.pidfile),
    ),
    Directive::used(
        "supervised",
        "no",
        "`no`, `auto`, `systemd`",
        "Tell systemd when the node is ready, what it does, and that it is alive.",
        |c, v| one_of(Supervised::NAMES, one(v)?).map(|who| c.reports.supervised = who),
        |c| name_of(Supervised::NAMES, &c.reports.supervised).to_owned(),
    ),
    supervision::SUPERVISED_READY,
    Directive::live(
        "shutdown-timeout",
        "10",
        "seconds",
        "How long a stop may wait for clients' last replies; it ends two seconds after the last byte was \
         taken. The log is always completed.",
        |c, v| seconds(one(v)?).map(|time| c.shutdown_timeout = time.unwrap_or_default()),
        |c| show_seconds(Some(c.shutdown_timeout)),
    ),
    Directive::used(
        "workers",
        "0",
        "0 to 64, 0 = by cores",
        "Threads that serve clients. By cores: 1 up to 3 cores, then half of them.",
        |c, v| integer(one(v)?, 0, 64).map(|workers| c.workers = workers),
        |c| c.workers.to_string(),
    ),
    Directive::used(
        "first-start",
        "auto",
        "`auto`, `serve`, `wait`",
        "In an empty directory that `quorlock node init` did not make: serve, or wait \
         restart-delay-max first. Auto: wait if more is configured than for a first try.",
        |c, v| one_of(FirstStart::NAMES, one(v)?).map(|start| c.first_start = start),
        |c| name_of(FirstStart::NAMES, &c.first_start).to_owned(),
    ),
    Directive::used(
        "restart-delay",
        "auto",
        "`auto`, `always`, `off`, milliseconds (unit allowed)",
        "Stay out after an unclean stop until what was forgotten has expired. Auto: unless the log \
         proves that nothing was lost. `off` and a fixed time are for experiments.",
        |c, v| restart_delay(one(v)?).map(|delay| c.restart_delay = delay),
        |c| match c.restart_delay {
            RestartDelay::Fixed(time) => show_milliseconds(time),
            named => name_of(RESTART_DELAYS, &named).to_owned(),
        },
    ),
    Directive::live(
        "restart-delay-max",
        "60s",
        "milliseconds (unit allowed), 1ms to 24h",
        "The longest TTL that the delay covers. Longer ones are synced before the reply.",
        |c, v| time(one(v)?, DAY).map(|time| c.restart_delay_max = time),
        |c| show_milliseconds(c.restart_delay_max),
    ),
    Directive::live(
        "restart-delay-reply",
        "restartdelay",
        "`restartdelay`, `loading`",
        "The error during the delay. Many drivers retry LOADING for seconds.",
        |c, v| one_of(RestartDelayReply::NAMES, one(v)?).map(|it| c.restart_delay_reply = it),
        |c| name_of(RestartDelayReply::NAMES, &c.restart_delay_reply).to_owned(),
    ),
    Directive::used(
        "trust-fsync",
        "no",
        "`yes`, `no`",
        "Whether disk and hypervisor keep what they acknowledged when the power fails.",
        |c, v| yes_or_no(one(v)?).map(|yes| c.trust_fsync = yes),
        |c| show_yes_or_no(c.trust_fsync),
    ),
    Directive::live(
        "no-ttl-durability",
        "sync",
        "`sync`, `as-mode`",
        "Keys without TTL or beyond restart-delay-max: synced before the reply, or as appendfsync \
         says, like Redis.",
        |c, v| one_of(NoTtlDurability::NAMES, one(v)?).map(|it| c.no_ttl_durability = it),
        |c| name_of(NoTtlDurability::NAMES, &c.no_ttl_durability).to_owned(),
    ),
    Directive::live(
        "require-ttl",
        "no",
        "`yes`, `no`",
        "Refuse keys without TTL or beyond restart-delay-max.",
        |c, v| yes_or_no(one(v)?).map(|yes| c.require_ttl = yes),
        |c| show_yes_or_no(c.require_ttl),
    ),
    Directive::used(
        "enable-debug-command",
        "no",
        "`no`, `local`, `yes`",
        "From where DEBUG may be called: DEBUG SLEEP lets all clients wait, DEBUG OBJECT tells how a key is kept. For test suites.",
        |c, v| one_of(DebugCommand::NAMES, one(v)?).map(|it| c.enable_debug_command = it),
        |c| name_of(DebugCommand::NAMES, &c.enable_debug_command).to_owned(),
    ),
    Directive::used(
        "clock-drift-percent",
        "1",
        "0.0001 to 10, in percent",
        "Bound on the difference in rate between any two clocks; 2 ms are added.",
        |c, v| percent_millionths(one(v)?, 1, 100_000).map(|it| c.clock_drift_millionths = it),
        |c| show_percent(c.clock_drift_millionths),
    ),
    scripts::TIME_LIMIT,
    scripts::SIZE_LIMIT,
    scripts::LOAD_LIMIT,
    scripts::NATIVE,
    Directive::used(
        "cluster-id",
        "\"\"",
        "up to 64 letters, digits, `.`, `-`, `_`",
        "The cluster this node belongs to, in INFO as `quorlock_cluster_id`. Our Redlock client counts no votes of \
         nodes of different clusters together.",
        |c, v| label(one(v)?).map(|label| c.cluster_id = label),
        |c| c.cluster_id.clone().unwrap_or_default(),
    ),
    Directive::live(
        "cluster-size",
        "0",
        "0 to 64, two numbers that differ by one, or `removed`",
        "How many nodes the cluster has, in INFO as `quorlock_cluster_size`; 0: what the directory was made for, or \
         not said. Our Redlock client gets no vote of a node whose cluster has more or fewer nodes than the client \
         lists. Without it, clients that list other nodes than each other can hold the same lock. Two numbers, such as \
         `5 6`, while a member is added or removed: clients with either list get votes. `removed`: this node is in no list any more.",
        |c, v| ClusterSize::parse(v).map(|size| c.cluster_size = size),
        |c| c.cluster_size.to_string(),
    ),
    Directive::used(
        "node-name",
        "\"\"",
        "up to 64 letters, digits, `.`, `-`, `_`",
        "What people call this node: in INFO, in the metrics, and in the log lines of a start.",
        |c, v| label(one(v)?).map(|label| c.node_name = label),
        |c| c.node_name.clone().unwrap_or_default(),
    ),
    Directive::include("Read another file in this place. Up to 8 deep."),
];

const MEBIBYTE: u64 = 1 << 20;
const HOUR: Duration = Duration::from_secs(3600);
