//! What must hold in every world, and what must be possible in some.

use stateright::Property;

use super::scope::{Scope, Sight};
use super::{Exclusion, World};

/// The properties of a scope: the invariants, and the sights without which it would be empty.
pub(crate) fn all(scope: &Scope) -> Vec<Property<Exclusion>> {
    let mut all = vec![
        Property::always(EXCLUSION, at_most_one_believes),
        Property::always(OWNED, no_key_by_extension),
        Property::always(DELAY, delay_keeps_its_end),
    ];
    all.extend(scope.sights.iter().map(|sight| match sight {
        Sight::Granted => Property::sometimes("a lock is granted", any_holds),
        Sight::HeldInTurn => Property::sometimes("both clients hold it in turn", held_in_turn),
        Sight::Extended => Property::sometimes("an extension succeeds", any_extended),
        Sight::LostGrant => Property::sometimes("a crash loses a grant", any_lost),
        Sight::WaitedDelay => Property::sometimes("a restart delay is waited out", any_waited),
    }));
    all
}

fn at_most_one_believes(model: &Exclusion, world: &World) -> bool {
    let believes = |client: &&super::Client| client.believes(model.mutant);
    let believers = world.clients.iter().filter(believes).count();
    model.refuted.unless_first(believers <= 1)
}

fn no_key_by_extension(model: &Exclusion, world: &World) -> bool {
    let is_extension = |node: &super::Node| node.key.is_some_and(|key| key.is_extension);
    let has_extension = world.nodes.iter().any(is_extension);
    model.refuted.unless_first(!has_extension)
}

fn delay_keeps_its_end(model: &Exclusion, world: &World) -> bool {
    let has_moved = world.nodes.iter().any(|node| node.has_moved_delay);
    model.refuted.unless_first(!has_moved)
}

fn any_holds(_: &Exclusion, world: &World) -> bool {
    world.clients.iter().any(|client| client.has_held)
}

fn held_in_turn(_: &Exclusion, world: &World) -> bool {
    world.clients.iter().all(|client| client.has_held)
}

fn any_extended(_: &Exclusion, world: &World) -> bool {
    world.clients.iter().any(|client| client.has_extended)
}

fn any_lost(_: &Exclusion, world: &World) -> bool {
    world.nodes.iter().any(|node| node.has_lost_grant)
}

fn any_waited(_: &Exclusion, world: &World) -> bool {
    world.nodes.iter().any(|node| node.has_waited)
}

/// C1 of the tests: validity exclusion.
pub(crate) const EXCLUSION: &str = "no two clients hold the lock at once";
/// A lock is only ever held where it was taken.
const OWNED: &str = "an extension never brings a lock to life";
/// A crash loop neither ends nor prolongs a delay.
const DELAY: &str = "in one boot a restart delay keeps its end";
