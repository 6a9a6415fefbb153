//! Which agent `quorlock agent --check` asks, and who logs in there.
//!
//! The agent is named by `--port` or `--unixsocket`, else by `QUORLOCK_AGENT`, and else has the usual port. Who logs in is said by
//! `--user` and `--password-file`, else by the address in the variable, else by the agent's own password behind `--`, else by a nodes.conf.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::PORT;
use crate::exit_code::Failure;
use crate::node_address::complete;
use crate::nodes_file::{agent_login, has_login, password, with_login};

/// Who logs in to an agent that is checked.
#[derive(Debug, Default, clap::Args)]
pub(super) struct LoginFlags {
    /// The user who logs in for --check
    #[arg(long, value_name = "NAME", requires_all = ["check", "password_file"])]
    user: Option<String>,
    /// A file whose only line is the password with which --check logs in
    #[arg(long, value_name = "FILE", requires = "check")]
    password_file: Option<PathBuf>,
}

/// An agent that is checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CheckedAgent {
    /// Its address, with the login if there is one.
    pub(super) url: String,
    /// Who logs in, and what says so.
    pub(super) login: Option<String>,
}

/// What names the agent and the login, besides the flags.
#[derive(Debug, Default)]
pub(super) struct Sources<'a> {
    pub(super) port: Option<u16>,
    pub(super) unixsocket: Option<&'a Path>,
    /// The agent's own password, as it stands behind `--`.
    pub(super) own_password: Option<&'a str>,
    /// The file of nodes that was named.
    pub(super) nodes_file: Option<&'a Path>,
    pub(super) variable: Option<OsString>,
}

/// The variable that names an agent as lock libraries do.
pub(super) const VARIABLE: &str = "QUORLOCK_AGENT";

impl LoginFlags {
    /// The agent that is checked, and who logs in there.
    pub(super) fn agent(&self, sources: Sources<'_>) -> Result<CheckedAgent, Failure> {
        let is_named = sources.port.is_some() || sources.unixsocket.is_some();
        let variable = sources.variable.filter(|value| !value.is_empty());
        let address = match variable.filter(|_| !is_named) {
            Some(value) => of_variable(value)?,
            None => address(sources.port.unwrap_or(PORT), sources.unixsocket)?,
        };
        let shown = |user: &Option<String>| match user {
            Some(user) => format!("the user '{user}'"),
            None => "the default user".to_owned(),
        };
        let (user, password, source) = match &self.password_file {
            Some(_) if has_login(&address) => {
                return Err(Failure::usage(format!(
                    "{VARIABLE} has a login, and --password-file names another one"
                ))
                .remedy("leave one of them out"));
            }
            Some(file) => {
                let source = "--password-file".to_owned();
                (self.user.clone(), password(file)?, source)
            }
            None if has_login(&address) => {
                let login = Some(format!("the user of {VARIABLE}"));
                let url = address;
                return Ok(CheckedAgent { url, login });
            }
            None => match (sources.own_password, agent_login(sources.nodes_file)) {
                (Some(password), _) => (None, password.to_owned(), "--requirepass".to_owned()),
                (None, login) => match login? {
                    Some(login) => {
                        let source = login.source.display().to_string();
                        (login.user, login.password, source)
                    }
                    None => {
                        let (url, login) = (address, None);
                        return Ok(CheckedAgent { url, login });
                    }
                },
            },
        };
        Ok(CheckedAgent {
            url: with_login(&address, user.as_deref(), &password),
            login: Some(format!("{} of {source}", shown(&user))),
        })
    }
}

fn of_variable(value: OsString) -> Result<String, Failure> {
    // It may hold a password.
    let no_text = |_| Failure::usage(format!("{VARIABLE} is not UTF-8; nothing was sent"));
    complete(value.into_string().map_err(no_text)?)
}

