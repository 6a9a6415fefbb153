//! Rates with their uncertainty, and quantiles.

/// The upper end of the 95 % interval of a rate of which `hits` of `trials` were seen, by Wilson's score
/// (E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927); 1 without trials.
pub fn wilson_upper(hits: u64, trials: u64) -> f64 {
    wilson(hits, trials).1
}

/// Both ends of that interval.
pub fn wilson(hits: u64, trials: u64) -> (f64, f64) {
    if trials == 0 {
        return (0.0, 1.0);
    }
    let (n, z2) = (trials as f64, Z * Z);
    let rate = hits as f64 / n;
    let centre = rate + z2 / (2.0 * n);
    let half = Z * (rate * (1.0 - rate) / n + z2 / (4.0 * n * n)).sqrt();
    let whole = 1.0 + z2 / n;
    (
        ((centre - half) / whole).max(0.0),
        ((centre + half) / whole).min(1.0),
    )
}

/// The value below which this share of the values lies; `None` without values. Sorts them.
pub fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a share of a length is a length"
    )]
    let index = (share.clamp(0.0, 1.0) * last as f64).round() as usize;
    values.get(index).copied()
}

/// Of 95 %.
const Z: f64 = 1.959_964;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_literature() {
        // Published figures: 0 of 20 is at most 16.1 %, 10 of 20 lies between 29.9 and 70.1 %.
        let (low, high) = wilson(0, 20);
        assert!(low == 0.0 && (high - 0.161).abs() < 0.001, "{high}");
        let (low, high) = wilson(10, 20);
        assert!((low - 0.299).abs() < 0.001 && (high - 0.701).abs() < 0.001);
        assert_eq!(wilson_upper(0, 0), 1.0);
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        assert_eq!(quantile(&mut [], 0.5), None);
        let mut values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(quantile(&mut values, 0.5), Some(3.0));
        assert_eq!(quantile(&mut values, 1.0), Some(5.0));
        assert_eq!(quantile(&mut values, 0.0), Some(1.0));
    }
}
