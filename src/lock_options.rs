//! The flags that all lock commands share, and their way to a client.

use std::time::Duration;

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use quorlock_client::{Redlock, Release, Token, VotesBy, Wait};
use quorlock_server::show_duration;

use crate::clusters::{Clusters, NodeList};
use crate::duration;
use crate::exit_code::Failure;
use crate::lock_variables::PREFIX;
use crate::nodes;
use crate::output::remark;
use crate::tls_options::TlsFlags;

/// Which nodes hold the lock.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct NodeOptions {
    /// The nodes, host:port or redis://..., separated by commas (default: QUORLOCK_NODES, .quorlock/current, nodes.conf)
    ///
    /// Several clusters share out the names of locks: 'east=a,b,c;west=d,e,f'.
    /// Put passwords into the variable QUORLOCK_NODES and not here: others on this machine can
    /// read a command line.
    #[arg(
        long,
        alias = "endpoints",
        value_name = "NODE,...",
        value_delimiter = ','
    )]
    pub(crate) nodes: Vec<String>,
    /// A file that names the nodes, such as /etc/quorlock/nodes.conf
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub(crate) nodes_file: Option<PathBuf>,
    /// Count votes by address, for servers that hide or zero their run_id (proxies, managed services)
    ///
    /// It is then yours to know that no two of these addresses lead to one server: one that votes twice lets two
    /// clients hold a lock at once.
    #[arg(long)]
    pub(crate) votes_by_address: bool,
    /// What the names of locks begin with on the nodes, before those that are said here
    ///
    /// For several teams that share nodes. Whoever is to exclude each other says the same prefix. Or QUORLOCK_PREFIX, which
    /// run hands to its command; an empty text is no prefix.
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    #[command(flatten)]
    pub(crate) tls: TlsFlags,
}

/// How long a lock lasts.
#[derive(Debug, clap::Args)]
pub(crate) struct TtlOptions {
    /// Length of the lease (default: 30s, unless nodes.conf says otherwise); what renews a lock does so at a third of it, and
    /// the lock is free again this long after its holder died
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse_ttl)]
    ttl: Option<Duration>,
}

impl TtlOptions {
    /// As it is said here, else in the file of the nodes.
    pub(crate) fn of(&self, list: &NodeList) -> Duration {
        self.ttl.or(list.ttl).unwrap_or(Duration::from_secs(30))
    }
}

/// How many of the nodes must agree.
#[derive(Debug, clap::Args)]
pub(crate) struct VoteOptions {
    /// Nodes that must agree besides a majority: so many may forget the lock at once and nothing happens
    ///
    /// As many nodes fewer may be away. 0, unless nodes.conf says otherwise.
    #[arg(long, value_name = "COUNT")]
    pub(crate) spare_votes: Option<usize>,
}

impl NodeOptions {
    /// The clusters, and how the votes of their nodes are counted, as the first source says that names any: one as a rule.
    pub(crate) fn clusters(&self) -> Result<Clusters, Failure> {
        let mut clusters = nodes::resolve(&self.nodes, self.nodes_file.as_deref())?;
        let variable = std::env::var_os(PREFIX).map(|value| {
            let wrong = |_| Failure::usage(format!("{PREFIX} is not UTF-8; nothing was sent"));
            value.into_string().map_err(wrong)
        });
        if let Some(prefix) = self.prefix.clone().map(Ok).or(variable) {
            clusters.set_prefix(&prefix?);
        }
        let bytes = clusters.prefix().len();
        if bytes > PREFIX_BYTES_MAX {
            return Err(Failure::usage(format!(
                "the prefix of names has {bytes} bytes, and {PREFIX_BYTES_MAX} at most; nothing was sent"
            )));
        }
        Ok(clusters)
    }

    /// The addresses of these nodes, and how TLS is spoken with them.
    pub(crate) fn with_tls(&self, list: &NodeList) -> (Vec<String>, TlsFlags) {
        let tls = self.tls.clone().or(list.tls.clone());
        let nodes = list.nodes.iter().cloned();
        (nodes.map(|node| tls.applied_to(node)).collect(), tls)
    }

