//! etcd: a raft group of one or three members as processes, and a caller of its lock API.
//!
//! The API is asked over its gateway, JSON over HTTP: the same server code as over gRPC, with a little more to parse. A
//! caller has one lease for all of its locks, as etcd's own clients have, and renews it long before its end.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::http::Http;
use crate::engine::EngineError;
use crate::engine::process::{Process, last_words};
use crate::engine::real::{Launcher, ports};

/// etcd as it is on this machine.
#[derive(Clone)]
pub struct Etcd {
    /// How a member's process is started; arguments are added.
    pub launcher: Launcher,
    /// Its version.
    pub version: String,
}

/// A raft group.
pub(super) struct EtcdCluster {
    etcd: Etcd,
    directory: PathBuf,
    members: Vec<EtcdMember>,
    initial: String,
}

struct EtcdMember {
    name: String,
    clients: u16,
    peers: u16,
    process: Option<Process>,
}

impl EtcdCluster {
    /// Starts so many members, and waits until they have a leader.
    pub(super) async fn start(
        etcd: &Etcd,
        count: u8,
        directory: &Path,
    ) -> Result<EtcdCluster, EngineError> {
        let ports = ports::free(usize::from(count) * 2).map_err(failed)?;
        let pairs = ports.chunks(2).zip(1..);
        let members: Vec<EtcdMember> = pairs
            .map(|(ports, number)| EtcdMember {
                name: format!("member-{number}"),
                clients: ports[0],
                peers: ports[1],
                process: None,
            })
            .collect();
        let names = members
            .iter()
            .map(|member| format!("{}={}", member.name, url(member.peers)));
        let mut cluster = EtcdCluster {
            etcd: etcd.clone(),
            directory: directory.to_owned(),
            initial: names.collect::<Vec<_>>().join(","),
            members,
        };
        for index in 0..cluster.members.len() {
            cluster.start_member(index)?;
        }
        for index in 0..cluster.members.len() {
            cluster.await_leader(index).await?;
        }
        Ok(cluster)
    }

