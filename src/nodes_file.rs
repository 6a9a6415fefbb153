//! The file that names the nodes for every program of a machine: `nodes.conf`.
//!
//! One directive per line, as in a node's configuration. Whoever reads a password in it can take and release every lock,
//! and whoever writes it decides where locks are taken: so it is refused where others may do that.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use quorlock_server::config::{self, Config};

use crate::clusters::{Clusters, Groups, NodeList, is_name};
use crate::duration;
use crate::exit_code::{Failure, NO_INPUT};
use crate::tls_options::TlsFlags;

/// What its lines say, before addresses and login are put together.
#[derive(Default)]
struct Lines {
    file: NodeList,
    groups: Groups,
    user: Option<String>,
    password_file: Option<PathBuf>,
    agent_user: Option<String>,
    agent_password_file: Option<PathBuf>,
}

/// Who logs in to agents of this machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AgentLogin {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
    /// The file that says so.
    pub(crate) source: PathBuf,
}

/// The user's file if there is one, else the machine's, else none.
pub(crate) fn of_machine() -> Result<Option<Clusters>, Failure> {
    path_of_machine().map(|path| read(&path)).transpose()
}

fn path_of_machine() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(Path::new(&variable("HOME")?).join(".config")));
    let own = config.map(|folder| folder.join(NAME));
    let mut all = own.into_iter().chain([Path::new("/etc").join(NAME)]);
    all.find(|path| {
        // A link that leads nowhere was meant to name nodes.
        let is_absent = fs::symlink_metadata(path).is_err_and(|error| {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        });
        !is_absent
    })
}

