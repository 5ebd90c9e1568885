//! What outputs of a convolution read in some rows of its weight, as a matrix: few outputs, so that this is small.

use crate::Float;
use crate::conv::Conv;
use shardmark_partition::Shape;
use std::ops::Range;

/// Calls `visit` for each output and each tap that has rows among `rows`, in order: with the channels of these rows, and where
/// they are in the sample that the output reads, or `None` outside.
fn each(
    conv: &Conv,
    [[_, d, h, w, c], [_, out_d, out_h, out_w, _]]: [Shape; 2],
    rows: &Range<usize>,
    mut visit: impl FnMut(usize, Option<Range<usize>>),
) {
    let [_, kh, kw] = conv.windows.map(|window| window.kernel);
    let outputs = (0..out_d * out_h * out_w).map(|o| [o / (out_h * out_w), o / out_w % out_h, o % out_w]);
    for output in outputs {
        for tap in rows.start / c..rows.end.div_ceil(c) {
            let channels = rows.start.max(tap * c) - tap * c..rows.end.min((tap + 1) * c) - tap * c;
            let taps = [tap / (kh * kw), tap / kw % kh, tap % kw];
            let at: [Option<usize>; 3] = std::array::from_fn(|i| {
                let (window, extent) = (conv.windows[i], [d, h, w][i]);
                (output[i] * window.stride + taps[i]).checked_sub(window.pad).filter(|&at| at < extent)
            });
            let inside = match at {
                [Some(at_d), Some(at_h), Some(at_w)] => {
                    let first = ((at_d * h + at_h) * w + at_w) * c;
                    Some(first + channels.start..first + channels.end)
                }
                _ => None,
            };
            visit(channels.len(), inside);
        }
    }
}

/// Fills `met` with what outputs read in the rows: `[outputs of all samples, rows]`; `x` is all samples without margins.
pub(super) fn read<T: Float>(conv: &Conv, shapes: [Shape; 2], x: &[T], rows: &Range<usize>, met: &mut Vec<T>) {
    met.clear();
    for x in x.chunks_exact(shapes[0][1..].iter().product()) {
        each(conv, shapes, rows, |channels, at| match at {
            Some(at) => met.extend_from_slice(&x[at]),
            None => met.resize(met.len() + channels, T::ZERO),
        });
    }
}

/// Adds gradients of what outputs read, in the order of [`read`], to the gradients `dx` of all samples.
pub(super) fn add<T: Float>(conv: &Conv, shapes: [Shape; 2], made: &[T], rows: &Range<usize>, dx: &mut [T]) {
    let mut next = 0;
    for dx in dx.chunks_exact_mut(shapes[0][1..].iter().product()) {
        each(conv, shapes, rows, |channels, at| {
            if let Some(at) = at {
                dx[at].iter_mut().zip(&made[next..]).for_each(|(dx, &made)| *dx += made);
            }
            next += channels;
        });
    }
}
