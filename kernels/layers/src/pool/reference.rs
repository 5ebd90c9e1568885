//! Pooling as plain loops in f64 over whole tensors. Frozen: never made faster.

use super::{Pool, PoolMode};
use shardmark_partition::Shape;

/// `y: [N, OD, OH, OW, C]` of `x: [N, D, H, W, C]`; the windows fit (checked by the spec).
pub fn forward(pool: &Pool, shape: Shape, x: &[f64]) -> Vec<f64> {
    let mut y = Vec::new();
    for_each_output(pool, shape, |inputs| {
        y.push(match pool.mode {
            PoolMode::Average => inputs.iter().map(|&i| x[i]).sum::<f64>() / pool.taps() as f64,
            PoolMode::Max => inputs.iter().map(|&i| x[i]).fold(f64::NEG_INFINITY, f64::max),
        });
    });
    y
}

/// Gradient with respect to `x`, given `dy` of the output's shape.
pub fn backward(pool: &Pool, shape: Shape, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; x.len()];
    let mut o = 0;
    for_each_output(pool, shape, |inputs| {
        match pool.mode {
            PoolMode::Average => inputs.iter().for_each(|&i| dx[i] += dy[o] / pool.taps() as f64),
            PoolMode::Max => {
                // `>` and not `>=`: the first maximum wins.
                if let Some(winner) = inputs.iter().copied().reduce(|a, b| if x[b] > x[a] { b } else { a }) {
                    dx[winner] += dy[o];
                }
            }
        }
        o += 1;
    });
    dx
}

/// Calls `visit` for every output in row-major order with the flat indices of the inputs in its window that are not
/// padding, in the order d, h, w.
fn for_each_output(pool: &Pool, [n, d, h, w, c]: Shape, mut visit: impl FnMut(&[usize])) {
    let extents = [d, h, w];
    let out: [usize; 3] = std::array::from_fn(|i| pool.windows[i].out_extent(extents[i]).unwrap_or(0));
    let taps = |i: usize, o: usize| {
        let window = pool.windows[i];
        (0..window.kernel)
            .filter_map(move |k| (o * window.stride + k).checked_sub(window.pad))
            .filter(move |&at| at < extents[i])
    };
    for n in 0..n {
        for (od, oh, ow) in (0..out[0]).flat_map(|d| (0..out[1]).flat_map(move |h| (0..out[2]).map(move |w| (d, h, w))))
        {
            for ch in 0..c {
                let mut inputs = Vec::new();
                for id in taps(0, od) {
                    for ih in taps(1, oh) {
                        for iw in taps(2, ow) {
                            inputs.push((((n * d + id) * h + ih) * w + iw) * c + ch);
                        }
                    }
                }
                visit(&inputs);
            }
        }
    }
}
