//! How the work of a weight gradient is cut: outputs into lines and groups, the reduction into tiles and strips, and all
//! of it into the parts that a team shares. By sizes alone, never by the number of threads.

use super::dispatch::Kernels;
use super::sweep::Sweep;
use shardmark_tensor::Real;
use std::ops::Range;

/// Parts that are enough for a team.
pub(super) const PARTS: usize = 8;
/// Outputs that are worth a gradient of their own.
const CHUNK: usize = 4096;
/// The same where outputs share no inputs and parts are few.
const CHUNK_APART: usize = 768;
/// Bytes of a part's gradient that stay in the second-level cache beside what is copied.
const PART_BYTES: usize = 512 << 10;
/// Tiles whose inputs are copied at once where outputs share none: some cache lines of each output.
const STRIP: usize = 8;
/// Bytes of all gradients of chunks.
const CHUNK_BYTES: usize = 16 << 20;

/// A line of outputs along which the weight gradient is summed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Offset of the first output's inputs in x.
    pub x: usize,
    /// Offset of the first output in dy.
    pub y: usize,
    /// Outputs.
    pub len: usize,
}

/// How the work is cut into parts.
pub(super) struct Split {
    pub chunks: usize,
    /// Blocks of channels, and the ranges that they are cut into.
    pub blocks: [usize; 2],
    /// The same for the rows of the reduction.
    rows: [usize; 2],
}

impl Split {
    /// Where outputs share inputs.
    pub fn shared(outputs: usize, bytes: usize, groups: usize, blocks: usize, rows: usize) -> Self {
        let chunks = chunks(outputs / CHUNK, bytes, groups);
        let block_ranges = ranges(blocks, PARTS.div_ceil(chunks));
        let row_ranges = ranges(rows, PARTS.div_ceil(chunks * block_ranges));
        Split { chunks, blocks: [blocks, block_ranges], rows: [rows, row_ranges] }
    }

    /// Where they share none: every part copies the gradients of its outputs, so chunks come first, then strips, of which a
    /// part has no more than stay in the second-level cache; blocks are cut into `block_ranges`.
    pub fn apart(
        outputs: usize,
        bytes: usize,
        groups: usize,
        [blocks, block_ranges]: [usize; 2],
        strips: usize,
    ) -> Self {
        let least = bytes.div_ceil(PART_BYTES);
        let enough = PARTS.div_ceil(least).max(outputs / CHUNK);
        let chunks = chunks((outputs / CHUNK_APART).min(enough), bytes, groups);
        let row_ranges = ranges(strips, PARTS.div_ceil(chunks).max(least));
        Split { chunks, blocks: [blocks, block_ranges], rows: [strips, row_ranges] }
    }

    pub fn parts(&self) -> usize {
        self.chunks * self.blocks[1] * self.rows[1]
    }

    /// Chunk, blocks and rows of a part. Parts that follow each other, which threads sum at the same time, write different
    /// gradients, or else different rows, if they can: blocks of a row share lines of the cache.
    pub fn part(&self, part: usize) -> (usize, Range<usize>, Range<usize>) {
        let cut = |[count, ranges]: [usize; 2], i: usize| i * count / ranges..(i + 1) * count / ranges;
        let (chunk, rest) = (part % self.chunks, part / self.chunks);
        let (row, block) = (rest % self.rows[1], rest / self.rows[1]);
        (chunk, cut(self.blocks, block), cut(self.rows, row))
    }
}

/// Chunks of outputs, as many as are worth it, no more than there is room for.
fn chunks(worth: usize, bytes: usize, groups: usize) -> usize {
    let most = (CHUNK_BYTES / bytes).clamp(1, 2 * PARTS);
    worth.clamp(1, most).min(groups)
}

/// Ranges that `count` is cut into where `enough` will do: of equal length, if there are then not many more.
pub(super) fn ranges(count: usize, enough: usize) -> usize {
    let equal = (enough..count.min(2 * enough)).find(|&ranges| count.is_multiple_of(ranges));
    equal.unwrap_or(if count <= 2 * enough { count } else { enough })
}

/// Lists the box as lines of at most `most` outputs along its last dimension, and as groups of lines with as many.
pub(super) fn list_lines(sweep: &Sweep, most: usize, lines: &mut Vec<Line>, groups: &mut Vec<Range<usize>>) {
    lines.clear();
    groups.clear();
    let [n, d, h, w] = sweep.extent;
    let cuts = w.div_ceil(most);
    let (mut first, mut outputs) = (0, 0);
    for outer in 0..n * d * h {
        let (x, y) = sweep.line(outer);
        for cut in 0..cuts {
            let (lo, hi) = (cut * w / cuts, (cut + 1) * w / cuts);
            if outputs + hi - lo > most {
                groups.push(first..lines.len());
                (first, outputs) = (lines.len(), 0);
            }
            outputs += hi - lo;
            lines.push(Line { x: x + lo * sweep.x_step[3], y: y + lo * sweep.y_step[3], len: hi - lo });
        }
    }
    groups.push(first..lines.len());
}

/// A run of the reduction cut into tiles, and those into strips.
#[derive(Clone, Copy)]
pub(super) struct Strips {
    run: usize,
    tiles: usize,
}

/// The strips of a run of the reduction.
pub(super) fn strips<T: Real>(kernels: &Kernels<T>, run: usize) -> Strips {
    let most = kernels.weights.iter().map(|by_rows| by_rows.len()).min().unwrap_or(1);
    Strips { run, tiles: run.div_ceil(most) }
}

impl Strips {
    /// Number of strips.
    pub fn len(self) -> usize {
        self.tiles.div_ceil(STRIP)
    }

    /// Tiles of a strip.
    pub fn tiles(self, strip: usize) -> Range<usize> {
        strip * self.tiles / self.len()..(strip + 1) * self.tiles / self.len()
    }

    /// The runs that some strips of all rows are in, and their part of each.
    pub fn runs(self, strips: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let rows = strips.start / self.len()..strips.end.div_ceil(self.len());
        rows.map(move |row| {
            let first = row * self.len();
            let [start, end] = [strips.start, strips.end].map(|strip| strip.clamp(first, first + self.len()) - first);
            (row, self.columns(self.tiles(start).start..self.tiles(end - 1).end))
        })
    }

    /// Reduction elements of some tiles.
    pub fn columns(self, tiles: Range<usize>) -> Range<usize> {
        self.span(tiles.start).start..self.span(tiles.end - 1).end
    }

    /// Reduction elements of a tile.
    pub fn span(self, tile: usize) -> Range<usize> {
        tile * self.run / self.tiles..(tile + 1) * self.run / self.tiles
    }
}
