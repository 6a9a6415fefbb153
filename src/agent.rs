//! `quorlock agent`: Redlock for lock libraries of any language that know one Redis.
//!
//! It listens on this machine alone unless told otherwise, and ends as `quorlock server` does.

mod check;
mod login;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use listenfd::ListenFd;
use quorlock_client::{Cause, NodeState, NodeStatus, Redlock};
use quorlock_server::Node;
use quorlock_server::config::{Config, Invocation, words};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::clusters::NodeList;
use crate::duration;
use crate::exit_code::Failure;
use crate::lock_options::{NodeOptions, VoteOptions};
use crate::output::Format;
use crate::runtime;
use crate::server::systemd::{Report, Says};
use crate::server::{in_flags, invocation, listen, log_file, start_log, supervision, until_end};
use crate::tls_options::TlsFlags;

/// Serves a page about these nodes on this port to whoever has its key, and gives its address.
pub(crate) type ServePage = fn(u16, NodeOptions) -> Result<String, Failure>;

/// Arguments of `quorlock agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The port on which lock libraries find it; 0 takes any free one [default: 6379]
    ///
    /// Sockets that systemd has opened (a unit of type socket) take the place of --port and --unixsocket.
    #[arg(long)]
    port: Option<u16>,
    /// A Unix socket to listen on as well
    #[arg(long, value_name = "PATH")]
    unixsocket: Option<PathBuf>,
    /// How long a try to take a lock is held back at most while somebody else has it, instead of being refused at once: it goes on as
    /// soon as the lock may be free
    #[arg(long, value_name = "TIME", value_parser = hold_back, default_value = "0s")]
    hold_back: Duration,
    /// Release the locks that a connection has taken when it ends
    #[arg(long)]
    release_on_disconnect: bool,
    /// Take, extend and give back a lock through the agent that runs under this port or socket, instead of starting one
    #[arg(long)]
    check: bool,
    /// Show nodes and locks in a browser as well, on this port of 127.0.0.1; 0 takes any free one
    #[arg(long, value_name = "PORT", conflicts_with = "check")]
    page_port: Option<u16>,
    #[command(flatten)]
    login: login::LoginFlags,
    /// Directives behind --, as `quorlock server` takes them: bind, requirepass, maxclients, loglevel, ...
    #[arg(last = true, value_name = "FILE and directives")]
    directives: Vec<OsString>,
    #[command(flatten)]
    nodes: NodeOptions,
    #[command(flatten)]
    votes: VoteOptions,
}

/// Runs an agent until it is stopped.
pub(crate) fn run(
    arguments: Arguments,
    format: Format,
    serve_page: ServePage,
) -> Result<ExitCode, Failure> {
    let given = directives(arguments.directives.clone());
    let Invocation::Serve(config) = invocation(&given)? else {
        return Err(Failure::usage("behind -- an agent takes directives alone"));
    };
    if arguments.check {
        check_running(&arguments, &config, format)?;
        return Ok(ExitCode::SUCCESS);
    }
    let opened = opened()?;
    if let Some(port) = arguments.page_port.filter(|_| opened.is_none()) {
        refuse_one_port_for_both(arguments.port.unwrap_or(PORT), port, &config)?;
    }
    if opened.is_some() && (arguments.port.is_some() || arguments.unixsocket.is_some()) {
        return Err(Failure::usage(
            "systemd has opened the sockets of this agent, and --port and --unixsocket would name others",
        )
        .remedy("leave the flags out, or start the unit without its socket unit"));
    }
    let list = arguments.nodes.clusters()?.only(AGENT)?;
    let redlock = (arguments.nodes).lock_client(list.clone(), &arguments.votes, false)?;
    let (log_filter, log_file) = start_log(&config)?;
    let page = arguments.page_port;
    let page = page.map(|port| serve_page(port, arguments.nodes.clone()));
    let page = page.transpose()?;
    let nodes = redlock.clone();
    runtime::block_on(async {
        let signals = listen()?;
        refuse_wrong_list(&nodes).await?;
        let options = quorlock_agent::Options {
            hold_back: arguments.hold_back,
            releases_on_disconnect: arguments.release_on_disconnect,
        };
        let mut builder = quorlock_agent::builder_with(redlock, &options);
        builder = builder.owns_process().log_filter(log_filter);
        builder = match opened {
            None => builder.port(arguments.port.unwrap_or(PORT)),
            Some((listeners, socket)) => builder.listen_on(listeners, socket),
        };
        for (name, values) in changed(&config)? {
            builder =
                builder.directive(name, &values.iter().map(String::as_str).collect::<Vec<_>>());
        }
        if let Some(path) = arguments.unixsocket.as_ref().and_then(|path| path.to_str()) {
            builder = builder.directive("unixsocket", &[path]);
        }
        let agent = builder.start().await;
        let agent = agent.map_err(|error| Failure::failed(in_flags(&error.to_string())))?;
        announce(format, &agent.url(), page.as_deref());
        let end = serve(agent, signals, &nodes, || {
            let clusters = arguments.nodes.clusters();
            compared(&list, clusters.and_then(|now| now.only(AGENT)))
        });
        tokio::select! {
            end = end => end,
            () = log_file::kept(log_file.as_deref()) => unreachable!("it is for ever"),
        }
    })
}

