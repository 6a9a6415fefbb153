//! `quorlock cluster compose`, `systemd` and `kubernetes`: the files in packaging/ for another number of nodes.
//!
//! A template is a file that is used as it stands, for five nodes. A line that names the first node stands for a line for each node, and lines
//! that name others are left out. The rest is words that are replaced. So there is no second copy that could differ.

use std::process::ExitCode;

use serde_json::json;

use super::{ClusterDirectory, current, manifest::Manifest};
use crate::exit_code::Failure;
use crate::output::Format;

/// Arguments of `quorlock cluster compose`, `systemd` and `kubernetes`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    cluster: ClusterDirectory,
    /// The image that containers run, built from packaging/docker/Dockerfile
    #[arg(long, value_name = "NAME", default_value = IMAGE, value_parser = parse_image)]
    image: String,
}

/// What of a cluster is in its files.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    nodes: u16,
    first_port: u16,
    appendfsync: String,
    image: String,
}

/// A file that is printed: where it belongs, and its text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Printed {
    path: &'static str,
    text: String,
}

/// Prints the files that `files` makes of the cluster's shape; where no cluster was started, of five nodes from port 7001 on.
pub(super) fn run(
    arguments: &Arguments,
    files: fn(&Shape) -> Vec<Printed>,
    format: Format,
) -> Result<ExitCode, Failure> {
    let mut shape = Shape {
        nodes: 5,
        first_port: 7001,
        appendfsync: "everysec".to_owned(),
        image: arguments.image.clone(),
    };
    if arguments.cluster.dir.is_some() || current::directory()?.is_some() {
        let manifest = Manifest::read(&arguments.cluster.find()?)?;
        // They are numbered from 1.
        shape.nodes = manifest.nodes.last().map_or(5, |node| node.number);
        shape.first_port = manifest.nodes.first().map_or(7001, |node| node.port);
        shape.appendfsync = manifest.appendfsync;
    }
    let files = files(&shape);
    let text = match &files[..] {
        [only] => only.text.trim_end().to_owned(),
        several => {
            let headed = |file: &Printed| format!("# {}\n{}", file.path, file.text);
            several.iter().map(headed).collect::<Vec<_>>().join("\n")
        }
    };
    let described = |file: &Printed| json!({ "path": file.path, "text": file.text });
    let described: Vec<_> = files.iter().map(described).collect();
    format.result(text, &json!({ "files": described }));
    Ok(ExitCode::SUCCESS)
}

/// All nodes on one machine, each with a port of its own there.
pub(super) fn compose(shape: &Shape) -> Vec<Printed> {
    let text = render(COMPOSE, "node-", 1, shape, |line, number| {
        let port = shape.first_port.saturating_add(number - 1);
        line.replace("127.0.0.1:7001:", &format!("127.0.0.1:{port}:"))
    });
    vec![Printed {
        path: "compose.yaml",
        text,
    }]
}

/// A node on each machine, all with the same port.
pub(super) fn kubernetes(shape: &Shape) -> Vec<Printed> {
    let port = shape.first_port.to_string();
    let text = render(KUBERNETES, "quorlock-", 0, shape, |line, _| {
        line.replace("7001", &port)
    });
    vec![Printed {
        path: "nodes.yaml",
        text,
    }]
}

/// A node on each machine, all with the same port and the same files.
pub(super) fn systemd(shape: &Shape) -> Vec<Printed> {
    let port = shape.first_port.to_string();
    let file = |path, template: &str| Printed {
        path,
        text: render(template, "lock", 1, shape, |line, _| {
            line.replace("7001", &port)
        }),
    };
    let members = NODE_CONF.replace("# cluster-", "cluster-");
    let nodes = NODES_CONF.replace("#     ", "");
    vec![
        file("/etc/systemd/system/quorlock@.service", UNIT),
        file("/etc/quorlock/node.conf", &members),
        file("/etc/quorlock/nodes.conf", &nodes),
    ]
}

/// The template for this shape. `place` puts in what depends on a node, whose number counts from that of the template's `first`.
fn render(
    template: &str,
    name: &str,
    first: u16,
    shape: &Shape,
    place: impl Fn(&str, u16) -> String,
) -> String {
    let first_name = format!("{name}{first}");
    let mut lines = Vec::new();
    for line in template.lines() {
        let line = line
            .replace("replicas: 5", &format!("replicas: {}", shape.nodes))
            .replace("cluster-size 5", &format!("cluster-size {}", shape.nodes))
            .replace("- \"5\"", &format!("- \"{}\"", shape.nodes))
            .replace("everysec", &shape.appendfsync)
            .replace(IMAGE, &shape.image);
        match number_in(&line, name) {
            Some(number) if number == first => {
                let numbers = first..first.saturating_add(shape.nodes);
                lines.extend(numbers.map(|number| {
                    place(&line, number).replace(&first_name, &format!("{name}{number}"))
                }));
            }
            Some(_) => {}
            None => lines.push(place(&line, first)),
        }
    }
    lines.join("\n") + "\n"
}

