//! Dependencies point one way: which package may know which, and what the pure core may touch.
//!
//! Both the manifests and the sources are read, since a forgotten dependency in a manifest is
//! an arrow as well.

use crate::scan;
use crate::tree::Source;
use crate::world;

/// A package of the workspace, its folder, the packages it may know, and those that the examples in
/// its documentation may use besides.
struct Package {
    folder: &'static str,
    may_know: &'static [&'static str],
    /// The examples in its documentation, and the tests in its folder for tests.
    examples_may_know: &'static [&'static str],
}

/// Longest folder first, so that the first match is the nearest. The packages that test and
/// measure (`tests`, `benches`) may know all.
const PACKAGES: [Package; 22] = [
    Package {
        folder: "agent/rules/",
        may_know: &["agent-rules", "client-rules", "engine", "clock"],
        examples_may_know: &[],
    },
    Package {
        folder: "agent/simulation/",
        may_know: &[
            "agent-simulation",
            "agent-rules",
            "simulation",
            "client-rules",
            "engine",
            "persistence",
            "clock",
        ],
        examples_may_know: &[],
    },
    Package {
        folder: "agent/",
        may_know: &[
            "agent",
            "agent-rules",
            "client",
            "client-rules",
            "server",
            "engine",
            "clock",
        ],
        examples_may_know: &[],
    },
    Package {
        folder: "clock/system/",
        may_know: &["system-clock", "clock"],
        examples_may_know: &["client"],
    },
    Package {
        folder: "clock/",
        may_know: &["clock"],
        examples_may_know: &["client", "server"],
    },
    Package {
        folder: "server/engine/",
        may_know: &["engine", "clock"],
        examples_may_know: &[],
    },
    Package {
        folder: "server/node/",
        may_know: &["node", "engine", "persistence", "clock"],
        examples_may_know: &[],
    },
    Package {
        folder: "persistence/",
        may_know: &["persistence"],
        examples_may_know: &[],
    },
    Package {
        folder: "client/rules/",
        may_know: &["client-rules", "clock"],
        examples_may_know: &["client", "server"],
    },
    Package {
        folder: "client/",
        may_know: &["client", "client-rules", "gateway", "clock", "system-clock"],
        examples_may_know: &["server"],
    },
    Package {
        folder: "gateway/",
        may_know: &["gateway", "client-rules"],
        examples_may_know: &[],
    },
    Package {
        folder: "server/",
        may_know: &["server", "node", "engine", "persistence", "system-clock"],
        examples_may_know: &[],
    },
    Package {
        folder: "experiment/",
        may_know: &[
            "experiment",
            "simulation",
            "client",
            "client-rules",
            "server",
            "node",
            "engine",
            "persistence",
        ],
        examples_may_know: &[],
    },
    Package {
        folder: "simulation/",
        may_know: &[
            "simulation",
            "client",
            "client-rules",
            "node",
            "engine",
            "persistence",
        ],
        examples_may_know: &[],
    },
    // The manifest of the package in `src/`: its folders are told apart by their files.
    Package {
        folder: "Cargo.toml",
        may_know: &["server", "client", "client-rules", "agent", "experiment"],
        examples_may_know: &[],
    },
    Package {
        folder: "src/inspect",
        may_know: &["server", "client", "client-rules"],
        examples_may_know: &[],
    },
    // It connects to nodes as clients do, with TLS.
    Package {
        folder: "src/local_node.rs",
        may_know: &["client", "client-rules"],
        examples_may_know: &[],
    },
    // It reads replies of nodes into the values that the rules of inspection read.
    Package {
        folder: "src/reply.rs",
        may_know: &["client", "client-rules"],
        examples_may_know: &[],
    },
    // It shares names of locks out among clusters as clients do.
    Package {
        folder: "src/clusters.rs",
        may_know: &["client", "client-rules"],
        examples_may_know: &[],
    },
    Package {
        folder: "src/",
        may_know: &["server", "client", "agent", "experiment"],
        examples_may_know: &[],
    },
    Package {
        folder: "quorlock-test/",
        may_know: &["test", "client", "server"],
        examples_may_know: &[],
    },
    Package {
        folder: "testkit/",
        may_know: &[TESTKIT],
        examples_may_know: &[],
    },
];

