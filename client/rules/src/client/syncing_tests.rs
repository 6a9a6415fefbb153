//! Nodes that may have lost fences adopt what the others tell once the restart delays are over, and nothing told before.

use super::cluster_for_tests::Cluster;
use crate::call::{Call, Outcome};
use crate::outcome::{Cause, FenceState};

fn certain(ceiling: u64) -> Vec<String> {
    vec![format!("*2\r\n:{ceiling}\r\n:1\r\n")]
}

fn uncertain() -> Vec<String> {
    vec!["*2\r\n:7\r\n:0\r\n".to_owned()]
}

fn delayed() -> Vec<String> {
    vec!["-RESTARTDELAY 400 n4 this node is in its restart delay\r\n".to_owned()]
}

fn synced(cluster: &mut Cluster) -> Vec<FenceState> {
    let trusts_disks = false;
    let call = cluster.call(Call::SyncFences { trusts_disks });
    let Some(Outcome::FencesSynced(nodes)) = cluster.outcome(call) else {
        panic!("not synced")
    };
    nodes.into_iter().map(|node| node.state).collect()
}

#[test]
fn a_node_adopts_what_the_others_tell_after_it_was_known_to_be_uncertain() {
    let mut cluster = Cluster::new(3);
    // A fence that the last node took before its restart was still on its way to the first one.
    cluster.nodes[0].ceilings = [certain(40), certain(90)].concat();
    cluster.nodes[1].ceilings = certain(50);
    cluster.nodes[2].ceilings = uncertain();
    let states = synced(&mut cluster);
    assert_eq!(cluster.nodes[2].adopted, ["90"]);
    assert_eq!(states[2], FenceState::Adopted(90));
}

#[test]
fn a_node_in_its_restart_delay_adopts_nothing() {
    let mut cluster = Cluster::new(3);
    cluster.nodes[0].ceilings = certain(40);
    cluster.nodes[1].ceilings = certain(40);
    cluster.nodes[2].ceilings = delayed();
    let states = synced(&mut cluster);
    assert!(
        matches!(states[2], FenceState::Unknown(Cause::Delayed { .. })),
        "{states:?}"
    );
    assert_eq!(cluster.nodes[2].adopted, [""; 0]);
}

/// Another node is uncertain, so all are asked twice. The answers of the others may come from before the end of the delay.
#[test]
fn a_node_whose_delay_ends_while_the_others_are_asked_adopts_nothing_yet() {
    let mut cluster = Cluster::new(5);
    for node in &mut cluster.nodes[..3] {
        node.ceilings = certain(40);
    }
    cluster.nodes[3].ceilings = uncertain();
    cluster.nodes[4].ceilings = [delayed(), uncertain()].concat();
    let states = synced(&mut cluster);
    assert_eq!(states[3], FenceState::Adopted(40));
    assert_eq!(cluster.nodes[4].adopted, [""; 0]);
    let not_yet = FenceState::Uncertain {
        ceiling: 7,
        certain_others: 3,
        needed: 3,
    };
    assert_eq!(states[4], not_yet);
    cluster.nodes[0].ceilings = certain(90);
    cluster.nodes[3].ceilings = certain(40);
    assert_eq!(synced(&mut cluster)[4], FenceState::Adopted(90));
}