/// Who logs in to agents, as this file says, or else the user's or the machine's own. One of those that this user cannot read says
/// nothing.
///
/// # Errors
/// When a file cannot be read that was named, or is wrong.
pub(crate) fn agent_login(file: Option<&Path>) -> Result<Option<AgentLogin>, Failure> {
    let is_readable = |path: &PathBuf| require_file(path).is_ok() && File::open(path).is_ok();
    let path = match file {
        Some(file) => Some(file.to_owned()),
        None => path_of_machine().filter(is_readable),
    };
    let Some(source) = path else {
        return Ok(None);
    };
    let (text, _) = text_of(&source)?;
    let lines = Lines::parse(&source, &text)?;
    match (lines.agent_user, lines.agent_password_file) {
        (Some(_), None) => {
            let what = format!(
                "{} names an agent-user and no agent-password-file",
                source.display()
            );
            Err(Failure::usage(what).remedy("name both"))
        }
        (_, None) => Ok(None),
        (user, Some(file)) => {
            let password = password(&file)?;
            Ok(Some(AgentLogin {
                user,
                password,
                source,
            }))
        }
    }
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read, says something else than nodes, or is not safe from other users.
pub(crate) fn read(path: &Path) -> Result<Clusters, Failure> {
    let shown = path.display();
    let (text, mode) = text_of(path)?;
    let mut lines = Lines::parse(path, &text)?;
    let mut groups = std::mem::take(&mut lines.groups);
    let mut nodes = groups.clusters.iter().flat_map(|(_, nodes)| nodes);
    let has_password = nodes.any(|node| has_login(node));
    if has_password && mode & 0o004 != 0 {
        return Err(public(path));
    }
    if lines.user.is_some() && lines.password_file.is_none() {
        let what = format!("{shown} names a user and no password-file");
        return Err(Failure::usage(what).remedy("name both, or write the login into the addresses"));
    }
    let password_file = lines.password_file.as_ref();
    if let Some(password) = password_file.map(|file| password(file)).transpose()? {
        for node in groups.clusters.iter_mut().flat_map(|(_, nodes)| nodes) {
            *node = with_login(node, lines.user.as_deref(), &password);
        }
    }
    let list = NodeList {
        tls: TlsFlags::of_environment().or(lines.file.tls),
        ..lines.file
    };
    let clusters = Clusters::of(&list, groups).map_err(|failure| {
        let what = format!("{shown}: {}", failure.what);
        Failure::usage(what).remedy("each cluster: cluster NAME, and a line for each of its nodes")
    })?;
    clusters.ok_or_else(|| {
        let what = format!("{shown} names no node");
        Failure::usage(what).remedy("add a line for each: node db1:7001")
    })
}

/// What a file says that is safe from other users, and who may do what with it.
fn text_of(path: &Path) -> Result<(Vec<u8>, u32), Failure> {
    let shown = path.display();
    let unreadable = |error| Failure::new(NO_INPUT, format!("cannot read {shown}: {error}"));
    require_file(path)?;
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & 0o002 != 0 {
        let what = format!(
            "every user of this machine can write {shown}, and with it decide where locks are taken"
        );
        return Err(Failure::usage(what).remedy(format!("chmod o-w {shown}")));
    }
    let mut text = Vec::new();
    let read = file.take(BYTES_MAX + 1).read_to_end(&mut text);
    read.map_err(unreadable)?;
    if text.len() as u64 > BYTES_MAX {
        let what = format!("{shown} has more than {} KiB", BYTES_MAX / 1024);
        return Err(Failure::usage(what));
    }
    Ok((text, mode))
}

impl Lines {
    fn parse(path: &Path, text: &[u8]) -> Result<Lines, Failure> {
        let mut lines = Lines::default();
        let mut set_in: HashMap<String, u32> = HashMap::new();
        for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let refuse = |why: String| {
                Failure::usage(format!("{}, line {number}: {why}", path.display()))
                    .remedy(format!("the directives are: {}", DIRECTIVES.join(", ")))
            };
            let words = config::words(line).map_err(|problem| refuse(problem.to_string()))?;
            let [name, value] = &words[..] else {
                return Err(refuse(
                    "a line has the name of a directive and one value".to_owned(),
                ));
            };
            let is_repeated = REPEATED.contains(&name.as_str());
            if let Some(before) = set_in.insert(name.clone(), number).filter(|_| !is_repeated) {
                return Err(refuse(format!("'{name}' was set in line {before} already")));
            }
            // A job of cron starts in another folder.
            let folder = path.parent().unwrap_or(Path::new(""));
            match name.as_str() {
                "password-file" => lines.password_file = Some(folder.join(value)),
                "agent-password-file" => lines.agent_password_file = Some(folder.join(value)),
                _ => {
                    let is_of_tls = lines.file.tls.set(folder, name, value);
                    if !is_of_tls.map_err(refuse)? {
                        lines.set(name, value).map_err(refuse)?;
                    }
                }
            }
        }
        Ok(lines)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value) {
            ("node", _) => {
                let node = crate::node_address::complete(value.to_owned());
                let node = node.map_err(|failure| failure.what)?;
                match self.groups.clusters.last_mut() {
                    Some((_, nodes)) => nodes.push(node),
                    None => self.groups.clusters.push((None, vec![node])),
                }
            }
            ("cluster", name) if is_name(name) => {
                self.groups
                    .clusters
                    .push((Some(name.to_owned()), Vec::new()));
            }
            ("next-clusters", names) => {
                let names = names.split(',').map(|name| name.trim().to_owned());
                self.groups.next = Some(names.collect());
            }
            ("cluster", _) => {
                return Err("a cluster's name has letters, digits, '.', '_' and '-'".to_owned());
            }
            ("user", _) => self.user = Some(value.to_owned()),
            ("agent-user", _) => self.agent_user = Some(value.to_owned()),
            ("votes-by-address", "yes") => self.file.votes_by_address = true,
            ("votes-by-address", "no") => self.file.votes_by_address = false,
            ("votes-by-address", _) => return Err("the value is yes or no".to_owned()),
            ("spare-votes", _) => {
                let votes = value.parse();
                self.file.spare_votes = votes.map_err(|_| "the value is a number".to_owned())?;
            }
            ("prefix", _) => self.file.prefix = value.to_owned(),
            ("ttl", _) => self.file.ttl = Some(duration::parse_ttl(value)?),
            // It may be an address with its password.
            _ if name.contains(['@', ':']) => {
                return Err("the line begins with no directive of this file".to_owned());
            }
            _ => return Err(format!("'{name}' is no directive of this file")),
        }
        Ok(())
    }
}

/// The address with this user and password, unless it has its own.
pub(crate) fn with_login(address: &str, user: Option<&str>, password: &str) -> String {
    match address.split_once("://") {
        Some((scheme, rest)) if !has_login(address) => {
            let user = user.map(encoded).unwrap_or_default();
            format!("{scheme}://{user}:{}@{rest}", encoded(password))
        }
        _ => address.to_owned(),
    }
}

/// Whether an address has a login of its own. The path of a socket may have an '@' as well.
pub(crate) fn has_login(node: &str) -> bool {
    let login = node.split_once("://").and_then(|(scheme, rest)| {
        let is_socket = scheme.ends_with("unix");
        rest.split_once('@')
            .filter(|(login, _)| !is_socket || !login.contains('/'))
    });
    login.is_some()
}

