//! Compares a run on a grid with the serial runs, tensor by tensor.

use super::oracle::{Outcome, Serial};
use super::{OWN_ERRORS, ULPS, ULPS_AFTER_STEPS};
use shardmark_store::Check as Verdict;

/// What was found so far.
#[derive(Default)]
pub struct Comparison {
    tensors: usize,
    used: f64,
    worst: String,
    wrong: Vec<String>,
}

impl Comparison {
    /// Compares every tensor of a run.
    pub fn add(&mut self, got: &Outcome, expected: &Serial) {
        for (i, (name, values)) in got.tensors.iter().enumerate() {
            let exact = &expected.exact.tensors[i].1;
            let rounded: Vec<&[f64]> = expected.rounded.iter().map(|run| run.tensors[i].1.as_slice()).collect();
            self.tensors += 1;
            if values.len() != exact.len() {
                self.wrong.push(format!("{name}: expected {} values, got {}", exact.len(), values.len()));
                continue;
            }
            let ulps = if name.starts_with("weight ") { ULPS_AFTER_STEPS } else { ULPS };
            let used = used(values, exact, &rounded, ulps);
            if used > self.used || self.worst.is_empty() {
                self.used = used;
                self.worst = name.clone();
            }
            // Never NaN: that is an infinite fraction.
            if used > 1.0 {
                self.wrong.push(format!("{name} uses {used:.3} of its tolerance"));
            }
        }
    }

    /// Notes something that is wrong beside the tensors.
    pub fn fail(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// The verdict over everything that was added.
    pub fn verdict(&self) -> Verdict {
        let text = match self.wrong.as_slice() {
            [] => format!("{} tensors agree with the serial run, worst {}", self.tensors, self.worst),
            [first] => first.clone(),
            [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
        };
        Verdict { passed: self.wrong.is_empty(), used: self.used, text }
    }
}

/// The fraction of the tolerance that a tensor uses, by its largest error or by the L2 norm of its error. Its own error is the
/// largest of the serial runs'.
fn used(got: &[f64], exact: &[f64], rounded: &[&[f64]], ulps: f64) -> f64 {
    let ulps = ulps * f64::from(f32::EPSILON);
    let (error, scale) = (Norms::of_difference(got, exact), Norms::of(exact.iter().copied()));
    let own = rounded.iter().map(|rounded| Norms::of_difference(rounded, exact)).fold(Norms::default(), Norms::larger);
    let fraction = |error: f64, own: f64, scale: f64| {
        if error == 0.0 { 0.0 } else { error / (OWN_ERRORS * own + ulps * scale) }
    };
    let by_max = fraction(error.max, own.max, scale.max);
    let by_l2 = fraction(error.squares.sqrt(), own.squares.sqrt(), scale.squares.sqrt());
    if by_max.is_nan() || by_l2.is_nan() { f64::INFINITY } else { by_max.max(by_l2) }
}

#[derive(Default)]
struct Norms {
    max: f64,
    squares: f64,
}

impl Norms {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        // The largest leaves out NaN; the squares do not.
        values.fold(Norms::default(), |n, value| Norms {
            max: n.max.max(value.abs()),
            squares: n.squares + value * value,
        })
    }

    fn of_difference(a: &[f64], b: &[f64]) -> Self {
        Norms::of(a.iter().zip(b).map(|(a, b)| a - b))
    }

    fn larger(self, other: Self) -> Self {
        // A NaN of either stays.
        let squares = if other.squares > self.squares || other.squares.is_nan() { other.squares } else { self.squares };
        Norms { max: self.max.max(other.max), squares }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_runs_own_error_is_the_measure() {
        let exact = vec![1.0; 4];
        let rounded = vec![1.001, 1.0, 1.0, 1.0];
        assert!(used(&[1.0, 1.0, 1.0039, 1.0], &exact, &[&rounded], ULPS) < 1.0);
        assert!(used(&[1.0, 1.0, 1.0045, 1.0], &exact, &[&rounded], ULPS) > 1.0);
        assert!(used(&[1.0, 1.003, 1.003, 1.003], &exact, &[&rounded], ULPS) > 1.0, "many large errors count more");
    }

    #[test]
    fn the_largest_own_error_of_the_serial_runs_counts() {
        let (near, far) = ([1.0001, 1.0], [1.0, 1.001]);
        for rounded in [[&near[..], &far[..]], [&far[..], &near[..]]] {
            assert!(used(&[1.0039, 1.0], &[1.0, 1.0], &rounded, ULPS) < 1.0);
            assert!(used(&[1.0045, 1.0], &[1.0, 1.0], &rounded, ULPS) > 1.0);
        }
    }

    #[test]
    fn not_a_number_never_passes() {
        assert!(used(&[f64::NAN, 1.0], &[1.0, 1.0], &[&[1.0, 1.0]], ULPS).is_infinite());
        assert!(used(&[1.0, 1.0], &[1.0, 1.0], &[&[f64::NAN, 1.0]], ULPS) == 0.0);
    }
}
