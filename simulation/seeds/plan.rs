//! What a seed stands for.

use std::ops::Range;

use quorlock_client_rules::name::LockName;
use quorlock_simulation::Random;

use super::calls::lock_name;
use super::fault_class::FaultClass;

/// One run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Where every choice comes from.
    pub(crate) seed: u64,
    /// How many nodes.
    pub(crate) nodes: usize,
    /// How many clients.
    pub(crate) clients: usize,
    /// Callers of each client.
    pub(crate) callers: usize,
    /// How many locks they want.
    pub(crate) names: u64,
    /// Of how many permits each is a semaphore, if they are no locks.
    pub(crate) permits: Option<u32>,
    /// How many votes besides a majority every client asks for.
    pub(crate) spare_votes: usize,
    /// The length of a lease.
    pub(crate) ttl_ms: u64,
    /// How long others wait after an end that was not a release; some holders die.
    pub(crate) lock_delay_ms: u64,
    /// Locks have fences.
    pub(crate) is_fenced: bool,
    /// Most callers read.
    pub(crate) has_readers: bool,
    /// Callers take locks for an owner.
    pub(crate) has_owners: bool,
    /// An operator ends locks that callers hold.
    pub(crate) has_forced_releases: bool,
    /// Nodes that lost power trust their disks.
    pub(crate) trusts_fsync: bool,
    /// The longest way from a client to a node, in microseconds.
    pub(crate) latency_us: u64,
    /// `appendfsync` of all nodes.
    pub(crate) fsync: &'static str,
    /// What goes wrong.
    pub(crate) faults: FaultClass,
    /// At how many nodes at a time, where that is one at a time or two of five.
    pub(crate) away: usize,
    /// These nodes go and come back together.
    pub(crate) is_together: bool,
    /// How long things go wrong, in seconds.
    pub(crate) length_s: u64,
    /// Hundreds of callers wait for one lock, and hold it for a moment.
    pub(crate) is_crowded: bool,
    /// Three clients that are as far from three nodes, without jitter, or two from four, ask at the same moments, again
    /// and again.
    pub(crate) is_in_step: bool,
    /// Some locks are handed over to a client that knows their token, or are released by another client.
    pub(crate) is_by_token: bool,
    /// Callers want one of the names, or some of them together.
    pub(crate) is_several: bool,
    /// Callers of three clients want one lock, and all of them wait for it, for a minute.
    pub(crate) is_waiting: bool,
    /// Nodes let clients stand in line; else they only tell them of changes.
    pub(crate) has_lines: bool,
    /// One of these clients is far away, and the others are near and hold the lock for a moment.
    pub(crate) is_far: bool,
    /// Members are added while clients with lists of three lengths take locks.
    pub(crate) has_changing_members: bool,
    /// Callers are candidates, and each client has an observer.
    pub(crate) is_election: bool,
}

impl Plan {
    /// The run of a seed.
    pub(crate) fn of(seed: u64) -> Plan {
        let mut random = Random::of(&[seed, 1]);
        let latency_us = random.pick(&[50, 1_000, 20_000, 100_000, 250_000]);
        // A lease has to outlast a few round trips, or no client could hold a lock.
        let ttl_ms = random
            .pick(&[500, 2_000, 10_000])
            .max(latency_us * 40 / 1_000);
        let all = [
            FaultClass::None,
            FaultClass::Pauses,
            FaultClass::Silence,
            FaultClass::Crashes,
            FaultClass::Network,
            FaultClass::Answers,
            FaultClass::Disks,
            FaultClass::Clocks,
            FaultClass::CutOff,
            FaultClass::Entries,
            FaultClass::All,
        ];
        // Apart, so that a seed is the same run in everything else.
        let apart = match Random::of(&[seed, 9]).below(24) {
            0 | 1 => Some(FaultClass::RolledBack),
            2 => Some(FaultClass::StoppedClocks),
            _ => None,
        };
        let plan = Plan {
            seed,
            nodes: random.pick(&[3, 5, 5]),
            clients: random.pick(&[1, 2, 3]),
            callers: random.pick(&[1, 2, 4]),
            names: random.pick(&[1, 2]),
            ttl_ms,
            latency_us,
            fsync: random.pick(&["always", "everysec", "no"]),
            faults: apart.unwrap_or(random.pick(&all)),
            away: 1,
            length_s: 60,
            is_by_token: apart != Some(FaultClass::StoppedClocks)
                && Random::of(&[seed, 7]).chance(1, 3),
            has_lines: true,
            ..Plan::default()
        };
        let plan = match random.below(48) {
            0 => plan.crowded(random.pick(&[100, 200])),
            1..4 => plan.in_step(&mut random),
            _ => plan.with_away(&mut random),
        };
        plan.of_its_kind()
    }