/// Only tests may know it: in `[dev-dependencies]` and below `tests/`.
const TESTKIT: &str = "testkit";

const NAMES: [&str; 16] = [
    "agent",
    "agent-rules",
    "agent-simulation",
    "clock",
    "system-clock",
    "server",
    "node",
    "engine",
    "persistence",
    "client",
    "client-rules",
    "gateway",
    "experiment",
    "simulation",
    "test",
    TESTKIT,
];

/// The sources that a node and a client are made of.
const DECIDERS: [&str; 9] = [
    "agent/rules/src/",
    "clock/src/",
    "clock/system/src/",
    "server/src/",
    "server/node/src/",
    "server/engine/src/",
    "persistence/src/",
    "client/src/",
    "client/rules/src/",
];

/// Where a build has something else in the place of a whole module, and the tests of what it has not: `shuttle`'s locks in
/// place of the standard library's, a refusal in place of the interpreter.
const STAND_INS: [&str; 7] = [
    "server/src/lib.rs",
    "server/engine/src/lib.rs",
    "server/engine/src/script.rs",
    "server/engine/src/script/runner_tests.rs",
    "server/node/src/sync.rs",
    "persistence/src/sync.rs",
    "client/src/runtime/mod.rs",
];

/// The packages that must not reach for the world: what clocks have in common, the engine, what decides in a node, the rules of the client
/// and those of the agent.
const PURE: [&str; 5] = [
    "agent/rules/",
    "clock/src/",
    "server/engine/",
    "server/node/",
    "client/rules/",
];

/// The manifest that names no way into the world in its tables for tests either.
const ALSO_IN_TESTS: &str = "client/rules/";

/// Reports every arrow that points the wrong way in one file.
pub(crate) fn arrows(source: &Source) -> Vec<String> {
    let is_manifest = source.path.ends_with("Cargo.toml");
    if !source.is_rust() && !is_manifest {
        return Vec::new();
    }
    let Some(package) = package_of(&source.path) else {
        return Vec::new();
    };
    let code = if is_manifest {
        dependencies(&source.text, |_| true)
    } else {
        scan::code_only(&source.text)
    };
    let unknown = NAMES.iter().filter(|name| !package.may_know.contains(name));
    let mut problems = Vec::new();
    for name in unknown {
        let written = if is_manifest {
            format!("quorlock-{name}")
        } else {
            format!("quorlock_{}", name.replace('-', "_"))
        };
        let is_testkit = *name == TESTKIT;
        let is_for_tests = is_testkit || package.examples_may_know.contains(name);
        let is_test = source
            .path
            .starts_with(&format!("{}tests/", package.folder));
        let is_found = if is_manifest && is_for_tests {
            let shipped = dependencies(&source.text, |table| !table.contains("dev-"));
            names(&shipped, &written)
        } else {
            names(&code, &written) && !(is_for_tests && is_test)
        };
        if is_found {
            problems.push(format!(
                "{}: {} must not know {written}",
                source.path, package.folder
            ));
        }
    }
    problems
}

/// Reports conditional code in what is shipped as a node or a client: what decides is the same in every build. Only whole
/// modules at the edge of that have a stand-in.
pub(crate) fn features(source: &Source) -> Vec<String> {
    let is_decider = DECIDERS.iter().any(|part| source.path.starts_with(part));
    if !is_decider || !source.is_rust() || STAND_INS.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let lines = source.text.lines().enumerate();
    let conditional = lines.filter(|(_, line)| {
        let line = line.trim_start();
        !line.starts_with("//") && line.contains("feature = \"")
    });
    conditional
        .map(|(number, _)| format!("{}:{}: a feature decides", source.path, number + 1))
        .collect()
}

