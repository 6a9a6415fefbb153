//! What a comparison came to: its `summary.json`.
//!
//! Invariant: a summary is a function of the plan, the environment and the steps that were carried out. What changes a
//! field's meaning raises the number.

use serde::{Deserialize, Serialize};

use super::faults::Survival;
use super::load::Load;
use super::plan::{Blow, ComparisonPlan, SkippedService};
use super::service::Service;
use super::{ComparisonOutcome, ComparisonRound};
use crate::statistics::quantile;

/// The number of the schema.
pub const FORMAT: u32 = 1;
/// What stands behind the version of a program that was built without optimisation.
pub const DEBUG_BUILD: &str = "(a debug build, which is slower)";
/// What distinguishes it from the summaries of other experiments.
pub const KIND: &str = "compare";

/// A whole comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`KIND`].
    pub kind: String,
    /// [`FORMAT`].
    pub format: u32,
    /// Whether everything that was planned was carried out.
    pub is_complete: bool,
    /// What was asked for.
    pub plan: ComparisonPlan,
    /// Where it ran.
    pub environment: Vec<(String, String)>,
    /// A row for each service that was measured.
    pub services: Vec<ServiceSummary>,
    /// What was not tried, with the reason.
    pub skipped: Vec<SkippedService>,
    /// What failed, with the reason.
    pub failed: Vec<SkippedService>,
}

/// All that was found out about one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceSummary {
    /// Which.
    pub service: Service,
    /// Its version.
    pub version: String,
    /// What it is.
    pub is: String,
    /// Rounds that were measured.
    pub rounds: u32,
    /// Callers with a lock of their own each.
    pub apart: Option<LoadFigures>,
    /// Callers that want the same lock.
    pub together: Option<LoadFigures>,
    /// Faults, with what they came to.
    pub faults: Vec<Survival>,
}

/// The figures of one load over all rounds: median, lowest, highest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadFigures {
    /// Locks taken and given back a second.
    pub rate: [f64; 3],
    /// From the request to the lock, half of them.
    pub p50_us: [f64; 3],
    /// All but one in a hundred.
    pub p99_us: [f64; 3],
    /// Locks in all rounds together.
    pub cycles: u64,
    /// Calls that failed.
    pub failed: u64,
    /// The words of the first failure.
    pub first_failure: Option<String>,
    /// Locks that were granted while another caller had not given them back.
    pub overlaps: u64,
    /// Where all want the same lock: how many of a hundred went to the caller that had asked first.
    #[serde(default)]
    pub in_order_percent: Option<[f64; 3]>,
    /// There, the longest wait of a round, in turns of all callers.
    #[serde(default)]
    pub longest_turns: Option<[f64; 3]>,
}

impl Comparison {
    /// Sums up what was carried out so far.
    pub fn of(
        plan: &ComparisonPlan,
        environment: Vec<(String, String)>,
        versions: &[(Service, String)],
        outcome: &ComparisonOutcome,
        is_over: bool,
    ) -> Comparison {
        let version = |service: Service| {
            let found = versions.iter().find(|(known, _)| *known == service);
            found
                .map(|(_, version)| version.clone())
                .unwrap_or_default()
        };
        let tried = |service: &&Service| {
            outcome
                .rounds
                .iter()
                .any(|round| round.service == **service)
                || outcome
                    .faults
                    .iter()
                    .any(|fault| fault.service == **service)
        };
        let services = plan.services.iter().filter(tried);
        let failures = outcome.failures.iter();
        Comparison {
            kind: KIND.to_owned(),
            format: FORMAT,
            is_complete: is_over && !outcome.is_cancelled && outcome.failures.is_empty(),
            plan: plan.clone(),
            environment,
            services: services
                .map(|service| ServiceSummary::of(*service, version(*service), outcome))
                .collect(),
            skipped: plan.skipped.clone(),
            failed: failures
                .map(|(service, reason)| SkippedService {
                    service: *service,
                    reason: reason.clone(),
                })
                .collect(),
        }
    }

    /// Whether our own program was built without optimisation, as its environment says.
    pub fn is_of_debug_build(&self) -> bool {
        let mut facts = self.environment.iter();
        facts.any(|(name, value)| name == "quorlock" && value.ends_with(DEBUG_BUILD))
    }

