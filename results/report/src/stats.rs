//! Median and its interval by order statistics.

/// Number of values from which a 95 % interval of the median exists: with 5 the widest one covers 93.75 %.
const CONFIDENCE_NEEDS: usize = 6;

/// What an [`Interval`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalKind {
    /// At least 95 % coverage of the median, by order statistics (no distribution assumed).
    Confidence95,
    /// Smallest and largest value: too few values for more.
    MinMax,
}

impl IntervalKind {
    /// Label in tables.
    pub fn name(self) -> &'static str {
        match self {
            IntervalKind::Confidence95 => "95 %",
            IntervalKind::MinMax => "min-max",
        }
    }
}

/// Where the median of `n` values may lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of values.
    pub n: usize,
    /// What the ends mean.
    pub kind: IntervalKind,
}

/// The median; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sort(values);
    let n = sorted.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[n / 2]),
        _ => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

/// The interval of the median; `None` without values.
///
/// With n >= 6 the interval is `[x_l, x_(n+1-l)]` (counted from 1) for the largest l with `P(B < l) <= 0.025`, B binomial
/// with n trials of one half: the median misses such an interval with at most 5 % (Hoefler and Belli 2015, 3.1.3, with
/// exact ranks instead of the normal approximation).
pub fn interval(values: &[f64]) -> Option<Interval> {
    let sorted = sort(values);
    let n = sorted.len();
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    if n < CONFIDENCE_NEEDS {
        return Some(Interval { low: first, high: last, n, kind: IntervalKind::MinMax });
    }
    let l = lower_rank(n);
    Some(Interval { low: sorted[l - 1], high: sorted[n - l], n, kind: IntervalKind::Confidence95 })
}

/// The largest l >= 1 with `P(B < l) <= 0.025`.
fn lower_rank(n: usize) -> usize {
    let mut log_choose = 0.0; // ln of n over k
    let mut below = 0.0; // P(B <= k)
    for k in 0..n {
        below += (log_choose - n as f64 * std::f64::consts::LN_2).exp();
        if below > 0.025 {
            return k.max(1);
        }
        log_choose += ((n - k) as f64 / (k + 1) as f64).ln();
    }
    1
}

fn sort(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}