    /// A client for these nodes, of which so many must agree besides a majority: as the file of the nodes says where no
    /// number is given.
    pub(crate) fn client_of(
        &self,
        list: NodeList,
        spare_votes: Option<usize>,
    ) -> Result<Redlock, Failure> {
        let votes_by = if self.votes_by_address || list.votes_by_address {
            VotesBy::Address
        } else {
            VotesBy::Identity
        };
        let (nodes, tls) = self.with_tls(&list);
        tls.remark_on_plain(&nodes);
        Redlock::builder()
            .accept_failover()
            .nodes(nodes)
            .tls(tls.options()?)
            .votes_by(votes_by)
            .prefix(&list.prefix)
            .spare_votes(spare_votes.unwrap_or(list.spare_votes))
            .build()
            .map_err(Failure::usage)
    }

    /// A client that acquires locks on these nodes. Where one of them fails over, it says what that may cost, unless it is quiet.
    pub(crate) fn lock_client(
        &self,
        list: NodeList,
        votes: &VoteOptions,
        is_quiet: bool,
    ) -> Result<Redlock, Failure> {
        let redlock = self.client_of(list, votes.spare_votes)?;
        let of = |word: &str| redlock.nodes().iter().any(|node| node.contains(word));
        for (scheme, system) in [
            ("+sentinel://", "Sentinel"),
            ("-cluster://", "Redis Cluster"),
        ] {
            if !is_quiet && of(scheme) {
                remark(format_args!(
                    "a failover of {system} may lose a lock, which then has two holders; independent nodes lose none",
                ));
            }
        }
        Ok(redlock)
    }
}

/// How much is said beside the result.
#[derive(Debug, clap::Args)]
pub(crate) struct SpeechOptions {
    /// Say nothing but the result and what went wrong: not who holds a lock that is waited for
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more: until when the lock is held, and on which nodes it is left after a release
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

impl SpeechOptions {
    /// Says what was taken, where that is asked for.
    pub(crate) fn remark_on_lock(&self, name: &OsStr, remaining: Duration, nodes: usize) {
        if self.verbose {
            remark(format_args!(
                "'{}' is held for another {} by a majority of {nodes} nodes, unless it is extended",
                name.display(),
                show_duration(remaining)
            ));
        }
    }
}

/// How long to wait for a lock that somebody else holds.
#[derive(Debug, clap::Args)]
pub(crate) struct WaitOptions {
    /// Give up after this time (default: wait without end)
    #[arg(long, short = 'w', alias = "timeout", value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// Do not wait at all: end with 75 if the lock is busy
    #[arg(long, short = 'n', aliases = ["nonblock", "nb", "try"], conflicts_with = "wait")]
    pub(crate) no_wait: bool,
}

impl WaitOptions {
    pub(crate) fn wait(&self) -> Wait {
        match (self.no_wait, self.wait) {
            (true, _) | (false, Some(Duration::ZERO)) => Wait::None,
            (false, Some(time)) => Wait::For(time),
            (false, None) => Wait::Forever,
        }
    }
}

/// The token that an argument names: itself, or with `-` the first line of standard input, which
/// others on this machine cannot read as they can a command line.
pub(crate) fn token(argument: &OsStr) -> Result<Token, Failure> {
    let bytes = if argument == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .take(TOKEN_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|error| {
                Failure::usage(format!(
                    "cannot read the token from standard input: {error}"
                ))
            })?;
        let line = bytes.split(|byte| *byte == b'\n').next();
        line.unwrap_or_default().trim_ascii().to_vec()
    } else {
        argument.as_bytes().to_vec()
    };
    if bytes.is_empty() {
        return Err(
            Failure::usage("the token of the lock is empty; nothing was sent")
                .remedy("the token is what quorlock acquire has printed"),
        );
    }
    Ok(Token::from_bytes(bytes))
}

/// Gives the client a moment to release what it took on single nodes, before the process ends.
/// What cannot be released ends with its lease.
pub(crate) async fn settle(redlock: &Redlock) {
    settle_within(redlock, SETTLE_TIME).await;
}

/// The same after a release. Once a majority has confirmed it the rest has been sent, and a node that
/// hangs will read it when it goes on.
pub(crate) async fn settle_released(redlock: &Redlock, release: &Release) {
    let time = match release.is_free() {
        true => SETTLE_TIME_RELEASED,
        false => SETTLE_TIME,
    };
    settle_within(redlock, time).await;
}

async fn settle_within(redlock: &Redlock, time: Duration) {
    let _leases_end_by_themselves = tokio::time::timeout(time, redlock.settle()).await;
}

/// As in the client.
const PREFIX_BYTES_MAX: usize = 256;
const TOKEN_BYTES_MAX: u64 = 64 * 1024;
const SETTLE_TIME: Duration = Duration::from_secs(1);
const SETTLE_TIME_RELEASED: Duration = Duration::from_millis(50);
