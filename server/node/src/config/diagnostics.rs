//! Directives about what is noted of commands: the slow log, the latency monitor, and what ACL LOG keeps.

use std::fmt;

use super::directive::Directive;
use super::error::Problem;
use super::value::{decimal_millionths, integer, one, show_yes_or_no, yes_or_no};

/// What is noted and shown of how long things took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// From how long on LATENCY notes an event; 0: none is.
    pub monitor_threshold_ms: u64,
    /// Whether it is shown how long the calls of each command took.
    pub tracking: bool,
    /// Of which parts of the calls INFO shows it.
    pub percentiles: Vec<Percentile>,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            monitor_threshold_ms: 0,
            tracking: true,
            percentiles: Percentile::DEFAULT.to_vec(),
        }
    }
}

/// Those that a node uses.
pub(super) const USED: &[Directive] = &[
    Directive::live(
        "slowlog-log-slower-than",
        "10000",
        "-1 to 9223372036854775807, in microseconds, -1 = none",
        "A command that takes as long is in SLOWLOG. 0: every command, each of which then costs two readings of the clock.",
        |c, v| integer(one(v)?, -1, i64::MAX).map(|us| c.slowlog_log_slower_than = us),
        |c| c.slowlog_log_slower_than.to_string(),
    ),
    Directive::live(
        "slowlog-max-len",
        "128",
        "0 to 9223372036854775807",
        "How many entries SLOWLOG keeps. It keeps fewer where they take more than 16 MiB.",
        |c, v| integer(one(v)?, 0, usize::MAX >> 1).map(|entries| c.slowlog_max_len = entries),
        |c| c.slowlog_max_len.to_string(),
    ),
    Directive::live(
        "latency-monitor-threshold",
        "0",
        "0 to 9223372036854775807, in milliseconds, 0 = off",
        "`LATENCY` has what took as long: commands, and syncs and direct writes of the log.",
        |c, v| {
            let ms = integer(one(v)?, 0, i64::MAX)?;
            c.latency.monitor_threshold_ms = ms.unsigned_abs();
            Ok(())
        },
        |c| c.latency.monitor_threshold_ms.to_string(),
    ),
    Directive::live(
        "latency-tracking",
        "yes",
        "`yes`, `no`",
        "Whether `INFO latencystats` and `LATENCY HISTOGRAM` show how long the calls of each command took.",
        |c, v| yes_or_no(one(v)?).map(|yes| c.latency.tracking = yes),
        |c| show_yes_or_no(c.latency.tracking),
    ),
    Directive::live(
        "latency-tracking-info-percentiles",
        "50 99 99.9",
        "up to 16 percentages, 0 to 100 with at most six decimals",
        "The percentiles that `INFO latencystats` shows.",
        |c, v| percentiles(v).map(|parts| c.latency.percentiles = parts),
        |c| {
            let shown = c.latency.percentiles.iter();
            shown
                .map(Percentile::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        },
    ),
    Directive::live(
        "acllog-max-len",
        "128",
        "0 to 100000",
        "How many entries ACL LOG keeps.",
        |c, v| integer(one(v)?, 0, 100_000).map(|entries| c.acllog_max_len = entries),
        |c| c.acllog_max_len.to_string(),
    ),
];

/// So many percent of all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentile {
    millionths: u32,
}

impl Percentile {
    /// Redis's.
    pub(super) const DEFAULT: [Percentile; 3] = [
        Percentile {
            millionths: 50_000_000,
        },
        Percentile {
            millionths: 99_000_000,
        },
        Percentile {
            millionths: 99_900_000,
        },
    ];

    /// In millionths of a percent.
    pub(crate) const fn millionths(self) -> u32 {
        self.millionths
    }
}

impl fmt::Display for Percentile {
    /// Without superfluous decimals, as Redis shows it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.millionths / 1_000_000, self.millionths % 1_000_000);
        let text = format!("{whole}.{fraction:06}");
        formatter.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// As words or as one text (CONFIG SET).
fn percentiles(values: &[String]) -> Result<Vec<Percentile>, Problem> {
    let words = values
        .iter()
        .flat_map(|value| value.split_ascii_whitespace());
    let percentiles = words.map(|word| {
        let (is_below, number) = match word.strip_prefix('-') {
            Some(number) => (true, number),
            None => (false, word),
        };
        let number = decimal_millionths(number).ok_or_else(|| Problem::new(NO_PERCENTILE))?;
        match u32::try_from(number) {
            Ok(millionths @ 0..=100_000_000) if !is_below => Ok(Percentile { millionths }),
            _ => Err(Problem::new(OUT_OF_BOUNDS)),
        }
    });
    let percentiles = percentiles.collect::<Result<Vec<_>, Problem>>()?;
    match percentiles.len() > PERCENTILES_MAX {
        true => Err(Problem::new(TOO_MANY)),
        false => Ok(percentiles),
    }
}

const PERCENTILES_MAX: usize = 16;
const NO_PERCENTILE: &str = "Invalid latency-tracking-info-percentiles parameters";
const OUT_OF_BOUNDS: &str =
    "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]";
const TOO_MANY: &str = "argument must be up to 16 percentages";

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn percentiles_are_words_or_one_text_and_shown_without_superfluous_decimals() {
        let name = "latency-tracking-info-percentiles";
        let mut config = Config::default();
        for (values, shown) in [
            (
                &["0.0 50.50", "99.999999", "100"][..],
                "0 50.5 99.999999 100",
            ),
            (&[""], ""),
        ] {
            config.set(name, values).expect("they are percentages");
            assert_eq!(config.value_of(name).as_deref(), Some(shown));
        }
        let many = ["1"; 17];
        config.set(name, &many[..16]).expect("so many are kept");
        config.set(name, &many).expect_err("and no more");
        for wrong in ["50 100.000001", "-1", "50 x"] {
            config.set(name, &[wrong]).expect_err(wrong);
        }
    }
}
