//! Compares a run on a grid with the serial pair, tensor by tensor.

use super::oracle::{Outcome, Pair};
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
    pub fn add(&mut self, got: &Outcome, expected: &Pair) {
        for (i, (name, values)) in got.tensors.iter().enumerate() {
            let (exact, rounded) = (&expected.exact.tensors[i].1, &expected.rounded.tensors[i].1);
            self.tensors += 1;
            if values.len() != exact.len() {
                self.wrong.push(format!("{name}: expected {} values, got {}", exact.len(), values.len()));
                continue;
            }
            let ulps = if name.starts_with("weight ") { ULPS_AFTER_STEPS } else { ULPS };
            let used = used(values, exact, rounded, ulps);
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

/// The fraction of the tolerance that a tensor uses, by its largest error or by the L2 norm of its error.
fn used(got: &[f64], exact: &[f64], rounded: &[f64], ulps: f64) -> f64 {
    let ulps = ulps * f64::from(f32::EPSILON);
    let (mut error, mut own, mut scale) = (Norms::default(), Norms::default(), Norms::default());
    for ((&g, &e), &r) in got.iter().zip(exact).zip(rounded) {
        error.add(g - e);
        own.add(r - e);
        scale.add(e);
    }
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
    fn add(&mut self, value: f64) {
        // Leaves out NaN; the squares do not.
        self.max = self.max.max(value.abs());
        self.squares += value * value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_runs_own_error_is_the_measure() {
        let exact = vec![1.0; 4];
        let rounded = vec![1.001, 1.0, 1.0, 1.0];
        assert!(used(&[1.0, 1.0, 1.0039, 1.0], &exact, &rounded, ULPS) < 1.0);
        assert!(used(&[1.0, 1.0, 1.0045, 1.0], &exact, &rounded, ULPS) > 1.0);
        assert!(used(&[1.0, 1.003, 1.003, 1.003], &exact, &rounded, ULPS) > 1.0, "many large errors count more");
    }

    #[test]
    fn not_a_number_never_passes() {
        assert!(used(&[f64::NAN, 1.0], &[1.0, 1.0], &[1.0, 1.0], ULPS).is_infinite());
        assert!(used(&[1.0, 1.0], &[1.0, 1.0], &[f64::NAN, 1.0], ULPS) == 0.0);
    }
}
