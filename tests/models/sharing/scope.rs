//! How much of the world a run of the model of shared locks explores, and what it needs to see there.

use crate::exclusion::Size;
use crate::parts::catching;

/// How often things may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) kills: u8,
    pub(crate) power_losses: u8,
    pub(crate) lost_disks: u8,
    pub(crate) forced_releases: u8,
}

/// One client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) is_reader: bool,
    pub(crate) attempts: u8,
    pub(crate) extensions: u8,
    pub(crate) may_cancel: bool,
    /// It may release what it holds before the end.
    pub(crate) may_release: bool,
    /// What it sends to this node is lost: where one node fails, what a client does at a second sound one helps nobody.
    pub(crate) unheard: Option<u8>,
}

/// One bounded world.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) name: &'static str,
    /// What it is about, for people.
    pub(crate) about: &'static str,
    pub(crate) nodes: u8,
    pub(crate) askers: Vec<Asker>,
    /// True time ends after so many ticks.
    pub(crate) ticks: u8,
    pub(crate) budget: Budget,
    /// The nodes that fail. When the log of another is synced is of no interest.
    pub(crate) failing: Vec<u8>,
    /// What the disk has acknowledged survives each power loss, so that no node has to wait: replies wait for the sync. Else
    /// they leave before it, and a node that has lost power waits.
    pub(crate) trusts_sync: bool,
    /// Requests of an attempt that is over are still delivered.
    pub(crate) has_late_requests: bool,
    /// Each message arrives within the tick in which it was sent, nobody waits longer for an answer, and a writer that was
    /// refused tries again in each tick.
    pub(crate) is_prompt: bool,
    /// What must be seen to happen in it.
    pub(crate) sights: Vec<Sight>,
}

/// Something that has to be possible, or the scope is about nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sight {
    /// Two readers hold the lock together.
    Together,
    /// A writer holds it, and a reader has held it or will.
    InTurn,
    Extended,
    /// A crash takes a grant that was not synced.
    LostGrant,
    /// A reader holds it with the vote of a node that has started again.
    AfterRestart,
    /// One reader is left after an operator has ended another one's hold.
    AfterForce,
    /// A reader is kept out for a writer that waits.
    KeptOut,
}

/// What is wrong with what the model mirrors: what a reply waits for, and how long a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    None,
    RepliesBeforeSync,
    DelayOneTickShort,
}

impl Mutant {
    /// The change in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::None => "the rules as they are",
            Self::RepliesBeforeSync => "a reader is told of its grant before that is synced",
            Self::DelayOneTickShort => "a node that has forgotten readers waits one tick too short",
        }
    }
}

/// The scopes, each explored completely.
pub(crate) fn scopes(size: Size) -> Vec<Scope> {
    let more = u8::from(size == Size::Full);
    let readers = Scope {
        name: "readers",
        about: "two readers and a writer, which release or do not",
        askers: meeting([released(READER), READER, WRITER]),
        ticks: 2 + more,
        sights: vec![Sight::Together, Sight::InTurn],
        ..plain()
    };
    let extending = Asker {
        extensions: 1,
        ..READER
    };
    let extension = Scope {
        name: "readers, extension",
        about: "a reader that extends, one that does not, and a writer",
        askers: meeting([extending, READER, WRITER]),
        ticks: 3,
        sights: vec![Sight::Together, Sight::Extended],
        ..plain()
    };
    let retried = Asker {
        attempts: 2,
        may_cancel: true,
        may_release: more == 0,
        ..READER
    };
    let late = Scope {
        name: "readers, late",
        about: "an attempt to read that is given up, and its late requests",
        askers: vec![unheard(retried, 2), unheard(WRITER, 1)],
        ticks: 1 + more,
        has_late_requests: true,
        sights: vec![Sight::InTurn],
        ..plain()
    };
    let operator = Scope {
        name: "readers, operator",
        about: "an operator ends the hold of one of two readers",
        askers: meeting([READER, READER, WRITER]),
        ticks: 2,
        budget: Budget {
            forced_releases: 1,
            ..Budget::default()
        },
        sights: vec![Sight::Together, Sight::AfterForce],
        ..plain()
    };
    let again = Asker {
        attempts: 2,
        ..READER
    };
    let starvation = Scope {
        name: "readers, starvation",
        about: "two readers that come again and again, and a writer that tries in each tick",
        askers: vec![again, READER, WRITER],
        ticks: 4,
        is_prompt: true,
        sights: vec![Sight::KeptOut, Sight::InTurn],
        ..plain()
    };
    let mut all = vec![readers, extension, late, operator];
    // Millions of states.
    all.extend(Some(starvation).filter(|_| more > 0));
    all.extend(failures(more));
    all
}