    /// Locks of ours that had two holders where none are allowed.
    pub fn defects(&self) -> u64 {
        let own = self.services.iter();
        let own = own.filter(|row| row.service.is_ours());
        own.map(|row| {
            let violated = row.faults.iter().map(|fault| u64::from(fault.violated));
            violated.sum::<u64>() + row.overlaps()
        })
        .sum()
    }
}

impl ServiceSummary {
    fn of(service: Service, version: String, outcome: &ComparisonOutcome) -> ServiceSummary {
        let rounds: Vec<&ComparisonRound> = outcome
            .rounds
            .iter()
            .filter(|round| round.service == service)
            .collect();
        let loads = |of: fn(&ComparisonRound) -> &Load| -> Vec<&Load> {
            rounds.iter().map(|round| of(round)).collect()
        };
        let faults = outcome.faults.iter();
        ServiceSummary {
            service,
            version,
            is: service.is_at_length(),
            rounds: u32::try_from(rounds.len()).unwrap_or(u32::MAX),
            apart: LoadFigures::of(&loads(|round| &round.apart)),
            together: LoadFigures::of(&loads(|round| &round.together)),
            faults: faults
                .filter(|fault| fault.service == service)
                .cloned()
                .collect(),
        }
    }

    /// Locks of the loads that were granted while another caller had not given them back.
    pub fn overlaps(&self) -> u64 {
        let loads = self.apart.iter().chain(&self.together);
        total(loads.map(|figures| figures.overlaps))
    }

    /// What a fault came to.
    pub fn fault(&self, blow: Blow) -> Option<&Survival> {
        self.faults.iter().find(|fault| fault.blow == blow)
    }
}

impl LoadFigures {
    fn of(loads: &[&Load]) -> Option<LoadFigures> {
        let spread = |mut values: Vec<f64>| -> Option<[f64; 3]> {
            Some([
                quantile(&mut values, 0.5)?,
                quantile(&mut values, 0.0)?,
                quantile(&mut values, 1.0)?,
            ])
        };
        let rates = loads
            .iter()
            .map(|load| load.cycles as f64 / load.seconds.max(1e-9));
        let of = |index: usize| {
            let times = loads.iter().filter_map(|load| load.acquire_us);
            times.map(|us| us[index]).collect()
        };
        let mut failures = loads.iter().filter_map(|load| load.first_failure.clone());
        let shared = || loads.iter().filter(|load| load.longest_turns.is_some());
        let in_order_percent =
            |load: &&Load| 100.0 * load.in_order as f64 / load.cycles.max(1) as f64;
        Some(LoadFigures {
            rate: spread(rates.collect())?,
            p50_us: spread(of(0))?,
            p99_us: spread(of(1))?,
            cycles: total(loads.iter().map(|load| load.cycles)),
            failed: total(loads.iter().map(|load| load.failed)),
            first_failure: failures.next(),
            overlaps: total(loads.iter().map(|load| load.overlaps)),
            in_order_percent: spread(shared().map(in_order_percent).collect()),
            longest_turns: spread(shared().filter_map(|load| load.longest_turns).collect()),
        })
    }
}

