//! Optimizers against values of PyTorch, against the reference over many steps, and independent of chunks.

use super::{OptimSpec, Optimizer, reference};
use crate::Float;
use crate::testing::{distance, normals, widen};
use shardmark_host::SOLO;

const SGD: OptimSpec = OptimSpec::Sgd { lr: 0.1, momentum: 0.9, weight_decay: 0.01 };
const PLAIN: OptimSpec = OptimSpec::Sgd { lr: 0.1, momentum: 0.0, weight_decay: 0.0 };
const ADAM: OptimSpec = OptimSpec::Adam { lr: 1e-3, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.0 };
const DECAYED: OptimSpec = OptimSpec::Adam { lr: 0.01, beta1: 0.9, beta2: 0.999, eps: 1e-3, weight_decay: 0.1 };

/// Settings, value and each vector of the state.
type Expected = (OptimSpec, [f64; 3], &'static [[f64; 3]]);

/// Value and state after three steps on the gradients below, printed by PyTorch 2.15 in float64 from
/// `torch.optim.SGD([p], ...)` and `torch.optim.Adam([p], ...)` with the settings above.
const TORCH: [Expected; 4] = [
    (
        SGD,
        [0.45417538949999997, -1.25886947875, 1.9225535679999999],
        &[[-0.1461488949999999, 0.5047322875, 0.6467843200000001]],
    ),
    (PLAIN, [0.51, -1.3, 1.94], &[]),
    (
        ADAM,
        [0.4982565107955131, -1.2487987329156638, 1.9989114713631337],
        &[
            [-0.0159, 0.05379999999999998, 0.05929999999999999],
            [0.0052820100000000045, 0.005292040000000004, 0.00975709000000001],
        ],
    ),
    (
        DECAYED,
        [0.4811436845103482, -1.2330643571515074, 1.9818758249545974],
        &[
            [-0.0026302729964280515, 0.02020319457276352, 0.11329141956634044],
            [0.0005284635649671523, 0.00045357120416172176, 0.0013376356575167361],
        ],
    ),
];

const START: [f64; 3] = [0.5, -1.25, 2.0];
const GRADIENTS: [[f64; 3]; 3] = [[0.1, -0.2, 0.3], [0.4, 0.0, -0.5], [-0.6, 0.7, 0.8]];

fn narrow<T: Float>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&v| T::from_f64(v)).collect()
}

fn follows_torch<T: Float>() {
    for (spec, value, state) in TORCH {
        let mut optimizer = Optimizer::<T>::new(spec, &[3]);
        let mut p = narrow::<T>(&START);
        for gradient in GRADIENTS {
            optimizer.begin_step();
            optimizer.step(&SOLO, 0, &mut p, &narrow(&gradient));
        }
        // Three steps of a few roundings each on values up to 2.
        assert!(distance(&widen(&p), &value) <= 8.0 * T::EPSILON, "{spec:?}");
        for ((name, got), expected) in optimizer.state(0).into_iter().zip(state) {
            assert!(distance(&widen(got), expected) <= 4.0 * T::EPSILON, "{spec:?} {name}");
        }
        assert_eq!(optimizer.state(0).len(), state.len());
    }
}

#[test]
fn three_steps_agree_with_pytorch() {
    follows_torch::<f64>();
    follows_torch::<f32>();
}

#[test]
fn many_steps_agree_with_the_reference() {
    for spec in [SGD, PLAIN, ADAM, DECAYED] {
        let mut expected = normals(37, 1);
        let mut p = narrow::<f64>(&expected);
        let (mut state, mut optimizer) = ([vec![0.0; 37], vec![0.0; 37]], Optimizer::new(spec, &[37]));
        for t in 1..=50 {
            let gradient = normals(37, 100 + u64::from(t));
            reference::step(&spec, t, &mut expected, &gradient, &mut state);
            optimizer.begin_step();
            optimizer.step(&SOLO, 0, &mut p, &gradient);
        }
        assert!(distance(&p, &expected) < 1e-12, "{spec:?} differs by {:e}", distance(&p, &expected));
    }
}

#[test]
fn chunks_and_order_change_no_bit() {
    let len = 1000;
    for spec in [SGD, ADAM, DECAYED] {
        let mut whole = narrow::<f32>(&normals(len, 1));
        let mut pieces = whole.clone();
        let cuts = [0, 1, 18, 500, len];
        let lens: Vec<usize> = cuts.windows(2).map(|c| c[1] - c[0]).collect();
        let (mut one, mut many) = (Optimizer::new(spec, &[len]), Optimizer::new(spec, &lens));
        for t in 0..5 {
            let gradient = narrow::<f32>(&normals(len, 10 + t));
            one.begin_step();
            one.step(&SOLO, 0, &mut whole, &gradient);
            many.begin_step();
            for i in (0..lens.len()).rev() {
                let range = cuts[i]..cuts[i + 1];
                many.step(&SOLO, i, &mut pieces[range.clone()], &gradient[range]);
            }
        }
        assert_eq!(whole, pieces, "{spec:?}");
    }
}

#[test]
fn a_restored_optimizer_continues_with_the_same_bits() {
    for spec in [SGD, ADAM] {
        let run = |restore: bool| {
            let mut p = narrow::<f32>(&normals(20, 1));
            let mut optimizer = Optimizer::new(spec, &[20]);
            for t in 0..6 {
                if restore && t == 3 {
                    let mut fresh = Optimizer::new(spec, &[20]);
                    fresh.set_steps(optimizer.steps());
                    for ((name, to), (from_name, from)) in fresh.state_mut(0).into_iter().zip(optimizer.state(0)) {
                        assert_eq!(name, from_name);
                        to.copy_from_slice(from);
                    }
                    optimizer = fresh;
                }
                optimizer.begin_step();
                optimizer.step(&SOLO, 0, &mut p, &narrow(&normals(20, 50 + t)));
            }
            p
        };
        assert_eq!(run(false), run(true));
    }
}