/// Says where the agent is found, and the page if there is one.
fn announce(format: Format, url: &str, page: Option<&str>) {
    let found = format!("lock libraries find the agent under {url}");
    match page {
        None => format.result(found, &json!({ "url": url })),
        Some(page) => format.result(
            format_args!(
                "{found}\nwhoever has this address sees nodes and locks in a browser: {page}"
            ),
            &json!({ "url": url, "page": page }),
        ),
    }
}

/// Takes a lock through an agent that runs.
fn check_running(arguments: &Arguments, config: &Config, format: Format) -> Result<(), Failure> {
    let own_password = config.requirepass.as_ref();
    let agent = arguments.login.agent(login::Sources {
        port: arguments.port,
        unixsocket: arguments.unixsocket.as_deref(),
        own_password: own_password.map(|password| password.as_str()),
        nodes_file: arguments.nodes.nodes_file.as_deref(),
        variable: std::env::var_os(login::VARIABLE),
    })?;
    let tls = TlsFlags::of_environment();
    let tls = arguments.nodes.tls.clone().or(tls).options()?;
    let prefix = arguments.nodes.prefix.as_deref().unwrap_or_default();
    runtime::block_on(check::run(agent, tls, prefix, format))
}

/// Refuses one port for the agent and for its page, where both would listen on 127.0.0.1, the agent perhaps on all addresses: the error
/// of the kernel would name one of them.
fn refuse_one_port_for_both(agent: u16, page: u16, config: &Config) -> Result<(), Failure> {
    let with_page = [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED].map(IpAddr::V4);
    let is_shared = (config.bind.iter()).any(|bind| with_page.contains(&bind.address));
    if agent != page || page == 0 || !is_shared {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--port and --page-port are both {page}, and the agent and its page need a port each; no agent was started"
    ))
    .remedy("give one of them another port, or 0 for any free one; without --port the agent takes 6379"))
}

/// Refuses a list with an agent in it, and one whose nodes say that they belong to different clusters. Nodes that are away hold up the
/// start for a moment only.
async fn refuse_wrong_list(nodes: &Redlock) -> Result<(), Failure> {
    let statuses = tokio::time::timeout(LOOK_MAX, nodes.probe()).await;
    let statuses = statuses.unwrap_or_default();
    let is_agent =
        |status: &&NodeStatus| matches!(status.state, NodeState::DoesNotVote(Cause::Agent));
    if let Some(NodeStatus { node, .. }) = statuses.iter().find(is_agent) {
        let what = format!("{node}: {}; no agent was started", Cause::Agent);
        return Err(Failure::usage(what).remedy(
            "`INFO nodes` on the other agent shows them; --nodes, QUORLOCK_NODES or nodes.conf names them",
        ));
    }
    match quorlock_agent::mixed_clusters(&statuses) {
        None => Ok(()),
        Some(mixed) => Err(Failure::usage(format!("{mixed}; no agent was started")).remedy(
            "name the nodes of one cluster with --nodes, QUORLOCK_NODES or nodes.conf: quorlock status shows to which each belongs",
        )),
    }
}

/// Waits for the agent's end. Meanwhile systemd gets to know that it is ready, and SIGHUP is answered by a line of the log.
async fn serve(
    agent: Node,
    signals: [Signal; 3],
    nodes: &Redlock,
    reread: impl Fn() -> String,
) -> Result<ExitCode, Failure> {
    let mut hangup = signal(SignalKind::hangup()).map_err(Failure::failed)?;
    let report = Report::begin(&agent, Says::EndAlone);
    let mut end = pin!(until_end(agent, signals, None));
    let mut ready = pin!(announce_ready(nodes));
    let mut is_announced = false;
    loop {
        tokio::select! {
            end = &mut end => {
                report.end().await;
                return end;
            }
            () = &mut ready, if !is_announced => is_announced = true,
            _ = hangup.recv() => tracing::warn!("Received SIGHUP: {}", reread()),
        }
    }
}

/// What has become of the list of nodes. The client keeps the nodes it was built with: a lock that callers hold is on these.
fn compared(used: &NodeList, now: Result<NodeList, Failure>) -> String {
    match now {
        // An agent's callers say their ttl.
        Ok(now) if NodeList { ttl: used.ttl, ..now.clone() } == *used => "the list of nodes is the same as before".to_owned(),
        Ok(_) => "what names the nodes, a login, TLS, the prefix or the counting of votes has changed. A running agent keeps the list that it was started \
                  with: restart it, and all agents of these nodes at the same time if nodes were replaced. Locks that are held stay on \
                  their nodes until they are released or their ttl is over"
            .to_owned(),
        Err(failure) => {
            let Failure { what, remedy, .. } = failure;
            let remedy = remedy.lines().next().unwrap_or_default();
            format!("{what}. The agent goes on with the nodes it was started with, and would not start again. {remedy}")
        }
    }
}

