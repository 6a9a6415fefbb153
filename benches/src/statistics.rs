//! Medians, spreads and ratios of a few measurements.

/// The middle of several values and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

impl Summary {
    /// `None` without values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&lowest, &highest) = (sorted.first()?, sorted.last()?);
        let half = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[half]
        } else {
            f64::midpoint(sorted[half - 1], sorted[half])
        };
        Some(Self {
            median,
            lowest,
            highest,
        })
    }

    /// Ours divided by theirs, round by round: what drifts from round to round cancels out.
    pub(crate) fn of_ratios(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        Self::of(ours.iter().zip(theirs).map(|(one, other)| one / other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_middle_and_the_ends() {
        let odd = Summary::of([3.0, 1.0, 2.0]);
        assert_eq!(
            odd,
            Some(Summary {
                median: 2.0,
                lowest: 1.0,
                highest: 3.0
            })
        );
        assert_eq!(
            Summary::of([1.0, 2.0]).map(|summary| summary.median),
            Some(1.5)
        );
        assert_eq!(Summary::of([]), None);
        let ratios = Summary::of_ratios(&[2.0, 4.0, 9.0], &[1.0, 2.0, 3.0]);
        assert_eq!(ratios.map(|summary| summary.median), Some(2.0));
    }
}
