//! A box of outputs as tiles, and these in chunks whose points stay in the second-level cache.

use super::super::dispatch::Kernels;
use super::super::sweep::Sweep;
use super::{OUT, POINTS, SIDE, TAPS, Tiles};
use shardmark_tensor::Real;
use std::ops::Range;

/// Bytes of the points of a chunk's inputs.
const CACHED: usize = 1 << 20;
/// Bytes of a line of the caches.
const LINE: usize = 64;
/// Planes of outputs along D that share the points of inputs.
const DEPTH: usize = 8;

/// A box of outputs as tiles. A column is a tile's place in all planes along D, numbered along N, H and W.
#[derive(Clone, Copy)]
pub(super) struct Tiling {
    pub sweep: Sweep,
    /// Outputs by which the first tile starts before the box, along H and W.
    before: [usize; 2],
    /// Tiles along H and W.
    tiles: [usize; 2],
    /// Taps along D.
    pub taps: usize,
}

/// Tiles side by side.
struct Run {
    /// Columns from the first of the chunk.
    column: usize,
    count: usize,
    n: usize,
    /// First output's position in the box along H and W; it may lie before it.
    at: [isize; 2],
    /// As in [`Tiles`].
    exist: [[usize; 2]; 2],
}

/// Some columns and planes.
#[derive(Clone)]
pub(super) struct Chunk {
    pub columns: Range<usize>,
    pub depth: Range<usize>,
}

impl Chunk {
    /// Tiles of outputs.
    pub fn rows(&self) -> usize {
        self.columns.len() * self.depth.len()
    }
}

/// Points `[POINTS][rows][channels]`, with steps at which a tile's points fall into different sets of the caches.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Elements from one row to the next.
    pub row: usize,
    /// Elements from one point to the next.
    pub point: usize,
}

impl Layout {
    /// For so many rows of `channels`, a multiple of the lanes.
    pub fn new<T: Real>(rows: usize, channels: usize) -> Self {
        let apart = (channels * T::BYTES).is_multiple_of(1024);
        Self::packed::<T>(rows, if apart { channels + LINE / T::BYTES } else { channels })
    }

    /// For rows that adjoin.
    pub fn packed<T: Real>(rows: usize, row: usize) -> Self {
        let line = LINE / T::BYTES;
        Layout { row, point: ((rows * row).div_ceil(line) | 1) * line }
    }

    /// Elements of all points.
    pub fn len(&self) -> usize {
        POINTS * self.point
    }
}

impl Tiling {
    /// The tiles of a box whose first output has the global coordinates `first` along H and W.
    pub fn new(sweep: Sweep, first: [i64; 2], taps: usize) -> Self {
        let before = first.map(|i| i.rem_euclid(OUT as i64) as usize);
        let tiles = std::array::from_fn(|i| (sweep.extent[i + 2] + before[i]).div_ceil(OUT));
        Tiling { sweep, before, tiles, taps }
    }

    pub fn columns(&self) -> usize {
        self.sweep.extent[0] * self.tiles[0] * self.tiles[1]
    }

    /// Chunks of at most `most` tiles; by sizes alone.
    pub fn chunks<T: Real>(&self, row: usize, most: usize) -> Chunks {
        let rows = (CACHED / (POINTS * row * T::BYTES)).max(1);
        let depth = self.sweep.extent[1];
        let thick = depth.min(DEPTH);
        let columns = (rows / (thick + self.taps - 1)).min(most / thick).max(1);
        Chunks {
            columns: [self.columns(), self.columns().div_ceil(columns)],
            depth: [depth, depth.div_ceil(thick)],
        }
    }

    /// Visits the tiles of some columns, `side` positions wide: those of inputs or of outputs.
    fn runs(&self, columns: Range<usize>, side: usize, mut visit: impl FnMut(Run)) {
        let [high, wide] = self.tiles;
        let limit: [usize; 2] = std::array::from_fn(|i| self.sweep.extent[i + 2] + side - OUT);
        let exist = |i: usize, tile: usize| {
            let shift = self.before[i];
            let at = OUT * tile;
            [shift.saturating_sub(at), (limit[i] + shift - at).min(side)]
        };
        let mut next = columns.start;
        while next < columns.end {
            let [n, i, j] = [next / wide / high, next / wide % high, next % wide];
            let both = [exist(0, i), exist(1, j)];
            let count = if both == [[0, side]; 2] {
                let whole = (limit[1] + self.before[1] - side) / OUT + 1;
                (whole - j).min(columns.end - next)
            } else {
                1
            };
            let at = [(0, i), (1, j)].map(|(axis, tile)| (OUT * tile) as isize - self.before[axis] as isize);
            visit(Run { column: next - columns.start, count, n, at, exist: both });
            next += count;
        }
    }