type Opened = (Vec<TcpListener>, Option<UnixListener>);

/// The sockets that systemd has opened for this process, if it has.
fn opened() -> Result<Option<Opened>, Failure> {
    let mut handed = ListenFd::from_env();
    let (mut listeners, mut sockets) = (Vec::new(), Vec::new());
    for number in 0..handed.len() {
        if let Ok(Some(listener)) = handed.take_tcp_listener(number) {
            listeners.push(listener);
            continue;
        }
        match handed.take_unix_listener(number) {
            Ok(Some(socket)) => sockets.push(socket),
            _ => {
                return Err(Failure::usage(format!(
                    "socket {} of those that systemd has opened for the agent is no listening TCP or Unix socket",
                    number + 1
                ))
                .remedy("name them in the socket unit with ListenStream="));
            }
        }
    }
    if sockets.len() > 1 {
        return Err(Failure::usage(
            "systemd has opened several Unix sockets, and an agent listens on one",
        )
        .remedy("start an agent for each, or leave one ListenStream= in the socket unit"));
    }
    let socket = sockets.pop();
    let is_any = socket.is_some() || !listeners.is_empty();
    Ok(is_any.then_some((listeners, socket)))
}

/// Tells systemd that the agent is ready, once enough nodes can vote. Until then it answers, with `-NOQUORUM`.
async fn announce_ready(nodes: &Redlock) {
    if !supervision::is_notified() {
        return;
    }
    let needed = nodes.quorum();
    loop {
        let statuses = nodes.probe().await;
        let voting = statuses.iter().filter(|status| status.votes()).count();
        let count = statuses.len();
        let undecided = quorlock_agent::undecided_clusters(&statuses);
        if let Some(undecided) = undecided {
            supervision::notify_status(&format!("not ready: {undecided}"));
            tokio::time::sleep(PROBE_PAUSE).await;
            continue;
        }
        if voting >= needed {
            supervision::notify_status(&format!(
                "{voting} of {count} nodes could vote at the start"
            ));
            supervision::notify_ready();
            return;
        }
        supervision::notify_status(&format!(
            "waiting for nodes: {voting} of {count} can vote, and {needed} must"
        ));
        tokio::time::sleep(PROBE_PAUSE).await;
    }
}

/// What was said of a node that an agent is not by itself.
fn changed(config: &Config) -> Result<Vec<(&'static str, Vec<String>)>, Failure> {
    let default = Config::default();
    let differs = |name: &&str| config.value_of(name) != default.value_of(name);
    let mut changed = Vec::new();
    if config.has_user_lines() {
        return Err(Failure::usage(
            "an agent takes no user lines behind --: its users would not exist, and everybody could take every lock. Write \
             them into a file for --aclfile",
        ));
    }
    for name in config.names().filter(differs) {
        if NOT_OF_AGENTS.contains(&name) {
            return Err(Failure::usage(format!(
                "an agent has no --{name} behind --: it keeps nothing, and its port is named before --"
            )));
        }
        let value = config.value_of(name).unwrap_or_default();
        changed.push((name, words(value.as_bytes()).map_err(Failure::usage)?));
    }
    Ok(changed)
}

/// What an agent is told, after what it is unless it is told otherwise: what its node logs of its own life says nothing of locks.
fn directives(given: Vec<OsString>) -> Vec<OsString> {
    let names_file = given
        .first()
        .is_some_and(|first| !first.as_encoded_bytes().starts_with(b"--"));
    if names_file {
        return given;
    }
    let quiet = ["--loglevel", "warning"].map(OsString::from);
    quiet.into_iter().chain(given).collect()
}

/// How long a try may be held back: clients that wait for an answer give up some time.
fn hold_back(text: &str) -> Result<Duration, String> {
    let time = duration::parse(text)?;
    match time <= HOLD_BACK_MAX {
        true => Ok(time),
        false => Err(format!(
            "'{text}' is too long: clients that get no answer for more than a second give up"
        )),
    }
}

/// How long a start waits for nodes to say to which cluster they belong.
const LOOK_MAX: Duration = Duration::from_secs(2);
const HOLD_BACK_MAX: Duration = Duration::from_secs(1);

/// Between two looks at nodes of which too few can vote.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
const PORT: u16 = 6379;
/// As it is called where it has too many clusters.
const AGENT: &str = "an agent";
const NOT_OF_AGENTS: [&str; 4] = ["appendfsync", "appendonly", "dir", "port"];

const EXAMPLES: &str = "\
A lock library that knows one Redis gets its locks on a majority of the nodes: set its URL to the agent's.

  quorlock cluster up                     five nodes on this machine
  quorlock agent --port 6380              beside them, until Ctrl-C
  redis-cli -p 6380 set job me nx px 9000 what redis-py, redislock, Laravel, ... send
  quorlock agent --check --port 6380      whether it works: a lock is taken through it";