/// A node fails in these. Each client reaches that node and another one: two majorities that meet at a sound node do not
/// overlap.
fn failures(more: u8) -> [Scope; 3] {
    let extending = Asker {
        extensions: 1,
        ..READER
    };
    let two = vec![unheard(extending, 2), unheard(WRITER, 1)];
    let readers = vec![unheard(extending, 2), unheard(READER, 2)];
    let failing = Scope {
        ticks: 3 + more,
        failing: vec![0],
        ..plain()
    };
    let crashes = Scope {
        name: "readers, crashes",
        about: "power losses, which take grants and extensions, and a restart delay",
        askers: two.clone(),
        budget: Budget {
            power_losses: 1 + more,
            ..Budget::default()
        },
        sights: vec![Sight::LostGrant, Sight::Extended, Sight::InTurn],
        ..failing.clone()
    };
    let synced = Scope {
        name: "readers, synced",
        about: "power losses and kills without a restart delay: what was synced is replayed",
        askers: readers,
        ticks: 2,
        trusts_sync: true,
        budget: Budget {
            kills: 1,
            power_losses: 1,
            ..Budget::default()
        },
        sights: vec![Sight::Together, Sight::LostGrant, Sight::AfterRestart],
        ..failing.clone()
    };
    let lost_disk = Scope {
        name: "readers, lost disk",
        about: "a lost disk, and a reader that extends its lock there",
        askers: two,
        budget: Budget {
            lost_disks: 1,
            ..Budget::default()
        },
        sights: vec![Sight::LostGrant, Sight::Extended, Sight::InTurn],
        ..failing
    };
    [crashes, synced, lost_disk]
}

/// Five nodes and four clients with everything allowed at once: for random walks.
pub(crate) fn everything() -> Scope {
    let reader = Asker {
        attempts: 3,
        extensions: 2,
        may_cancel: true,
        ..released(READER)
    };
    let writer = Asker {
        is_reader: false,
        ..reader
    };
    Scope {
        name: "readers, five nodes",
        about: "everything at once, by random walks",
        nodes: 5,
        askers: vec![reader, reader, writer, writer],
        ticks: 10,
        budget: Budget {
            kills: 0,
            power_losses: 3,
            lost_disks: 2,
            forced_releases: 1,
        },
        failing: vec![0, 1, 2, 3, 4],
        has_late_requests: true,
        sights: vec![
            Sight::Together,
            Sight::Extended,
            Sight::LostGrant,
            Sight::InTurn,
        ],
        ..plain()
    }
}

/// Each mutant of what is mirrored, and the small scope that catches it.
pub(crate) fn mutants() -> Vec<(Mutant, Scope)> {
    catching(
        [
            (Mutant::RepliesBeforeSync, "readers, synced"),
            (Mutant::DelayOneTickShort, "readers, crashes"),
        ],
        &scopes(Size::Small),
        |scope| scope.name,
    )
}

fn released(asker: Asker) -> Asker {
    Asker {
        may_release: true,
        ..asker
    }
}

/// Of three clients each two meet at one node, which both need.
fn meeting([first, second, third]: [Asker; 3]) -> Vec<Asker> {
    vec![unheard(first, 2), unheard(second, 1), unheard(third, 0)]
}

fn unheard(asker: Asker, node: u8) -> Asker {
    Asker {
        unheard: Some(node),
        ..asker
    }
}

const READER: Asker = Asker {
    is_reader: true,
    ..WRITER
};

const WRITER: Asker = Asker {
    is_reader: false,
    attempts: 1,
    extensions: 0,
    may_cancel: false,
    may_release: false,
    unheard: None,
};

fn plain() -> Scope {
    Scope {
        name: "",
        about: "",
        nodes: 3,
        askers: Vec::new(),
        ticks: 0,
        budget: Budget::default(),
        failing: Vec::new(),
        trusts_sync: false,
        has_late_requests: false,
        is_prompt: false,
        sights: Vec::new(),
    }
}
