//! A change of the cluster's members that is under way, or was left half done.

use super::{Examined, Finding, Severity, found};

/// What nodes say of the number of nodes in their cluster.
pub(super) fn of_members(nodes: &[Examined]) -> Option<Finding> {
    let mut said = Vec::new();
    for facts in nodes.iter().filter_map(|node| node.facts.as_ref().ok()) {
        if let Some(size) = facts.cluster_size {
            let mut sizes = vec![size];
            sizes.extend(facts.next_size);
            sizes.sort_unstable();
            if !said.contains(&sizes) {
                said.push(sizes);
            }
        }
    }
    let changing = said.iter().find(|sizes| sizes.len() == 2)?;
    Some(found(
        Severity::Warning,
        "members-change",
        format!(
            "a member is being added or removed: clients may list {} or {} nodes. Another change would not be safe until this one \
             has ended on all nodes and the longest lock with it",
            changing[0], changing[1]
        ),
        "when all clients have the new list: quorlock members end",
    ))
}
