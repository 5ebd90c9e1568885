//! What a reference file says about one tensor, and how close a result has to come.
//!
//! PyTorch's own f32 error (its f32 run against its f64 run) is the yardstick: a result may be [`OWN_ERRORS`] times as
//! far from the f64 run, plus [`ULPS`] roundings of the tensor's largest value. Without an f64 run only roundings
//! count. A gradient may moreover differ by what comes of activations that lie within rounding of a kink of the network
//! ([`Kinks`]).

use shardmark_tensor::Real;
use shardmark_tensor::compare::{compare, max_abs};
use std::fmt;

/// Multiple of PyTorch's own error that a result may have.
pub const OWN_ERRORS: f64 = 4.0;
/// Roundings of the largest value that it may have beside that.
pub const ULPS: f64 = 4.0;
/// The same for weights after steps of Adam, which divides a gradient by its own size: where a gradient is smaller than
/// its rounding error, the step is uncertain.
pub const ULPS_AFTER_ADAM: f64 = 256.0;
/// Roundings of the largest value that a result may have where the file has no f64 run.
pub const ULPS_ALONE: f64 = 1024.0;

/// In an f64 run, this many times what is allowed in f32, scaled by the rounding unit.
const UNKNOWN_ERROR: f64 = 16.0;

/// Sums over a whole tensor of which only samples are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Whole {
    /// Places of the samples.
    pub at: Vec<usize>,
    /// Sum of all values.
    pub sum: f64,
    /// L2 norm.
    pub norm: f64,
    /// L2 norm of PyTorch's own error.
    pub error_norm: f64,
}

/// What may come of values within rounding of a kink (leaky ReLU at 0, max pooling at a tie), whose gradient goes one
/// way or the other by chance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kinks {
    /// By how much each of the expected values is uncertain; none if no value is.
    pub values: Vec<f64>,
    /// L2 norm of that over the whole tensor.
    pub norm: f64,
}

/// What is expected of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Name of the dataset.
    pub name: String,
    /// Elements of the tensor.
    pub len: usize,
    /// All values, or samples.
    pub values: Vec<f64>,
    /// Largest absolute value of the tensor.
    pub max_abs: f64,
    /// PyTorch's own largest error, if the file has an f64 run.
    pub error: Option<f64>,
    /// Roundings of the largest value that a result may have beside a multiple of that.
    pub ulps: f64,
    /// What may be added to that.
    pub kinks: Kinks,
    /// With samples only: their places, and sums over the tensor.
    pub whole: Option<Whole>,
}

/// How one tensor compares.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the dataset.
    pub name: String,
    /// Elements of the tensor.
    pub elements: usize,
    /// Largest error among the values that are kept.
    pub max_error: f64,
    /// Fraction of the tolerance that was used, by values or by sums over the tensor; above 1 the tensor is wrong.
    pub used: f64,
    /// Where and how it is furthest off.
    pub note: String,
}

impl Row {
    /// Whether the tensor is right.
    pub fn passed(&self) -> bool {
        self.used <= 1.0
    }
}

/// One line of the table.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} elements, max error {:.2e}", self.name, self.elements, self.max_error)?;
        if self.passed() { Ok(()) } else { write!(f, "; {}", self.note) }
    }
}

impl Expected {
    /// From f32 values and, if the file has them, the values of the f64 run.
    pub fn all(name: &str, single: Vec<f64>, double: Option<Vec<f64>>) -> Self {
        let distance = |d: &Vec<f64>| d.iter().zip(&single).map(|(d, s)| (d - s).abs()).fold(0.0, f64::max);
        let error = double.as_ref().map(distance);
        let values = double.unwrap_or(single);
        let (len, max_abs) = (values.len(), max_abs(&values));
        Expected { name: name.into(), len, max_abs, values, error, ulps: ULPS, kinks: Kinks::default(), whole: None }
    }