    fn start_member(&mut self, index: usize) -> Result<(), EngineError> {
        let member = &mut self.members[index];
        let mut command = (self.etcd.launcher)(None);
        for (name, _) in std::env::vars_os() {
            // Its settings may come from there as well.
            if name.to_string_lossy().starts_with("ETCD_") {
                command.env_remove(name);
            }
        }
        if cfg!(target_arch = "aarch64") {
            // Without it, etcd before 3.5 does not start there.
            command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
        }
        let (clients, peers) = (url(member.clients), url(member.peers));
        command
            .args(["--name", &member.name, "--data-dir"])
            .arg(self.directory.join(&member.name))
            .args(["--listen-client-urls", &clients])
            .args(["--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers])
            .args(["--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &self.initial])
            .args(["--initial-cluster-state", "new"])
            .args(["--logger", "zap", "--log-level", "warn"]);
        let process = Process::start(command, Stdio::null(), &log_of(&self.directory, member));
        member.process = Some(process.map_err(failed)?);
        Ok(())
    }

    async fn await_leader(&mut self, index: usize) -> Result<(), EngineError> {
        let give_up = Instant::now() + START_MAX;
        let member = &mut self.members[index];
        loop {
            // A lease is granted by a majority.
            if grant(member.clients).await.is_ok() {
                return Ok(());
            }
            let process = member.process.as_mut();
            let ended = process.is_none_or(Process::has_ended);
            if ended || Instant::now() > give_up {
                return Err(EngineError::Failed(format!(
                    "etcd {} {}. The end of its log:\n{}",
                    member.name,
                    match ended {
                        true => "ended when it started",
                        false => "does not grant leases",
                    },
                    last_words(&log_of(&self.directory, member))
                )));
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.clients).collect()
    }

    /// `kill -9` of the leader, which starts again at once.
    pub(super) async fn strike(&mut self) -> Result<(), EngineError> {
        let mut leader = 0;
        for index in 0..self.members.len() {
            let mut http = Http::connect(self.members[index].clients)
                .await
                .map_err(failed)?;
            let status = http.post("/v3/maintenance/status", &json!({})).await;
            let status = status.map_err(failed)?;
            if status["leader"] == status["header"]["member_id"] {
                leader = index;
            }
        }
        // Dropping the process kills it.
        self.members[leader].process = None;
        self.start_member(leader)
    }
}

/// A caller of one member at a time: of the next where one does not answer.
pub(super) struct EtcdCaller {
    ports: Vec<u16>,
    at: usize,
    http: Option<Http>,
    lease: Option<EtcdLease>,
}

struct EtcdLease {
    id: String,
    ttl: Duration,
    granted: Instant,
}

impl EtcdCaller {
    /// A caller that begins with this of the members.
    pub(super) fn new(ports: &[u16], at: usize) -> EtcdCaller {
        EtcdCaller {
            ports: ports.to_vec(),
            at,
            http: None,
            lease: None,
        }
    }

    /// Asks for a lock, and waits for it so long. The key of the lock, and when its lease is over at the earliest.
    pub(super) async fn acquire(
        &mut self,
        name: &str,
        ttl: Duration,
        wait: Duration,
    ) -> io::Result<Option<(String, Instant)>> {
        let asked = async {
            let (lease, valid_until) = self.lease(ttl).await?;
            let body = json!({"name": BASE64.encode(name), "lease": lease});
            let answer = self.post("/v3/lock/lock", &body).await?;
            Ok((text(&answer, "key")?, valid_until))
        };
        match timeout(wait.max(LOOK_AGAIN), asked).await {
            Ok(answer) => answer.map(Some),
            Err(_) => {
                // It still asks: without the connection it does not.
                self.http = None;
                Ok(None)
            }
        }
    }

    /// Gives the lock of this key back.
    pub(super) async fn release(&mut self, key: &str) -> io::Result<()> {
        let body = json!({"key": key});
        let answer = timeout(ANSWER_MAX, self.post("/v3/lock/unlock", &body)).await;
        answer.map_err(io::Error::from)?.map(drop)
    }

    async fn lease(&mut self, ttl: Duration) -> io::Result<(String, Instant)> {
        if let Some(lease) = &self.lease
            && lease.ttl == ttl
            && lease.granted.elapsed() < ttl / 2
        {
            return Ok((lease.id.clone(), lease.granted + ttl));
        }
        let granted = Instant::now();
        let body = json!({"TTL": ttl.as_secs().max(1)});
        let answer = self.post("/v3/lease/grant", &body).await?;
        let id = text(&answer, "ID")?;
        self.lease = Some(EtcdLease {
            id: id.clone(),
            ttl,
            granted,
        });
        Ok((id, granted + ttl))
    }

    async fn post(&mut self, path: &str, body: &Value) -> io::Result<Value> {
        let port = self.ports[self.at % self.ports.len()];
        let mut http = match self.http.take() {
            Some(http) => http,
            None => match Http::connect(port).await {
                Ok(http) => http,
                Err(error) => {
                    self.at += 1;
                    return Err(error);
                }
            },
        };
        let answer = http.post(path, body).await;
        match &answer {
            Ok(_) => self.http = Some(http),
            Err(_) => {
                self.at += 1;
                self.lease = None;
            }
        }
        answer
    }
}

async fn grant(port: u16) -> io::Result<()> {
    let asked = async {
        let mut http = Http::connect(port).await?;
        http.post("/v3/lease/grant", &json!({"TTL": 1})).await
    };
    timeout(ANSWER_MAX, asked).await?.map(drop)
}

fn text(answer: &Value, field: &str) -> io::Result<String> {
    let value = answer[field].as_str().map(str::to_owned);
    value.ok_or_else(|| io::Error::other(format!("an answer of etcd has no {field}")))
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn log_of(directory: &Path, member: &EtcdMember) -> PathBuf {
    directory.join(format!("{}.log", member.name))
}

pub(super) fn failed(error: io::Error) -> EngineError {
    EngineError::failed(format_args!("etcd: {error}"))
}

const START_MAX: Duration = Duration::from_secs(20);
const ANSWER_MAX: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