    /// Apart as well: some seeds have another kind of locks, and some an operator.
    fn of_its_kind(self) -> Plan {
        let seed = self.seed;
        let plan = match Random::of(&[seed, 13]).below(16) {
            0 => self.delayed(),
            1 | 2 => self.fenced(),
            3 => self.of_permits(Random::of(&[seed, 15]).pick(&[1, 2, 3])),
            4 => self.of_several(),
            5 => self.waiting(),
            6 => self.with_readers(),
            7 => self.electing(),
            _ => self,
        };
        match Random::of(&[seed, 17]).chance(1, 12) {
            true => plan.with_forced_releases(),
            false => plan,
        }
    }

    /// The same seed with locks that have one holder, no fence and no delay, and that nobody else ends; nodes trust no disk.
    pub(super) fn of_plain_locks(self) -> Plan {
        Plan {
            permits: None,
            lock_delay_ms: 0,
            is_fenced: false,
            has_readers: false,
            has_forced_releases: false,
            trusts_fsync: false,
            ..self
        }
    }

    /// The same seed with fences, where no node forgets what it took without knowing that: another disk under the same
    /// address is for the operator to tell.
    pub(crate) fn fenced(self) -> Plan {
        let is_known = self.nodes_are_known();
        Plan {
            permits: None,
            is_several: false,
            is_fenced: is_known,
            has_readers: false,
            trusts_fsync: is_known && Random::of(&[self.seed, 15]).chance(1, 2),
            ..self
        }
    }

    /// The same seed with semaphores of so many permits, and a few callers more, where callers do not ask in step.
    pub(crate) fn of_permits(self, permits: u32) -> Plan {
        if self.is_in_step {
            return self;
        }
        let wanted = permits as usize + 2;
        Plan {
            names: 1,
            is_waiting: false,
            permits: Some(permits),
            callers: self.callers.max(wanted.div_ceil(self.clients)),
            is_several: false,
            ..self.of_plain_locks()
        }
    }

    /// The same seed with callers that want several locks at once, of three, or one of them.
    pub(crate) fn of_several(self) -> Plan {
        Plan {
            names: 3,
            is_by_token: false,
            is_several: true,
            ..self.of_plain_locks()
        }
    }

    /// Whether no node forgets what it took without knowing that, and each client knows how long a validity lasts.
    pub(super) fn nodes_are_known(&self) -> bool {
        !matches!(
            self.faults,
            FaultClass::Entries
                | FaultClass::Emptied
                | FaultClass::RolledBack
                | FaultClass::StoppedClocks
                | FaultClass::All
        )
    }

    /// The same seed with an operator who ends locks while callers hold them, where no node forgets a lock besides that. No
    /// other caller knows the token.
    pub(crate) fn with_forced_releases(self) -> Plan {
        let is_busy = self.is_crowded || self.is_in_step || self.is_several || self.is_election;
        if is_busy || !self.nodes_are_known() {
            return self;
        }
        Plan {
            lock_delay_ms: 0,
            is_by_token: false,
            has_forced_releases: true,
            ..self
        }
    }

    /// What a caller may want. Where that is several names, the bits of a number are the names.
    pub(super) fn wishes(&self) -> Range<u64> {
        match self.is_several {
            true => 1..1 << self.names,
            false => 0..self.names,
        }
    }

    /// The wish for one name alone.
    pub(super) fn wish_for(&self, name: u64) -> u64 {
        if self.is_several { 1 << name } else { name }
    }

    /// The names of a wish.
    pub(super) fn names_of(&self, wish: u64) -> impl Iterator<Item = u64> + use<> {
        let is_several = self.is_several;
        (0..self.names).filter(move |name| match is_several {
            true => wish >> name & 1 == 1,
            false => *name == wish,
        })
    }

    /// The lock that is wished for.
    pub(super) fn lock(&self, wish: u64) -> LockName {
        LockName::of_all(self.names_of(wish).map(lock_name))
    }

    /// Whether a name may have more than one holder besides those of permits.
    pub(super) fn shares_names(&self) -> bool {
        self.has_readers || self.has_owners || self.has_forced_releases
    }

    /// How many may hold the same name at once.
    pub(super) fn holders_max(&self) -> usize {
        self.permits.unwrap_or(1) as usize
    }

    /// The same seed with callers of three clients that stand in line for one lock, where callers do not ask in step.
    pub(crate) fn waiting(self) -> Plan {
        if self.is_crowded || self.is_in_step {
            return self;
        }
        Plan {
            clients: 3,
            callers: self.callers.min(2),
            names: 1,
            permits: None,
            lock_delay_ms: 0,
            is_by_token: false,
            is_waiting: true,
            ..self
        }
    }

    /// The same with nodes that have no lines, as Redis and Valkey have none: callers wait for word of changes.
    pub(crate) fn waiting_for_word(self) -> Plan {
        Plan {
            has_lines: false,
            ..self.waiting()
        }
    }

