//! How much of the world a run of the model of fences explores, and what it needs to see there.

use crate::exclusion::Size;
use crate::parts::catching;

/// How often things may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) crashes: u8,
    pub(crate) lost_disks: u8,
    pub(crate) forced_releases: u8,
    pub(crate) forgotten: u8,
    /// Nodes that take a lock which others hold already, with its fence, whenever that arrives.
    pub(crate) healed: u8,
}

/// One bounded world.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) name: &'static str,
    /// What it is about, for people.
    pub(crate) about: &'static str,
    pub(crate) nodes: u8,
    /// How often each client acquires.
    pub(crate) attempts: Vec<u8>,
    pub(crate) budget: Budget,
    /// The nodes that crash, lose their disks, or are spoilt by an operator. When the log of another is synced is of no interest.
    pub(crate) failing: Vec<u8>,
    /// Nodes are waited for as long as the validity lasts.
    pub(crate) is_patient: bool,
    /// Requests of an attempt that is over are still delivered.
    pub(crate) has_late_requests: bool,
    /// Replies take their time as well.
    pub(crate) has_late_replies: bool,
    /// What must be seen to happen in it.
    pub(crate) sights: Vec<Sight>,
}

/// Something that has to be possible, or the scope is about nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sight {
    InTurn,
    Guess,
    RefusedGuess,
    AfterRestart,
    AfterAdoption,
    /// What only a forced release can do.
    OutOfOrder,
    Healed,
}

/// What is wrong with what the model mirrors: the node's executor, and the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    None,
    RepliesBeforeSync,
    AsksBeforeDelay,
    AsksOne,
    AsksUncertain,
    LeaseTooShort,
}

impl Mutant {
    /// The change in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::None => "the rules as they are",
            Self::RepliesBeforeSync => "a reply tells of a fence whose ceiling is not synced",
            Self::AsksBeforeDelay => {
                "an operator asks for ceilings before the restart delay is over"
            }
            Self::AsksOne => "an operator asks one other node for its ceiling",
            Self::AsksUncertain => "an operator takes the ceiling of a node that is uncertain",
            Self::LeaseTooShort => "a node frees a lock before its validity is over",
        }
    }
}

/// The scopes, each explored completely.
pub(crate) fn scopes(size: Size) -> Vec<Scope> {
    let is_full = size == Size::Full;
    let guesses = Scope {
        name: "fences",
        about: "two clients in turn, with guesses",
        attempts: vec![2, 1],
        has_late_replies: false,
        sights: vec![Sight::InTurn, Sight::Guess, Sight::RefusedGuess],
        ..plain()
    };
    let alone = Scope {
        name: "fences, alone",
        about: "one client, which knows the fence that it had",
        attempts: vec![2],
        sights: vec![Sight::InTurn, Sight::Guess],
        ..plain()
    };
    let late = Scope {
        name: "fences, late",
        about: "nodes that are given up, and requests of attempts that are over",
        is_patient: false,
        has_late_requests: true,
        has_late_replies: is_full,
        ..plain()
    };
    let operator = Scope {
        name: "fences, operator",
        about: "a lock that an operator deletes, and a name that a node forgets",
        budget: Budget {
            forced_releases: 1,
            forgotten: 1,
            ..Budget::default()
        },
        failing: vec![1],
        has_late_replies: is_full,
        sights: vec![Sight::InTurn, Sight::OutOfOrder],
        ..plain()
    };
    let healing = Scope {
        name: "fences, healing",
        about: "nodes that a lock has missed take it and its fence, also when that is over",
        budget: Budget {
            healed: 2,
            crashes: u8::from(is_full),
            forced_releases: 1,
            ..Budget::default()
        },
        failing: vec![1],
        has_late_replies: false,
        sights: vec![Sight::InTurn, Sight::Healed],
        ..plain()
    };
    let mut all = vec![guesses, alone, late, operator, healing];
    all.extend(failures(is_full));
    all
}

/// Nodes fail in these. All nodes are alike, so two that may fail stand for any two.
fn failures(is_full: bool) -> [Scope; 3] {
    let failing = if is_full { vec![0, 1] } else { vec![1] };
    let crashes = Scope {
        name: "fences, crashes",
        about: "two crashes, which take ceilings that are not synced",
        budget: Budget {
            crashes: if is_full { 2 } else { 1 },
            ..Budget::default()
        },
        failing: failing.clone(),
        sights: vec![Sight::InTurn, Sight::AfterRestart],
        has_late_replies: false,
        ..plain()
    };
    let lost_disk = Scope {
        name: "fences, lost disk",
        about: "a lost disk, a crash, and an operator who gives the node the ceiling of the others",
        budget: Budget {
            crashes: u8::from(is_full),
            lost_disks: 1,
            ..Budget::default()
        },
        failing,
        sights: vec![Sight::InTurn, Sight::AfterAdoption],
        has_late_replies: false,
        ..plain()
    };
    let lost_disks = Scope {
        name: "fences, lost disks",
        about: "two lost disks",
        budget: Budget {
            lost_disks: 2,
            ..Budget::default()
        },
        failing: vec![0, 1],
        sights: vec![Sight::InTurn, Sight::AfterAdoption],
        has_late_replies: false,
        ..plain()
    };
    [crashes, lost_disk, lost_disks]
}

/// Five nodes and three clients with everything allowed at once: for random walks.
pub(crate) fn everything() -> Scope {
    Scope {
        name: "fences, five nodes",
        about: "everything at once, by random walks",
        nodes: 5,
        attempts: vec![3, 3, 3],
        budget: Budget {
            crashes: 3,
            lost_disks: 2,
            forced_releases: 1,
            forgotten: 1,
            healed: 3,
        },
        failing: vec![0, 1, 2, 3, 4],
        is_patient: false,
        has_late_requests: true,
        sights: vec![
            Sight::RefusedGuess,
            Sight::AfterRestart,
            Sight::AfterAdoption,
            Sight::Healed,
        ],
        ..plain()
    }
}

/// Each mutant of what is mirrored, and the small scope that catches it.
pub(crate) fn mutants() -> Vec<(Mutant, Scope)> {
    catching(
        [
            (Mutant::RepliesBeforeSync, "fences, crashes"),
            (Mutant::LeaseTooShort, "fences"),
            (Mutant::AsksBeforeDelay, "fences, lost disk"),
            (Mutant::AsksOne, "fences, lost disk"),
            (Mutant::AsksUncertain, "fences, lost disks"),
        ],
        &scopes(Size::Small),
        |scope| scope.name,
    )
}

fn plain() -> Scope {
    Scope {
        name: "",
        about: "",
        nodes: 3,
        attempts: vec![1, 1],
        budget: Budget::default(),
        failing: Vec::new(),
        is_patient: true,
        has_late_requests: false,
        has_late_replies: true,
        sights: vec![Sight::InTurn],
    }
}