/// The address of an agent of this machine.
fn address(port: u16, unixsocket: Option<&Path>) -> Result<String, Failure> {
    match unixsocket {
        Some(path) => {
            let path = path.to_str().filter(|path| path.starts_with('/'));
            let path = path.ok_or_else(|| {
                Failure::usage("--check needs the whole path of the socket, in UTF-8")
            })?;
            Ok(format!("unix://{path}"))
        }
        None if port == 0 => Err(Failure::usage(
            "--check asks an agent that runs, and 0 is no port of one",
        )
        .remedy("name the agent's port with --port, or its socket with --unixsocket")),
        None => Ok(format!("redis://127.0.0.1:{port}")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Without a nodes.conf of this machine.
    fn named<'a>(file: &'a Path, port: Option<u16>, variable: &str) -> Sources<'a> {
        Sources {
            port,
            nodes_file: Some(file),
            variable: Some(OsString::from(variable)),
            ..Sources::default()
        }
    }

    #[test]
    fn an_agent_is_found_by_its_port_its_socket_or_the_variable() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("nodes.conf");
        fs::write(&file, "node db1:7001").expect("it is written");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("it is ours");
        let url = |sources| {
            let agent = LoginFlags::default().agent(sources);
            agent.map(|agent| agent.url).map_err(|failure| failure.what)
        };
        let of_socket = |path| Sources {
            unixsocket: Some(Path::new(path)),
            ..named(&file, Some(1), "")
        };
        let found = |sources| url(sources).expect("it is good");
        assert_eq!(found(named(&file, None, "")), "redis://127.0.0.1:6379");
        assert_eq!(found(of_socket("/run/a.sock")), "unix:///run/a.sock");
        let variable = "redis://bob:p@agent:1";
        assert_eq!(found(named(&file, None, variable)), variable);
        assert_eq!(
            found(named(&file, Some(7), variable)),
            "redis://127.0.0.1:7"
        );
        let refused = |sources| url(sources).expect_err("it is wrong");
        assert!(refused(named(&file, Some(0), "")).contains("no port"));
        assert!(refused(of_socket("a.sock")).contains("whole path"));
    }

    #[test]
    fn flags_say_who_logs_in_before_the_agents_password_and_the_file_of_nodes() {
        let folder = tempfile::tempdir().expect("a directory");
        let [file, of_flag, of_file] = ["nodes.conf", "flag", "file"].map(|name| {
            let path = folder.path().join(name);
            let text = match name {
                "nodes.conf" => "node db1:7001\nagent-user ann\nagent-password-file file\n",
                other => other,
            };
            fs::write(&path, text).expect("it is written");
            fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
            path
        });
        assert!(of_file.exists());
        let with = |user: Option<&str>, password_file: Option<&PathBuf>, own_password| {
            let flags = LoginFlags {
                user: user.map(str::to_owned),
                password_file: password_file.cloned(),
            };
            let sources = Sources {
                own_password,
                ..named(&file, Some(7), "")
            };
            let agent = flags.agent(sources).expect("it is good");
            (agent.url, agent.login.expect("somebody logs in"))
        };
        let (url, login) = with(Some("b@b"), Some(&of_flag), Some("own"));
        assert_eq!(url, "redis://b%40b:flag@127.0.0.1:7");
        assert_eq!(login, "the user 'b@b' of --password-file");
        let (url, login) = with(None, None, Some("own"));
        assert_eq!(url, "redis://:own@127.0.0.1:7");
        assert_eq!(login, "the default user of --requirepass");
        let (url, login) = with(None, None, None);
        assert_eq!(url, "redis://ann:file@127.0.0.1:7");
        assert!(login.starts_with("the user 'ann' of /") && login.ends_with("nodes.conf"));
        let flags = LoginFlags {
            password_file: Some(of_flag),
            ..LoginFlags::default()
        };
        let twice = flags.agent(named(&file, None, "redis://:p@agent"));
        assert!(
            twice
                .expect_err("two logins")
                .what
                .contains("QUORLOCK_AGENT")
        );
    }
}