    /// How long callers wait that do.
    pub(super) fn wait_ns(&self) -> u64 {
        match self.is_waiting {
            true => 3 * WAIT_NS,
            false => WAIT_NS,
        }
    }

    /// Whether callers that stand in line have a lock a while after its holder has done with it, whatever goes wrong: at one
    /// node after the other.
    pub(super) fn serves_lines(&self) -> bool {
        self.is_waiting && self.keeps_a_majority() && self.faults != FaultClass::Entries
    }

    /// The same seed with a lock delay, where its holders are told of a loss in time and nobody releases each other's locks.
    pub(crate) fn delayed(self) -> Plan {
        if self.is_crowded || self.is_in_step || self.faults == FaultClass::StoppedClocks {
            return self;
        }
        let part = Random::of(&[self.seed, 14]).pick(&[1, 2, 4]);
        Plan {
            permits: None,
            is_several: false,
            lock_delay_ms: self.ttl_ms / part,
            is_by_token: false,
            is_waiting: false,
            has_forced_releases: false,
            ..self
        }
    }

    /// How long nodes keep a lock that is not released.
    pub(super) fn kept_ms(&self) -> u64 {
        self.ttl_ms + self.lock_delay_ms
    }

    /// Whether calls stand in line. Who does is no danger where nodes forget: it does not find out.
    pub(super) fn stands_in_line(&self) -> bool {
        !matches!(self.faults, FaultClass::Emptied | FaultClass::RolledBack)
    }

    /// The same seed with three nodes that are 100 ms away, leases of a few of such ways, and connections that swallow
    /// everything: answers to renewals are under way while connections are given up.
    pub(crate) fn silence(seed: u64) -> Plan {
        let plan = Plan::of(seed);
        Plan {
            nodes: 3,
            callers: plan.callers.min(4),
            latency_us: 100_000,
            ttl_ms: 4_000,
            faults: FaultClass::Silence,
            away: 1,
            is_together: false,
            length_s: 60,
            is_crowded: false,
            is_in_step: false,
            is_several: false,
            is_waiting: false,
            ..plan.of_plain_locks()
        }
    }

    /// Half of the time as many nodes are away as leave a majority, and, of addresses that lead to another cluster than
    /// the one that clients are given, sometimes more.
    fn with_away(self, random: &mut Random) -> Plan {
        let minority = (self.nodes - 1) / 2;
        let away = match self.faults {
            FaultClass::Pauses | FaultClass::Network | FaultClass::Answers => {
                random.pick(&[1, minority])
            }
            FaultClass::Entries => random.pick(&[1, minority, minority, minority + 1]),
            _ => 1,
        };
        let is_together = match self.faults {
            FaultClass::Entries => true,
            FaultClass::Pauses => random.chance(1, 2),
            _ => false,
        };
        Plan {
            away,
            is_together,
            ..self
        }
    }

    fn crowded(self, callers: usize) -> Plan {
        Plan {
            callers,
            names: 1,
            length_s: 20,
            is_crowded: true,
            is_by_token: false,
            ..self
        }
    }

    fn in_step(self, random: &mut Random) -> Plan {
        // As many nodes as make a draw.
        let (nodes, clients) = random.pick(&[(3, 3), (4, 2)]);
        let latency_us = random.pick(&[1_000, 100_000, 250_000]);
        Plan {
            nodes,
            clients,
            callers: 1,
            names: 1,
            latency_us,
            ttl_ms: 10_000,
            faults: FaultClass::None,
            length_s: 300,
            is_in_step: true,
            is_by_token: false,
            ..self
        }
    }

    /// Whether a majority of the nodes holds a lock and answers in time whatever happens, so that no lock may be lost.
    pub(crate) fn keeps_a_majority(&self) -> bool {
        let is_minority = 2 * self.away < self.nodes;
        let is_checked = matches!(
            self.faults,
            FaultClass::None
                | FaultClass::Pauses
                | FaultClass::Silence
                | FaultClass::Network
                | FaultClass::Answers
                | FaultClass::Entries
        );
        is_minority && is_checked && !self.has_changing_members
    }

    /// Whether a lock is free on the nodes when its last caller has done with it, or a permit when its caller has: nothing goes
    /// wrong, and none ends by its ttl.
    pub(super) fn tells_when_free(&self) -> bool {
        self.faults == FaultClass::None
            && !self.is_by_token
            && self.lock_delay_ms == 0
            && !self.has_changing_members
    }

    /// Whether clients are given the id of their cluster: where a majority of the addresses may lead elsewhere.
    pub(super) fn tells_cluster(&self) -> bool {
        2 * self.away >= self.nodes
    }
}

const WAIT_NS: u64 = 20_000_000_000;