/// The number behind `name` in a line that is no comment.
fn number_in(line: &str, name: &str) -> Option<u16> {
    if line.trim_start().starts_with('#') {
        return None;
    }
    line.split(name).skip(1).find_map(|rest| {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit());
        rest[..digits.unwrap_or(rest.len())].parse().ok()
    })
}

fn parse_image(text: &str) -> Result<String, String> {
    let may_be = |letter: char| letter.is_ascii_alphanumeric() || "._-/:@".contains(letter);
    match text.chars().all(may_be) && !text.is_empty() {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "'{text}' is not the name of an image, such as registry.example.org/quorlock:0.1.0"
        )),
    }
}

const IMAGE: &str = concat!("quorlock:", env!("CARGO_PKG_VERSION"));
const COMPOSE: &str = include_str!("../../packaging/docker/compose.yaml");
const KUBERNETES: &str = include_str!("../../packaging/kubernetes/nodes.yaml");
const UNIT: &str = include_str!("../../packaging/systemd/quorlock@.service");
const NODE_CONF: &str = include_str!("../../packaging/debian/node.conf");
const NODES_CONF: &str = include_str!("../../packaging/debian/nodes.conf");

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(nodes: u16, first_port: u16, appendfsync: &str) -> Shape {
        Shape {
            nodes,
            first_port,
            appendfsync: appendfsync.to_owned(),
            image: IMAGE.to_owned(),
        }
    }

    #[test]
    fn the_files_in_packaging_are_what_is_printed_for_five_nodes() {
        let five = shape(5, 7001, "everysec");
        assert_eq!(compose(&five)[0].text, COMPOSE);
        assert_eq!(kubernetes(&five)[0].text, KUBERNETES);
        let [unit, node, nodes] = &systemd(&five)[..] else {
            panic!("three files");
        };
        assert_eq!(unit.text, UNIT);
        assert_eq!(node.text.replace("\ncluster-", "\n# cluster-"), NODE_CONF);
        assert!(nodes.text.contains("\nnode lock5.example.org:7001\n"));
        assert_eq!(nodes.text.matches("\nnode ").count(), 5);
    }

    #[test]
    fn a_cluster_of_another_shape_has_as_many_nodes_everywhere() {
        let seven = Shape {
            image: "here/q:9".to_owned(),
            ..shape(7, 8101, "always")
        };
        let text = &compose(&seven)[0].text;
        assert!(text.contains(
            "node-7: { <<: *node, ports: [\"127.0.0.1:8107:7001\"], volumes: [\"node-7:/var/lib/quorlock\"] }"
        ));
        assert!(text.contains("- --cluster-size\n    - \"7\"\n    - --appendfsync\n    - always"));
        assert!(text.contains("\n  node-7: {}\n") && text.contains("\n      node node-7:7001\n"));
        let manifests = &kubernetes(&seven)[0].text;
        for part in [
            "replicas: 7",
            "cluster-size 7",
            "appendfsync always",
            "port 8101",
            "containerPort: 8101",
            "node quorlock-6.quorlock:8101",
            "accessModes: [ReadWriteOncePod]",
        ] {
            assert!(manifests.contains(part), "{part}");
        }
        assert!(!manifests.contains("7001"));
        for text in [text, manifests] {
            assert!(text.contains("image: here/q:9\n") && !text.contains("image: quorlock:"));
        }
        let files = systemd(&seven);
        assert!(
            files[1].text.contains("\ncluster-size 7\n") && files[1].text.contains("\nport 8101\n")
        );
        assert!(files[1].text.contains("\nappendfsync always\n"));
        assert!(
            files[2]
                .text
                .ends_with("\nnode lock7.example.org:8101\npassword-file /etc/quorlock/password\n")
        );
        let three = shape(3, 7001, "no");
        assert!(!compose(&three)[0].text.contains("node-4: "));
        assert!(!kubernetes(&three)[0].text.contains("node quorlock-3."));
    }

    #[test]
    fn an_image_is_a_name() {
        assert!(parse_image("registry.example.org:5000/q@sha256:ab").is_ok());
        for wrong in ["", "a b", "a\nb", "{}", "a#"] {
            assert!(parse_image(wrong).is_err(), "{wrong:?}");
        }
    }
}
