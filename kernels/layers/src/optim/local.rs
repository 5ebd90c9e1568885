//! Optimizer updates on slices of equal length.

use crate::Float;
use crate::simd::multiversion;

/// Settings of SGD.
pub(super) struct SgdFactors<T> {
    pub lr: T,
    pub momentum: T,
    pub weight_decay: T,
}

multiversion! {
    /// SGD without momentum.
    pub(super) fn sgd<T: Float>(factors: &SgdFactors<T>, value: &mut [T], grad: &[T]) {
        let &SgdFactors { lr, weight_decay, .. } = factors;
        for (p, &g) in value.iter_mut().zip(grad) {
            *p = *p - lr * (g + weight_decay * *p);
        }
    }
}

multiversion! {
    /// SGD with momentum.
    pub(super) fn momentum<T: Float>(factors: &SgdFactors<T>, value: &mut [T], grad: &[T], buffer: &mut [T]) {
        let &SgdFactors { lr, momentum, weight_decay } = factors;
        for ((p, &g), b) in value.iter_mut().zip(grad).zip(buffer) {
            *b = momentum * *b + (g + weight_decay * *p);
            *p = *p - lr * *b;
        }
    }
}

/// Factors of one step of Adam, computed in f64 and then rounded.
pub(super) struct AdamFactors<T> {
    pub weight_decay: T,
    pub one_minus_beta1: T,
    pub beta2: T,
    pub one_minus_beta2: T,
    /// `-lr / (1 - beta1^t)`.
    pub minus_step: T,
    /// `sqrt(1 - beta2^t)`.
    pub root_correction: T,
    pub eps: T,
}

multiversion! {
    /// Adam.
    pub(super) fn adam<T: Float>(factors: &AdamFactors<T>, value: &mut [T], grad: &[T], m: &mut [T], v: &mut [T]) {
        let &AdamFactors { weight_decay, one_minus_beta1, beta2, one_minus_beta2, minus_step, root_correction, eps } =
            factors;
        for (((p, &g), m), v) in value.iter_mut().zip(grad).zip(m).zip(v) {
            let g = g + weight_decay * *p;
            *m += one_minus_beta1 * (g - *m);
            *v = beta2 * *v + one_minus_beta2 * g * g;
            *p += minus_step * *m / ((*v).sqrt() / root_correction + eps);
        }
    }
}