/// Of figures that may come from a file.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::super::{BlowOutcome, Kind, SystemKind};
    use super::*;
    use crate::cell::FsyncMode;

    fn load(cycles: u64, p50: f64) -> Load {
        Load {
            seconds: 2.0,
            cycles,
            acquire_us: Some([p50, 2.0 * p50]),
            ..Load::default()
        }
    }

    pub(crate) fn plan() -> ComparisonPlan {
        let mut services = Kind::Quorlock.services(&[FsyncMode::Always, FsyncMode::No]);
        services.extend(Kind::Etcd.services(&[]));
        ComparisonPlan {
            services,
            skipped: vec![SkippedService {
                service: Service::Postgresql,
                reason: "no server <was> named".to_owned(),
            }],
            rounds: 3,
            round: Duration::from_secs(2),
            callers: 8,
            contenders: 4,
            fault_trials: 1,
        }
    }

    /// Three rounds of every service but the last, and a fault of the first.
    pub(crate) fn outcome() -> ComparisonOutcome {
        let mut outcome = ComparisonOutcome::default();
        let services = plan().services;
        for (number, cycles) in [(1, 4000), (2, 2000), (3, 6000)] {
            let measured = services[..services.len() - 1].iter();
            outcome
                .rounds
                .extend(measured.map(|service| ComparisonRound {
                    service: *service,
                    number,
                    apart: load(cycles, f64::from(number) * 100.0),
                    together: Load {
                        in_order: 99,
                        longest_turns: Some(f64::from(number)),
                        ..load(100, 500.0)
                    },
                }));
        }
        outcome.faults.push(Survival {
            service: services[0],
            blow: Blow::PowerWorst,
            outcome: BlowOutcome::OneHolder,
            trials: 1,
            violated: 0,
            overlap_ms: 0.0,
            waited_ms: Some(1500.0),
            no_locks_ms: None,
            reason: None,
        });
        outcome
    }

    pub(crate) fn comparison(outcome: &ComparisonOutcome) -> Comparison {
        let versions = plan().services.into_iter();
        let versions: Vec<_> = versions.map(|it| (it, "1.2.3".to_owned())).collect();
        let environment = vec![("processor".to_owned(), "<b>fast</b>".to_owned())];
        Comparison::of(&plan(), environment, &versions, outcome, true)
    }

    #[test]
    fn a_row_is_the_median_round_with_the_lowest_and_the_highest() {
        let comparison = comparison(&outcome());
        assert_eq!(
            comparison.services.len(),
            3,
            "what was not measured has no row"
        );
        let apart = comparison.services[0]
            .apart
            .as_ref()
            .expect("it was measured");
        assert_eq!(apart.rate, [2000.0, 1000.0, 3000.0]);
        assert_eq!(apart.p50_us, [200.0, 100.0, 300.0]);
        assert_eq!(apart.p99_us, [400.0, 200.0, 600.0]);
        assert_eq!((apart.cycles, comparison.services[0].rounds), (12_000, 3));
        assert_eq!((apart.in_order_percent, apart.longest_turns), (None, None));
        let together = comparison.services[0]
            .together
            .as_ref()
            .expect("it was measured");
        assert_eq!(together.in_order_percent, Some([99.0; 3]));
        assert_eq!(together.longest_turns, Some([2.0, 1.0, 3.0]));
        let text = serde_json::to_string(&comparison).expect("it has a text");
        assert!(
            text.starts_with("{\"kind\":\"compare\",\"format\":1,"),
            "{text}"
        );
        let again: Comparison = serde_json::from_str(&text).expect("as it was written");
        assert_eq!(again, comparison);
    }

    #[test]
    fn what_was_interrupted_or_failed_is_not_complete() {
        let whole = outcome();
        assert!(comparison(&whole).is_complete);
        let mut cancelled = outcome();
        cancelled.is_cancelled = true;
        assert!(!comparison(&cancelled).is_complete);
        let mut failed = outcome();
        failed
            .failures
            .push((Service::Etcd(3), "no ports".to_owned()));
        let failed = comparison(&failed);
        assert!(!failed.is_complete && failed.failed[0].reason == "no ports");
        let over = Comparison::of(&plan(), Vec::new(), &[], &whole, false);
        assert!(!over.is_complete);
    }

    #[test]
    fn two_holders_are_a_defect_of_our_own_nodes_alone() {
        for (service, defects) in [(0, 1), (2, 0)] {
            let mut outcome = outcome();
            outcome.faults[0].service = plan().services[service];
            outcome.faults[0].violated = 1;
            outcome.faults[0].outcome = BlowOutcome::TwoHolders;
            let comparison = comparison(&outcome);
            assert_eq!(comparison.defects(), defects);
            let mut faults = comparison.services[service].faults.iter();
            assert!(faults.any(|fault| fault.outcome == BlowOutcome::TwoHolders));
        }
        let mut outcome = outcome();
        outcome.rounds[0].together.overlaps = 2;
        assert_eq!(comparison(&outcome).defects(), 2);
    }

    #[test]
    fn two_holders_are_a_defect_of_our_client_where_the_system_loses_no_lock() {
        for (system, defects) in [(SystemKind::Etcd, 2), (SystemKind::Sentinel, 0)] {
            let mut outcome = outcome();
            outcome.rounds[0].service = Service::Client(system);
            outcome.rounds[0].together.overlaps = 2;
            let plan = ComparisonPlan {
                services: vec![Service::Client(system)],
                ..plan()
            };
            let comparison = Comparison::of(&plan, Vec::new(), &[], &outcome, true);
            assert_eq!(comparison.defects(), defects, "{system}");
            assert_eq!(comparison.services[0].overlaps(), 2);
        }
    }
}