/// Reports where one of the pure packages reaches for files, sockets, threads or a clock, or could.
pub(crate) fn purity(source: &Source) -> Vec<String> {
    let package = PURE.iter().find_map(|pure| {
        let file = source.path.strip_prefix(pure)?;
        Some((pure, file))
    });
    let touched: Vec<&str> = match package {
        Some((_, file)) if file.starts_with("src/") && source.is_rust() => world::named(source),
        Some((&pure, "Cargo.toml")) => {
            let is_wanted = |table: &str| pure == ALSO_IN_TESTS || !table.contains("dev-");
            let known = dependencies(&source.text, is_wanted);
            let packages = world::PACKAGES.into_iter();
            packages.filter(|name| names(&known, name)).collect()
        }
        _ => Vec::new(),
    };
    let problems = touched.into_iter();
    problems
        .map(|part| format!("{}: what decides must not use {part}", source.path))
        .collect()
}

/// Whether a text has this name as a whole word.
fn names(text: &str, name: &str) -> bool {
    let mut words = text.split(|it: char| !it.is_alphanumeric() && it != '_' && it != '-');
    words.any(|word| word == name)
}

fn package_of(path: &str) -> Option<&'static Package> {
    PACKAGES
        .iter()
        .find(|package| path.starts_with(package.folder))
}