    /// Offset of a run's first position in plane `d` of an array, from that of the box's first.
    fn offset(run: &Run, d: usize, step: &[usize; 4]) -> isize {
        (run.n * step[0] + d * step[1]) as isize + run.at[0] * step[2] as isize + run.at[1] * step[3] as isize
    }

    /// Writes the points of a chunk's inputs `[POINTS][planes][columns][channels]`.
    ///
    /// # Safety
    /// The box's inputs lie inside `x`; `points` has room.
    pub unsafe fn put_inputs<T: Real>(
        &self,
        kernels: &Kernels<T>,
        x: &[T],
        channels: usize,
        chunk: &Chunk,
        layout: Layout,
        points: *mut T,
    ) {
        let Sweep { x0, x_step, .. } = self.sweep;
        let columns = chunk.columns.len();
        let planes = chunk.depth.len() + self.taps - 1;
        self.runs(chunk.columns.clone(), SIDE, |run| {
            for plane in 0..planes {
                let from = x.as_ptr().wrapping_add(x0);
                let from = from.wrapping_offset(Self::offset(&run, chunk.depth.start + plane, &x_step));
                let tiles = Tiles {
                    at: from.cast_mut(),
                    step: [x_step[2], x_step[3]],
                    exist: run.exist,
                    channels,
                    count: run.count,
                    points: points.wrapping_add((plane * columns + run.column) * layout.row),
                    point_step: layout.point,
                    tile_step: layout.row,
                    start: std::ptr::null(),
                    slope: T::ONE,
                };
                // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
                unsafe { (kernels.winograd.inputs)(&tiles) }
            }
        });
    }

    /// Calls `transform` with the tiles of a chunk's outputs in an array of `y` at `channels` channels from `first` on, and
    /// with their points `[POINTS][depth][columns]`.
    pub fn each_output<T: Real>(
        &self,
        y: *mut T,
        [first, channels]: [usize; 2],
        chunk: &Chunk,
        layout: Layout,
        points: *mut T,
        (start, slope): (*const T, T),
        mut transform: impl FnMut(&Tiles<T>),
    ) {
        let Sweep { y0, y_step, .. } = self.sweep;
        let columns = chunk.columns.len();
        self.runs(chunk.columns.clone(), OUT, |run| {
            for d in 0..chunk.depth.len() {
                let at = y.wrapping_add(y0 + first);
                transform(&Tiles {
                    at: at.wrapping_offset(Self::offset(&run, chunk.depth.start + d, &y_step)),
                    step: [y_step[2], y_step[3]],
                    exist: run.exist,
                    channels,
                    count: run.count,
                    points: points.wrapping_add((d * columns + run.column) * layout.row),
                    point_step: layout.point,
                    tile_step: layout.row,
                    start,
                    slope,
                });
            }
        });
    }

    /// Offsets of the last input and output that the box touches, without channels.
    pub fn last(&self) -> (usize, usize) {
        let (x, y) = self.sweep.last();
        let [_, d, h, w] = self.sweep.x_step;
        (x + (self.taps - 1) * d + (TAPS - 1) * (h + w), y)
    }
}

/// How a box is cut into chunks: extent and number of pieces of columns, and of planes.
#[derive(Clone, Copy)]
pub(super) struct Chunks {
    columns: [usize; 2],
    depth: [usize; 2],
}

impl Chunks {
    pub fn len(&self) -> usize {
        self.columns[1] * self.depth[1]
    }

    pub fn get(&self, i: usize) -> Chunk {
        let cut = |[extent, pieces]: [usize; 2], i: usize| i * extent / pieces..(i + 1) * extent / pieces;
        Chunk { columns: cut(self.columns, i / self.depth[1]), depth: cut(self.depth, i % self.depth[1]) }
    }
}
