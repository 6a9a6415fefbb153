//! What is wrong on the way to a node at present, or on that of a client to all nodes.

use crate::middle_box::Meddling;

/// A way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// Until when nothing reaches a node.
    pub to_node_until_ns: u64,
    /// Until when nothing that a node sends arrives.
    pub to_client_until_ns: u64,
    /// Until when replies arrive late.
    pub late_until_ns: u64,
    /// Whether new connections are refused.
    pub refuses: bool,
    /// Whether replies arrive a few bytes at a time.
    pub trickles: bool,
    /// What a box on the way does to replies.
    pub meddling: Option<Meddling>,
}

impl Path {
    /// Nothing reaches a node before this time. A way that is cut already is well no sooner than it would have been: else what
    /// is sent then would overtake what waits.
    pub fn cut_to_node(&mut self, until_ns: u64) {
        self.to_node_until_ns = self.to_node_until_ns.max(until_ns);
    }

    /// Nothing that a node sends arrives before this time.
    pub fn cut_to_client(&mut self, until_ns: u64) {
        self.to_client_until_ns = self.to_client_until_ns.max(until_ns);
    }

    /// Whether nothing is wrong.
    pub fn is_well(&self, now_ns: u64) -> bool {
        let is_cut = self.to_node_until_ns > now_ns || self.to_client_until_ns > now_ns;
        let is_late = self.late_until_ns > now_ns;
        !is_cut && !is_late && !self.refuses && !self.trickles && self.meddling.is_none()
    }
}
