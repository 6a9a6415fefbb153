//! Findings with their remedies, for people and for programs.

use quorlock_client_rules::inspection::findings::Finding;
use serde_json::{Value, json};

use super::shown;

/// Each finding on one line, and its remedy on the next. What is found on several nodes is said once.
pub(super) fn describe_all(found: &[Finding], labels: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, finding) in found.iter().enumerate() {
        let is_same = |other: &Finding| {
            Finding {
                node: None,
                ..other.clone()
            } == Finding {
                node: None,
                ..finding.clone()
            }
        };
        if found[..at].iter().any(is_same) {
            continue;
        }
        let nodes = found[at..]
            .iter()
            .filter(|other| is_same(other))
            .filter_map(|other| labels.get(other.node?));
        let nodes: Vec<&str> = nodes.copied().collect();
        let nodes = match nodes.len() {
            0 => String::new(),
            count if count == labels.len() && count > 1 => format!("each of {count} nodes: "),
            _ => format!("{}: ", nodes.join(", ")),
        };
        let (severity, what) = (finding.severity.name(), shown::words(&finding.what));
        lines.push(format!(
            "{severity:<7}  {nodes}{what}\n         {}",
            finding.remedy
        ));
    }
    lines
}

/// The same for a program.
pub(super) fn value(finding: &Finding, nodes: &[&str]) -> Value {
    json!({
        "severity": finding.severity.name(),
        "kind": finding.kind,
        "node": finding.node.and_then(|node| nodes.get(node)),
        "what": finding.what,
        "remedy": finding.remedy,
    })
}

#[cfg(test)]
mod tests {
    use quorlock_client_rules::inspection::findings::Severity;

    use super::*;

    #[test]
    fn what_is_found_on_several_nodes_is_said_once() {
        let found = |node, kind| Finding {
            severity: Severity::Note,
            node,
            kind,
            what: format!("{kind} it is"),
            remedy: "mend it",
        };
        let all = [
            found(Some(0), "a"),
            found(Some(1), "a"),
            found(Some(1), "b"),
            found(None, "c"),
        ];
        let lines = describe_all(&all, &["n1", "n2"]);
        assert_eq!(
            lines,
            [
                "note     each of 2 nodes: a it is\n         mend it",
                "note     n2: b it is\n         mend it",
                "note     c it is\n         mend it"
            ]
        );
    }
}