/// The dependency tables of a manifest that are wanted. The workspace's list of versions is not an
/// arrow.
fn dependencies(manifest: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    let mut kept = String::new();
    let mut is_dependency_table = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_dependency_table =
                line.contains("dependencies") && !line.starts_with("[workspace") && is_wanted(line);
        }
        if is_dependency_table {
            kept.push_str(line.split('#').next().unwrap_or(line));
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        arrows(&Source {
            path: path.into(),
            text: text.into(),
        })
        .len()
    }

    #[test]
    fn a_use_against_the_arrows_is_reported() {
        for (path, uses) in [
            ("persistence/src/log.rs", "use quorlock_engine::Engine;"),
            (
                "server/engine/src/lib.rs",
                "let x = quorlock_persistence::x();",
            ),
            ("client/src/lib.rs", "use quorlock_server::Node;"),
            ("src/main.rs", "use quorlock_engine::Engine;"),
            ("server/src/lib.rs", "use quorlock_client::Redlock;"),
            ("agent/src/bridge.rs", "use quorlock_gateway::Gateway;"),
            ("gateway/src/lib.rs", "use quorlock_client::Redlock;"),
        ] {
            assert_eq!(found(path, uses), 1, "{path}: {uses}");
        }
    }

    #[test]
    fn a_use_along_the_arrows_and_a_comment_pass() {
        assert_eq!(found("src/main.rs", "use quorlock_server::Node;"), 0);
        assert_eq!(
            found("server/src/lib.rs", "use quorlock_engine::Engine;"),
            0
        );
        assert_eq!(found("client/src/lib.rs", "// not quorlock_server"), 0);
        assert_eq!(found("tests/chaos.rs", "use quorlock_engine::Engine;"), 0);
    }

    #[test]
    fn a_manifest_against_the_arrows_is_reported() {
        let dependency = "[dev-dependencies]\nquorlock-client.workspace = true\n";
        assert_eq!(found("server/Cargo.toml", dependency), 1);
        // The examples in the client's documentation need nodes, the client itself does not.
        let examples = "[dev-dependencies]\nquorlock-server.workspace = true\n";
        assert_eq!(found("client/Cargo.toml", examples), 0);
        let dependency = "[dependencies]\nquorlock-server.workspace = true\n";
        assert_eq!(found("client/Cargo.toml", dependency), 1);
        let versions = "[workspace.dependencies]\nquorlock-engine = { path = \"e\" }\n";
        assert_eq!(found("Cargo.toml", versions), 0);
        let target = "[target.'cfg(unix)'.dependencies]\nquorlock-engine = \"1\"\n";
        assert_eq!(found("Cargo.toml", target), 1);
    }

    #[test]
    fn only_tests_know_the_testkit_and_it_knows_no_package() {
        let uses = "use quorlock_testkit::Connection;";
        assert_eq!(found("server/src/lib.rs", uses), 1);
        assert_eq!(found("server/tests/server/main.rs", uses), 0);
        assert_eq!(found("tests/flood/main.rs", uses), 0);
        let dependency = |table: &str| format!("[{table}]\nquorlock-testkit.workspace = true\n");
        assert_eq!(found("client/Cargo.toml", &dependency("dependencies")), 1);
        let for_tests = dependency("dev-dependencies");
        assert_eq!(found("client/Cargo.toml", &for_tests), 0);
        let uses = "use quorlock_server::Node;";
        assert_eq!(found("client/src/redlock.rs", uses), 1);
        assert_eq!(found("client/tests/lock/in_process.rs", uses), 0);
        let uses = "use quorlock_client::Redlock;";
        assert_eq!(found("testkit/src/lib.rs", uses), 1);
        let dependency = "[dev-dependencies]\nquorlock-server.workspace = true\n";
        assert_eq!(found("testkit/Cargo.toml", dependency), 1);
    }

    #[test]
    fn a_feature_in_what_decides_is_reported() {
        let conditional = |path: &str| {
            features(&Source {
                path: path.into(),
                text: "#[cfg(feature = \"more\")]\nmod more;\n".into(),
            })
            .len()
        };
        assert_eq!(conditional("server/node/src/past/fingerprint.rs"), 1);
        assert_eq!(conditional("client/rules/src/lib.rs"), 1);
        assert_eq!(conditional("server/node/src/sync.rs"), 0);
        assert_eq!(conditional("src/main.rs"), 0);
    }

    fn impure(path: &str, text: &str) -> usize {
        purity(&Source {
            path: path.into(),
            text: text.into(),
        })
        .len()
    }

    #[test]
    fn an_engine_and_rules_that_touch_the_world_are_reported() {
        for path in [
            "agent/rules/src/x.rs",
            "server/engine/src/x.rs",
            "server/node/src/core/x.rs",
            "client/rules/src/link/x.rs",
        ] {
            for touching in [
                "let now = std::time::Instant::now();",
                "use std::fs::File;",
                "use std::net::{Ipv6Addr, TcpListener};",
                "fn f(stream: &TcpStream) {}",
                "std::thread::spawn(f);",
                "let time = rustix::time::clock_gettime(clock);",
            ] {
                assert_eq!(impure(path, touching), 1, "{path}: {touching}");
            }
            let pure =
                "// std::fs is for the shell\nuse std::net::Ipv6Addr;\nuse std::time::Duration;";
            assert_eq!(impure(path, pure), 0);
        }
        assert_eq!(impure("client/src/runtime/x.rs", "use std::fs::File;"), 0);
    }

    #[test]
    fn a_manifest_of_what_decides_that_names_a_way_into_the_world_is_reported() {
        let rules = "client/rules/Cargo.toml";
        for table in ["[dependencies]", "[dev-dependencies]"] {
            for package in world::PACKAGES {
                let line = format!("{table}\n{package}.workspace = true\n");
                assert_eq!(impure(rules, &line), 1, "{line}");
            }
        }
        assert_eq!(impure(rules, "[dependencies.tokio]\nversion = \"1\"\n"), 1);
        let renamed = "[dependencies]\nruntime = { package = \"tokio\" }\n";
        assert_eq!(impure(rules, renamed), 1);
        let others = "[dependencies]\nquorlock-rustix.workspace = true # no tokio\n";
        assert_eq!(impure(rules, others), 0);
        let for_tests = "[dev-dependencies]\nrustix.workspace = true\n";
        assert_eq!(impure("server/engine/Cargo.toml", for_tests), 0);
    }

    #[test]
    fn only_the_shell_of_the_client_and_what_drives_its_rules_know_them() {
        let uses = "use quorlock_client_rules::client::Client;";
        assert_eq!(found("client/src/runtime/thread.rs", uses), 0);
        assert_eq!(found("simulation/src/cluster.rs", uses), 0);
        assert_eq!(found("src/inspect/nodes.rs", uses), 0);
        assert_eq!(found("src/run.rs", uses), 1);
        assert_eq!(found("server/src/lib.rs", uses), 1);
        let uses = "use quorlock_client::Redlock;";
        assert_eq!(found("client/rules/src/lib.rs", uses), 1);
        let dependency = "[dependencies]\nquorlock-client = { path = \"..\" }\n";
        assert_eq!(found("client/rules/Cargo.toml", dependency), 1);
        let examples = dependency.replace("dependencies", "dev-dependencies");
        assert_eq!(found("client/rules/Cargo.toml", &examples), 0);
    }
}
