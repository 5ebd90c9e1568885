//! Walks over the lines of blocks: one line is `W*C` adjoining elements at a fixed sample, depth and height. Threads
//! share a walk by boxes of lines.

use crate::Float;
use crate::store::fence;
use shardmark_host::{SharedMut, Team};
use shardmark_partition::{Dim, Region, Span};
use shardmark_tensor::{Block, Layout};

/// Elements of a part of a job, about: long enough that handing it out costs nothing, few enough for a cache.
const PART: usize = 1 << 15;

/// Most parts of a job, so that what is kept for each part stays small.
const MOST_PARTS: usize = 256;

/// Parts that suffice for the threads of a rank.
const SOME_PARTS: usize = 16;

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

/// A region cut along N, D and H into boxes of whole lines: the parts of a job. The cut depends on extents alone, never
/// on the team, so that sums over parts are equal for any number of threads.
#[derive(Clone, Copy)]
pub(crate) struct Boxes {
    region: Region,
    /// Extents of a box along N, D, H; the last along a dimension may be smaller.
    steps: [usize; 3],
}

impl Boxes {
    /// Boxes of lines that follow each other in memory.
    pub fn of(region: &Region) -> Self {
        Self::of_at_least(region, 0)
    }

    /// The same for work that takes some time for each box: of about `least` elements or more, as long as that leaves some
    /// boxes for every thread.
    pub fn of_at_least(region: &Region, least: usize) -> Self {
        let target = least.min(region.len() / SOME_PARTS).max(PART).max(region.len().div_ceil(MOST_PARTS));
        let [n, d, h, ..] = region.shape();
        let mut room = target / line_len(region).max(1);
        // Dimensions are filled from the innermost; the first that does not fit is cut into parts of like size.
        let steps = [h, d, n].map(|extent| {
            let step = extent.div_ceil(extent.div_ceil(room.max(1)).max(1));
            room = if step == extent { room / extent.max(1) } else { 1 };
            step
        });
        Boxes { region: *region, steps: [steps[2], steps[1], steps[0]] }
    }

    /// Boxes of the given extents along N, D, H; the last ones may be smaller.
    pub fn with_steps(region: &Region, steps: [usize; 3]) -> Self {
        Boxes { region: *region, steps }
    }

    fn counts(&self) -> [usize; 3] {
        std::array::from_fn(|i| self.region.0[i].len().div_ceil(self.steps[i].max(1)))
    }

    /// Number of boxes; none when the region is empty.
    pub fn count(&self) -> usize {
        if self.region.is_empty() { 0 } else { self.counts().iter().product() }
    }

    /// Box `i`.
    pub fn get(&self, i: usize) -> Region {
        let [_, d, h] = self.counts();
        let mut part = self.region;
        for ((dim, at), step) in
            [Dim::N, Dim::D, Dim::H].into_iter().zip([i / (d * h), i / h % d, i % h]).zip(self.steps)
        {
            let span = self.region.span(dim);
            let lo = span.lo + (at * step) as i64;
            part = part.with(dim, Span::new(lo, span.hi.min(lo + step as i64)));
        }
        part
    }
}

/// A block whose lines are written by several threads.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'a, T> {
    layout: Layout,
    data: SharedMut<'a, T>,
}

impl<'a, T: Float> Lines<'a, T> {
    /// Shares the lines of `part` until the borrow ends.
    ///
    /// # Panics
    /// If the part does not lie inside the block.
    pub fn new(block: &'a mut Block<T>, part: &Region) -> Self {
        block.assert_holds(part);
        Lines { layout: block.layout(), data: SharedMut::new(block.data_mut()) }
    }

    /// The `len` elements from a global position on.
    ///
    /// # Safety
    /// While the line is in use, nobody else touches its elements.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the caller vouches that it is exclusive")]
    pub unsafe fn line(&self, at: [i64; 4], len: usize) -> &'a mut [T] {
        let to = self.layout.offset(at);
        // SAFETY: by the contract of this function.
        unsafe { self.data.part(to..to + len) }
    }
}

/// The `len` elements of a block from a global position on.
#[inline(always)]
pub(crate) fn line<'a, T: Float>(data: &'a [T], layout: &Layout, at: [i64; 4], len: usize) -> &'a [T] {
    let from = layout.offset(at);
    &data[from..from + len]
}

/// Calls `kernel(at, y)` for each line of `part`, which lies inside the block and takes all channels.
pub(crate) fn update<T: Float>(
    team: &Team,
    y: &mut Block<T>,
    part: &Region,
    kernel: impl Fn([i64; 4], &mut [T]) + Sync,
) {
    let (boxes, len, y) = (Boxes::of(part), line_len(part), Lines::new(y, part));
    team.run(boxes.count(), |_, i| {
        for at in lines(&boxes.get(i)) {
            // SAFETY: each line is in one box, and each box is given out once.
            kernel(at, unsafe { y.line(at, len) });
        }
        fence();
    });
}

/// Calls `kernel(at, x, y)` likewise, with the line of `x` at the same place.
pub(crate) fn map<T: Float>(
    team: &Team,
    x: &Block<T>,
    y: &mut Block<T>,
    part: &Region,
    kernel: impl Fn([i64; 4], &[T], &mut [T]) + Sync,
) {
    let (layout, len) = (x.layout(), line_len(part));
    update(team, y, part, |at, y| kernel(at, line(x.data(), &layout, at, len), y));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_cover_a_region_once_and_small_ones_are_whole() {
        for shape in [[2, 3, 5, 7, 4], [1, 130, 70, 33, 16], [5, 1, 1, 1, 9000], [1, 1, 700, 60, 3], [0, 2, 2, 2, 2]] {
            let region = Region::full(shape);
            let boxes = Boxes::of(&region);
            let mut seen = Block::<f32>::zeros(region);
            for part in (0..boxes.count()).map(|i| boxes.get(i)) {
                seen.add(&part, &vec![1.0; part.len()]);
            }
            assert!(seen.data().iter().all(|&n| n == 1.0), "{shape:?}");
            let small = region.len() <= PART;
            assert!(
                if small { boxes.count() <= 1 } else { (2..=2 * MOST_PARTS).contains(&boxes.count()) },
                "{shape:?}"
            );
        }
    }
}
