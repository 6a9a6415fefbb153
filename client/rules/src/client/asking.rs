//! Calls that ask the nodes, or tell them something, and hold nothing.

use bytes::Bytes;

use super::Client;
use crate::OperationId;
use crate::action::Action;
use crate::clock::ClientInstant;
use crate::listing::Listing;
use crate::operation::Operation;
use crate::probing::Probing;
use crate::publishing::Publishing;
use crate::reading::Reading;
use crate::syncing_fences::SyncingFences;

impl Client {
    pub(super) fn read(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        name: Bytes,
        is_full: bool,
        actions: &mut Vec<Action>,
    ) {
        let mut context = self.context(now, operation, actions);
        let reading = Reading::start(name, is_full, &mut context);
        let reading = Operation::Reading(Box::new(reading));
        self.operations.insert(operation, reading);
    }

    pub(super) fn list(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        pattern: Bytes,
        cursor: u128,
        actions: &mut Vec<Action>,
    ) {
        let mut context = self.context(now, operation, actions);
        let listing = Listing::start(pattern, cursor, &mut context);
        let listing = Operation::Listing(Box::new(listing));
        self.operations.insert(operation, listing);
    }

    pub(super) fn publish(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        channel: Bytes,
        payload: Bytes,
        actions: &mut Vec<Action>,
    ) {
        let mut context = self.context(now, operation, actions);
        let publishing = Publishing::start(channel, payload, &mut context);
        let publishing = Operation::Publishing(Box::new(publishing));
        self.operations.insert(operation, publishing);
    }

    pub(super) fn sync_fences(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        trusts_disks: bool,
        actions: &mut Vec<Action>,
    ) {
        let mut context = self.context(now, operation, actions);
        let syncing = SyncingFences::start(trusts_disks, &mut context);
        let syncing = Operation::SyncingFences(Box::new(syncing));
        self.operations.insert(operation, syncing);
    }

    pub(super) fn probe(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        actions: &mut Vec<Action>,
    ) {
        let probing = Probing::start(&mut self.context(now, operation, actions));
        self.operations
            .insert(operation, Operation::Probing(Box::new(probing)));
    }
}
