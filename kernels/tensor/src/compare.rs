//! Comparison of a result with an expectation, as a verdict that says how much of the tolerance was used.

/// What a comparison found.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Name of what was compared.
    pub name: String,
    /// Largest `|got - expected|`.
    pub max_error: f64,
    /// The tolerance on it.
    pub tolerance: f64,
    /// Flat index of the largest error.
    pub worst: usize,
    /// Values there: got, expected.
    pub at_worst: (f64, f64),
    /// Why agreement proves nothing (lengths differ, nearly all zero), if so.
    pub mistrust: Option<String>,
}

impl Verdict {
    /// Fraction of the tolerance that was used; above 1 the comparison failed.
    pub fn used(&self) -> f64 {
        if self.max_error == 0.0 { 0.0 } else { self.max_error / self.tolerance }
    }

    /// Whether the error is within the tolerance and the agreement means something.
    pub fn passed(&self) -> bool {
        self.mistrust.is_none() && self.used() <= 1.0
    }
}

/// Compares element by element with one absolute tolerance for the tensor. NaN is an infinite error.
///
/// The verdict is mistrusted when lengths differ or when more than 99 % of a tensor of at least 100 expected values is
/// zero.
pub fn compare(name: &str, got: impl ExactSizeIterator<Item = f64>, expected: &[f64], tolerance: f64) -> Verdict {
    let n = got.len();
    let mut verdict =
        Verdict { name: name.to_string(), max_error: 0.0, tolerance, worst: 0, at_worst: (0.0, 0.0), mistrust: None };
    if n != expected.len() {
        verdict.mistrust = Some(format!("expected {} values, got {n}", expected.len()));
        return verdict;
    }
    for (i, (g, &e)) in got.zip(expected).enumerate() {
        let error = if g == e { 0.0 } else { (g - e).abs() };
        let error = if error.is_nan() { f64::INFINITY } else { error };
        if error > verdict.max_error || i == 0 {
            verdict.max_error = verdict.max_error.max(error);
            verdict.worst = i;
            verdict.at_worst = (g, e);
        }
    }
    let zeros = expected.iter().filter(|&&e| e == 0.0).count();
    if n >= 100 && zeros * 100 > n * 99 {
        verdict.mistrust = Some(format!("{zeros} of {n} expected values are zero: agreement proves little"));
    }
    verdict
}

/// Largest absolute value.
pub fn max_abs(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |m, v| v.abs().max(m))
}