/// Nothing that is read for ever, such as a pipe.
fn require_file(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path) {
        Ok(about) if about.is_file() => Ok(()),
        Ok(_) => Err(Failure::new(
            NO_INPUT,
            format!("cannot read {}: it is no file", path.display()),
        )),
        Err(error) => Err(Failure::new(
            NO_INPUT,
            format!("cannot read {}: {error}", path.display()),
        )),
    }
}

/// The only line of a file, read as a node reads its own.
pub(crate) fn password(path: &Path) -> Result<String, Failure> {
    require_file(path)?;
    let mut config = Config::default();
    let name = path.to_string_lossy();
    let problem = |problem: config::Problem| {
        Failure::usage(format!("password-file {}: {problem}", path.display()))
    };
    config.set("requirepass-file", &[name]).map_err(problem)?;
    config::read_password_file(&mut config).map_err(problem)?;
    if !config.notices().is_empty() {
        return Err(public(path));
    }
    let password = config.requirepass.as_ref();
    Ok(password.map_or_else(String::new, |password| password.as_str().to_owned()))
}

fn public(path: &Path) -> Failure {
    let shown = path.display();
    Failure::usage(format!(
        "{shown} holds a password that every user of this machine can read, and with it take or release every lock"
    ))
    .remedy(format!("chmod o-r {shown}"))
}

/// Percent encoding, as addresses have it.
fn encoded(text: &str) -> String {
    let mut url = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                url.push(char::from(byte));
            }
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

