//! The ways in which the protocol could have been built wrong, one at a time.
//!
//! Invariant: a mutant changes one rule, where that rule is kept, and nothing else. A
//! model that does not catch all of them proves nothing about the rules it passes.

/// What is wrong with the protocol that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    /// Nothing: the rules as they are.
    None,
    DelayOneTickShort,
    NoDelay,
    CleanStopErasesDelay,
    NoLogStopWithoutDelay,
    ModeFromConfiguration,
    BoundLoweredAhead,
    BoundNotDurable,
    CapLimitsBound,
    RepairKeepsBound,
    RecoveredCappedByToday,
    DiskTrusted,
    UncoveredNotSynced,
    ShutdownSticks,
    DelayForgottenByCrash,
    DelayOfOtherBootPassed,
    DelayBeginsAnew,
    WeakerModeNotDurable,
    DeadlinesNotRebased,
    ExtensionNotCovered,
    ExtensionShortens,
    ExtensionCreates,
    ReleaseWithoutOwner,
    NowCached,
    StartedAfterReplies,
    TokenReused,
    NodeCountedTwice,
    NoSpareVote,
    ClockTotals,
    SuspendNotAdded,
    NoDriftAllowance,
}

impl Mutant {
    /// The change in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::None => "the rules as they are",
            Self::DelayOneTickShort => "the restart delay is P less one tick of the clock",
            Self::NoDelay => "there is no restart delay",
            Self::CleanStopErasesDelay => "a clean stop inside the delay erases it",
            Self::NoLogStopWithoutDelay => "a clean stop without a log leaves no delay",
            Self::ModeFromConfiguration => "the mode is today's configuration, not the log's",
            Self::BoundLoweredAhead => "P is lowered before what precedes it is durable",
            Self::BoundNotDurable => "a grant is revealed before its PROMISE is durable",
            Self::CapLimitsBound => "the cap of today's configuration limits a recovered P",
            Self::RepairKeepsBound => "a repaired log keeps its P",
            Self::RecoveredCappedByToday => {
                "what a run without a log has recovered is owed up to today's cap only"
            }
            Self::DiskTrusted => "what the disk acknowledged counts although the machine went down",
            Self::UncoveredNotSynced => "a TTL beyond the cap is not synced before the reply",
            Self::ShutdownSticks => "a SHUTDOWN counts although records follow it",
            Self::DelayForgottenByCrash => "a crash inside the delay ends it",
            Self::DelayOfOtherBootPassed => "a delay of another boot counts as passed",
            Self::DelayBeginsAnew => "a crash loop restarts the delay each time",
            Self::WeakerModeNotDurable => "weaker replies leave before MODE is durable",
            Self::DeadlinesNotRebased => "deadlines are not re-based in another boot",
            Self::ExtensionNotCovered => "P does not cover an extension lost in a crash",
            Self::ExtensionShortens => "a shorter extension shortens the lease",
            Self::ExtensionCreates => "an extension creates a key that is gone",
            Self::ReleaseWithoutOwner => "a release does not compare the token",
            Self::NowCached => "a node's `now` is cached before the request is read",
            Self::StartedAfterReplies => "the client samples t0 after the replies",
            Self::TokenReused => "a retry reuses the token (late release of attempt 1)",
            Self::NoSpareVote => "a bare majority is enough where a node may forget",
            Self::NodeCountedTwice => "a node under two names votes twice",
            Self::ClockTotals => "the client compares totals of its clocks, not differences",
            Self::SuspendNotAdded => "the raw clock is used without the time slept",
            Self::NoDriftAllowance => "the client takes nothing off for drift",
        }
    }
}
