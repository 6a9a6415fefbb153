//! Moments as people read them. No rule depends on them.

use std::fmt;
use std::time::Duration;

/// A moment in UTC, shown as Redis writes it in its log: `20 Nov 2026 16:57:47.123`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    year: u64,
    /// 0 is January.
    month: usize,
    day: u64,
    second_of_day: u64,
    ms: u32,
}

impl Date {
    /// The date of a time since 1970, by the calendar whose year begins in March, so that the
    /// leap day is the last one.
    pub fn of(since_1970: Duration) -> Self {
        let days = since_1970.as_secs() / DAY_SECONDS + DAYS_FROM_YEAR_0_TO_1970;
        let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
        let leap_days = day_of_era / 1_460 + day_of_era / 146_096 - day_of_era / 36_524;
        let year_of_era = (day_of_era - leap_days) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = usize::try_from((month_from_march + 2) % 12).expect("it is below 12");
        let year = era * 400 + year_of_era + u64::from(month < 2);
        let second_of_day = since_1970.as_secs() % DAY_SECONDS;
        Self {
            year,
            month,
            day,
            second_of_day,
            ms: since_1970.subsec_millis(),
        }
    }
}

impl Date {
    /// The same as in RFC 3339, which programs read.
    pub fn rfc_3339(&self) -> String {
        let (hour, minute) = (self.second_of_day / 3_600, self.second_of_day / 60 % 60);
        let (second, ms) = (self.second_of_day % 60, self.ms);
        format!(
            "{:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z",
            self.year,
            self.month + 1,
            self.day
        )
    }
}

impl fmt::Display for Date {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let month = MONTHS.get(self.month).copied().unwrap_or("???");
        let (hour, minute) = (self.second_of_day / 3_600, self.second_of_day / 60 % 60);
        let (second, ms) = (self.second_of_day % 60, self.ms);
        write!(
            formatter,
            "{:02} {month} {} {hour:02}:{minute:02}:{second:02}.{ms:03}",
            self.day, self.year
        )
    }
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAY_SECONDS: u64 = 86_400;
const ERA_DAYS: u64 = 146_097;
/// From 1 March of the year 0.
const DAYS_FROM_YEAR_0_TO_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "01 Jan 1970 00:00:00.000"),
            (951_782_399_999, "28 Feb 2000 23:59:59.999"),
            (951_782_400_000, "29 Feb 2000 00:00:00.000"),
            (951_868_800_000, "01 Mar 2000 00:00:00.000"),
            (1_735_689_599_000, "31 Dec 2024 23:59:59.000"),
            (1_795_194_000_123, "20 Nov 2026 17:00:00.123"),
            (4_107_542_400_000, "01 Mar 2100 00:00:00.000"),
        ];
        for (ms, text) in cases {
            assert_eq!(Date::of(Duration::from_millis(ms)).to_string(), text);
        }
        let leap_day = Date::of(Duration::from_millis(951_782_400_007));
        assert_eq!(leap_day.rfc_3339(), "2000-02-29T00:00:00.007Z");
    }
}