const NAME: &str = "quorlock/nodes.conf";
const BYTES_MAX: u64 = 64 << 10;
/// Those that several lines may have.
const REPEATED: [&str; 2] = ["node", "cluster"];
const DIRECTIVES: [&str; 16] = [
    "node",
    "cluster",
    "next-clusters",
    "prefix",
    "ttl",
    "user",
    "password-file",
    "agent-user",
    "agent-password-file",
    "votes-by-address",
    "spare-votes",
    "tls",
    "cacert",
    "cert",
    "key",
    "sni",
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn file(mode: u32, text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("nodes.conf");
        fs::write(&path, text).expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        (folder, path)
    }

    fn read_one(path: &Path) -> Result<NodeList, Failure> {
        read(path)?.only("a test")
    }

    #[test]
    fn a_file_names_several_clusters_and_those_of_the_next_list() {
        let text = "cluster east\nnode db1:7001\nnode db2:7001\nttl 9s\ncluster west\nnode db3:7001\n\
                    next-clusters east,north";
        let (_folder, path) = file(0o644, text);
        let clusters = read(&path).expect("it is good");
        let named = |list: &NodeList| (list.cluster.clone(), list.nodes.len(), list.ttl);
        let ttl = Some(Duration::from_secs(9));
        let all: Vec<_> = clusters.all().iter().map(named).collect();
        assert_eq!(
            all,
            [(Some("east".into()), 2, ttl), (Some("west".into()), 1, ttl)]
        );
        assert!(clusters.are_changing());
        for (text, part) in [
            (
                "node db1:7001\ncluster east\nnode db2:7001",
                "some have none",
            ),
            ("cluster east\n", "cluster 'east' names no node"),
            ("cluster a;b\n", "line 1: a cluster's name has letters"),
            ("node db1:7001\nnext-clusters a", "have no names"),
        ] {
            let (_folder, path) = file(0o644, text);
            let failure = read(&path).expect_err(text);
            assert!(failure.what.contains(part), "{text:?}: {}", failure.what);
            assert!(failure.what.contains("nodes.conf"), "{}", failure.what);
        }
    }

    #[test]
    fn nodes_get_the_login_of_the_file_unless_they_have_their_own() {
        let (folder, path) = file(0o600, "");
        let secret = folder.path().join("secret");
        fs::write(&secret, "p@ss/word\n").expect("it is written");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let text = format!(
            "# all of them\nnode db1:7001\n\nnode redis://a:b@db2:7001\nnode /run/node.sock\n\
             user locks\npassword-file \"{}\"\nspare-votes 1\nvotes-by-address yes\n",
            secret.display()
        );
        fs::write(&path, text).expect("it is written");
        let read = read_one(&path).expect("a file of nodes");
        assert_eq!(
            read.nodes,
            [
                "redis://locks:p%40ss%2Fword@db1:7001",
                "redis://a:b@db2:7001",
                "unix://locks:p%40ss%2Fword@/run/node.sock"
            ]
        );
        assert!(read.votes_by_address && read.spare_votes == 1);
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).expect("it is ours");
        let failure = read_one(&path).expect_err("others can read the password");
        assert!(failure.what.contains("holds a password"), "{failure:?}");
    }

    #[test]
    fn a_wrong_line_is_named_with_the_file_and_its_number() {
        for (text, part) in [
            ("node db1:7001\nport 7", "line 2: 'port' is no directive"),
            ("node", "line 1: a line has the name"),
            ("node a b", "line 1: a line has the name"),
            ("\n\nspare-votes some", "line 3: the value is a number"),
            ("votes-by-address maybe", "line 1: the value is yes or no"),
            ("node 7001", "line 1: '7001' is not a node's address"),
            ("node \"a", "line 1: Unbalanced quotes"),
            ("# nothing", "names no node"),
            ("node a\0b", "line 1: the line contains a NUL byte"),
            (
                "agent-user a\nnode db1:7001\nagent-user b",
                "line 3: 'agent-user' was set in line 1 already",
            ),
            ("tls yes\ntls yes", "line 2: 'tls' was set in line 1"),
        ] {
            let (_folder, path) = file(0o644, text);
            let failure = read_one(&path).expect_err(text);
            assert!(failure.what.contains(part), "{text:?}: {}", failure.what);
            assert!(failure.what.contains("nodes.conf"), "{}", failure.what);
        }
        let (_folder, path) = file(0o644, &"#".repeat(70_000));
        let failure = read_one(&path).expect_err("it is too long");
        assert!(failure.what.contains("64 KiB"), "{}", failure.what);
    }

    #[test]
    fn what_is_no_file_or_half_a_login_is_refused_and_no_password_is_shown() {
        let (folder, path) = file(0o600, "redis://:secret@db1:7001 redis://:secret@db2:7001");
        let failure = read_one(&path).expect_err("no directive");
        assert!(!failure.what.contains("secret"), "{}", failure.what);
        fs::write(&path, "node db1:7001\nuser locks").expect("it is written");
        let failure = read_one(&path).expect_err("half a login");
        assert!(
            failure.what.contains("no password-file"),
            "{}",
            failure.what
        );
        let failure = read_one(folder.path()).expect_err("a folder");
        assert!(failure.what.contains("it is no file"), "{}", failure.what);
        fs::write(&path, "node unix:///run/@x.sock\npassword-file secret").expect("it is written");
        let secret = folder.path().join("secret");
        fs::write(&secret, "pass").expect("it is written");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let read = read_one(&path).expect("beside the file");
        assert_eq!(read.nodes, ["unix://:pass@/run/@x.sock"]);
    }

    #[test]
    fn the_login_to_agents_is_none_of_the_nodes_and_is_read_only_for_them() {
        let (folder, path) = file(0o600, "node db1:7001\nagent-user bob\n");
        let failure = agent_login(Some(&path)).expect_err("half a login");
        assert!(failure.what.contains("no agent-password-file"));
        // What the nodes need may be kept from who checks an agent.
        let text =
            "node db1:7001\npassword-file absent\nagent-user bob\nagent-password-file secret\n";
        fs::write(&path, text).expect("it is written");
        let secret = folder.path().join("secret");
        fs::write(&secret, "p@ss\n").expect("it is written");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let login = agent_login(Some(&path)).expect("it is good").expect("one");
        let said = (login.user.as_deref(), &*login.password, &login.source);
        assert_eq!(said, (Some("bob"), "p@ss", &path));
        fs::write(&path, "node db1:7001\n").expect("it is written");
        assert_eq!(agent_login(Some(&path)).expect("it is good"), None);
        assert_eq!(read_one(&path).expect("nodes").nodes, ["redis://db1:7001"]);
    }

    #[test]
    fn others_may_neither_read_a_password_in_it_nor_write_it() {
        let (_folder, path) = file(0o644, "node redis://:secret@db1:7001");
        let failure = read_one(&path).expect_err("others can read it");
        assert!(!failure.what.contains("secret") && failure.remedy.contains("chmod o-r"));
        let (_folder, path) = file(0o606, "node db1:7001");
        let failure = read_one(&path).expect_err("others can write it");
        assert!(failure.remedy.contains("chmod o-w"));
        let (_folder, path) = file(0o644, "node db1:7001");
        assert!(read_one(&path).is_ok(), "it holds no secret");
        assert_eq!(
            read_one(Path::new("/nonexistent")).map_err(|failure| failure.code),
            Err(NO_INPUT)
        );
    }
}