    /// Compares a result of element type `T`, which must have been computed in it throughout.
    pub fn check<T: Real>(&self, got: &[T]) -> Row {
        let f32_unit = f64::from(f32::EPSILON);
        // In f64 the error of PyTorch's f32 run shrinks as the rounding unit does, but its own f64 error is not known.
        let scale = if T::EPSILON < f32_unit { UNKNOWN_ERROR * T::EPSILON / f32_unit } else { 1.0 };
        let tolerance = |error: Option<f64>, ulps: f64, size: f64| {
            let roundings = |n: f64| n * f32_unit * size;
            scale * error.map_or(roundings(ULPS_ALONE), |e| OWN_ERRORS * e + roundings(ulps))
        };
        let of_values = tolerance(self.error, self.ulps, self.max_abs);
        let wide = |i: usize| got[i].to_f64();
        let got_values: Vec<f64> = match &self.whole {
            Some(whole) if got.len() == self.len => whole.at.iter().map(|&i| wide(i)).collect(),
            _ => (0..got.len()).map(wide).collect(),
        };
        let mut row = self.row(&got_values, of_values, scale);
        if let Some(whole) = self.whole.as_ref().filter(|_| got.len() == self.len) {
            let norm = sum_of(got, |v| v * v).sqrt();
            let sum = sum_of(got, |v| v);
            let norm_tolerance = tolerance(Some(whole.error_norm), ULPS, whole.norm) + scale * self.kinks.norm;
            // The sum of L errors is at most sqrt(L) times their norm.
            let sum_tolerance = norm_tolerance * (self.len as f64).sqrt();
            for (what, got, expected, tolerance) in
                [("norm", norm, whole.norm, norm_tolerance), ("sum", sum, whole.sum, sum_tolerance)]
            {
                let verdict = compare(what, std::iter::once(got), &[expected], tolerance);
                if verdict.used() > row.used {
                    row.used = verdict.used();
                    row.note = format!("{what}: expected {expected:e}, got {got:e}");
                }
            }
        }
        row
    }

    /// Compares the kept values. What kinks may make of a value is taken off its error first.
    fn row(&self, got: &[f64], tolerance: f64, scale: f64) -> Row {
        let plain = compare(&self.name, got.iter().copied(), &self.values, tolerance);
        let beyond = |(i, &got): (usize, &f64)| {
            let off = got - self.values.get(i).unwrap_or(&got);
            let kink = scale * self.kinks.values.get(i).unwrap_or(&0.0).max(0.0);
            got - off.signum() * off.abs().min(kink)
        };
        let verdict = compare(&self.name, got.iter().enumerate().map(beyond), &self.values, tolerance);
        let place = self.whole.as_ref().and_then(|w| w.at.get(verdict.worst)).copied().unwrap_or(verdict.worst);
        let at_worst = || match (got.get(verdict.worst), self.values.get(verdict.worst)) {
            (Some(got), Some(expected)) => format!("at {place}: expected {expected:e}, got {got:e}"),
            _ => String::new(),
        };
        Row {
            name: self.name.clone(),
            elements: self.len,
            max_error: plain.max_error,
            used: if verdict.mistrust.is_some() { f64::INFINITY } else { verdict.used() },
            note: verdict.mistrust.clone().unwrap_or_else(at_worst),
        }
    }
}

/// Sum of `f` over all values in f64, chunk by chunk so that millions of roundings do not pile up.
fn sum_of<T: Real>(values: &[T], f: impl Fn(f64) -> f64) -> f64 {
    values.chunks(1024).map(|chunk| chunk.iter().map(|v| f(v.to_f64())).sum::<f64>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> Expected {
        let kinks = Kinks { values: vec![0.0, 1e-2, 0.0], norm: 1e-2 };
        let whole = Whole { at: vec![0, 2, 3], sum: 4.0, norm: 2.0, error_norm: 1e-6 };
        let single = vec![1.0 + 1e-6, 1.0, 1.0];
        Expected { len: 4, kinks, whole: Some(whole), ..Expected::all("grads/x", single, Some(vec![1.0; 3])) }
    }

    #[test]
    fn a_kink_excuses_its_own_value_and_the_norm() {
        for (got, passes) in [
            ([1.0, 1.0, 1.0 + 9e-3, 1.0], true),
            ([1.0, 1.0, 1.0 - 9e-3, 1.0], true),
            ([1.0, 1.0, 1.0 + 11e-3, 1.0], false),
            ([1.0, 1.0, 1.0, 1.0 + 1e-4], false),
            ([1.0, 1.0 + 9e-3, 1.0, 1.0], true),
            ([1.0, 1.0 + 3e-2, 1.0, 1.0], false),
            ([1.0, 1.0, f32::NAN, 1.0], false),
        ] {
            assert_eq!(expected().check(&got).passed(), passes, "{got:?}");
        }
        let row = expected().check(&[1.0_f32, 1.0, 1.0 + 0.0625, 1.0]);
        assert_eq!(row.note, "at 2: expected 1e0, got 1.0625e0");
        assert_eq!(row.max_error, 0.0625);
    }

    #[test]
    fn without_kinks_every_value_counts() {
        let expected = Expected { kinks: Kinks::default(), ..expected() };
        assert!(expected.check(&[1.0_f32; 4]).passed());
        assert!(!expected.check(&[1.0_f32, 1.0, 1.0 + 9e-3, 1.0]).passed());
    }
}
