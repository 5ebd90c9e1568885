//! Walks over the lines of blocks: one line is `W*C` adjoining elements at a fixed sample, depth and height.

use crate::Float;
use shardmark_partition::Region;
use shardmark_tensor::Block;

/// `[n, d, h, w.lo]` for every line of `part`; none when it is empty.
pub(crate) fn lines(part: &Region) -> impl Iterator<Item = [i64; 4]> + use<> {
    let [n, d, h, w, _] = part.0;
    let samples = if part.is_empty() { n.lo..n.lo } else { n.lo..n.hi };
    samples.flat_map(move |n| (d.lo..d.hi).flat_map(move |d| (h.lo..h.hi).map(move |h| [n, d, h, w.lo])))
}

/// Elements of a line of `part`.
pub(crate) fn line_len(part: &Region) -> usize {
    part.0[3].len() * part.0[4].len()
}

/// Calls `kernel(x, y)` for each line of `part`, which lies inside both blocks and takes all channels.
pub(crate) fn map<T: Float>(x: &Block<T>, y: &mut Block<T>, part: &Region, mut kernel: impl FnMut(&[T], &mut [T])) {
    let len = line_len(part);
    for at in lines(part) {
        let (from, to) = (x.offset(at), y.offset(at));
        kernel(&x.data()[from..from + len], &mut y.data_mut()[to..to + len]);
    }
}

/// Calls `kernel(a, b, y)` for each line of `part`, which lies inside all blocks and takes all channels.
pub(crate) fn map2<T: Float>(
    a: &Block<T>,
    b: &Block<T>,
    y: &mut Block<T>,
    part: &Region,
    mut kernel: impl FnMut(&[T], &[T], &mut [T]),
) {
    let len = line_len(part);
    for at in lines(part) {
        let (a_at, b_at, to) = (a.offset(at), b.offset(at), y.offset(at));
        kernel(&a.data()[a_at..a_at + len], &b.data()[b_at..b_at + len], &mut y.data_mut()[to..to + len]);
    }
}
