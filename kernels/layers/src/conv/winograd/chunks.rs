//! A box of outputs as tiles, and these in chunks whose points stay in the second-level cache.

use super::super::dispatch::Kernels;
use super::super::pack::CACHE_LINE;
use super::super::sweep::Sweep;
use super::{Axes, OUT, POINTS, SIDE, TAPS, Tiles};
use shardmark_tensor::Real;
use std::ops::Range;

/// Bytes of the points of a chunk's inputs.
const CACHED: usize = 1 << 20;
/// Most outputs of a line that a chunk takes.
const LINE: usize = 64;

/// A box of outputs as tiles. A column is a tile with all of its line, or alone; columns are numbered along the outer
/// dimensions and the axes of tiles.
#[derive(Clone, Copy)]
pub(super) struct Tiling {
    /// In the arrays that are read and written.
    steps: [Dims; 2],
    x0: usize,
    y0: usize,
    /// Outputs of each dimension.
    extent: [usize; 5],
    /// Outputs by which the first tile starts before the box.
    before: [usize; 2],
    /// Tiles along both axes.
    tiles: [usize; 2],
    /// Taps along the line.
    pub taps: usize,
    /// Input channels.
    pub channels: usize,
}

/// Elements from one position to the next: two outer dimensions, the two axes of tiles, the line.
type Dims = [usize; 5];

/// Columns that follow each other.
struct Run {
    /// First of them, counted from the chunk's first.
    column: usize,
    count: usize,
    outer: [usize; 2],
    /// First output's position in the box along the axes of tiles; it may lie before it.
    at: [isize; 2],
    /// As in [`Tiles`].
    exist: [[usize; 2]; 2],
}

/// Some columns, and some outputs of their lines.
#[derive(Clone)]
pub(super) struct Chunk {
    pub columns: Range<usize>,
    pub line: Range<usize>,
}

/// Points `[POINTS][column][position on the line][channels]`. At a distance of points that is an odd number of lines of the
/// caches a tile's points fall into different sets of these.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Elements from one position of a line to the next.
    pub row: usize,
    /// Elements from one column to the next.
    pub column: usize,
    /// Elements from one point to the next.
    pub point: usize,
}

impl Layout {
    /// For so many columns, positions of each, and elements of a position. The last vector of a column may reach beyond it,
    /// by less than a line of the caches.
    pub fn new<T: Real>(columns: usize, positions: usize, row: usize) -> Self {
        let line = CACHE_LINE / T::BYTES;
        let column = positions * row;
        Layout { row, column, point: (((columns * column).div_ceil(line) + 1) | 1) * line }
    }

    /// Elements of all points, and some more that may be read beyond them.
    pub fn len(&self) -> usize {
        POINTS * self.point + self.column
    }
}

impl Tiling {
    /// The tiles of a box whose first output has the global coordinates `first` along D, H and W.
    pub fn new(axes: Axes, sweep: &Sweep, first: [i64; 3], [taps, channels]: [usize; 2]) -> Self {
        let dims = |[n, d, h, w]: [usize; 4], none: usize| match axes {
            Axes::Image => [n, d, h, w, none],
            Axes::Volume => [n, none, d, h, w],
        };
        let first = if axes == Axes::Image { [first[1], first[2]] } else { [first[0], first[1]] };
        let before = first.map(|i| i.rem_euclid(OUT as i64) as usize);
        let extent = dims(sweep.extent, 1);
        Tiling {
            steps: [dims(sweep.x_step, 0), dims(sweep.y_step, 0)],
            x0: sweep.x0,
            y0: sweep.y0,
            extent,
            before,
            tiles: std::array::from_fn(|i| (extent[i + 2] + before[i]).div_ceil(OUT)),
            taps,
            channels,
        }
    }

    /// Whether a column is more than a tile.
    pub fn has_line(&self) -> bool {
        self.steps[0][4] > 0
    }

    /// Elements from one position to the next among the points of inputs.
    pub fn row<T: Real>(&self, lanes: usize) -> usize {
        if self.has_line() {
            return self.channels;
        }
        let row = self.channels.next_multiple_of(lanes);
        if (row * T::BYTES).is_multiple_of(1024) { row + CACHE_LINE / T::BYTES } else { row }
    }

    /// Chunks of about `most` outputs' points; by sizes alone.
    pub fn chunks<T: Real>(&self, lanes: usize, most: usize) -> Chunks {
        let columns = self.extent[0] * self.extent[1] * self.tiles[0] * self.tiles[1];
        let line = self.extent[4];
        let pieces = line.div_ceil(LINE);
        let long = line.div_ceil(pieces);
        let bytes = POINTS * (long + self.taps - 1) * self.row::<T>(lanes) * T::BYTES;
        let per_chunk = (CACHED / bytes).min(most / long).max(1);
        Chunks { columns: [columns, columns.div_ceil(per_chunk)], line: [line, pieces] }
    }

    /// Visits some columns, whose tiles are `side` positions wide: those of inputs or of outputs.
    fn runs(&self, columns: Range<usize>, side: usize, mut visit: impl FnMut(Run)) {
        let [high, wide] = self.tiles;
        let limit: [usize; 2] = std::array::from_fn(|i| self.extent[i + 2] + side - OUT);
        let exist = |i: usize, tile: usize| {
            let (shift, at) = (self.before[i], OUT * tile);
            [shift.saturating_sub(at), (limit[i] + shift - at).min(side)]
        };
        let mut next = columns.start;
        while next < columns.end {
            let [outer, i, j] = [next / wide / high, next / wide % high, next % wide];
            let both = [exist(0, i), exist(1, j)];
            let count = if both == [[0, side]; 2] {
                let whole = (limit[1] + self.before[1] - side) / OUT + 1;
                (whole - j).min(columns.end - next)
            } else {
                1
            };
            let at = [(0, i), (1, j)].map(|(axis, tile)| (OUT * tile) as isize - self.before[axis] as isize);
            let outer = [outer / self.extent[1], outer % self.extent[1]];
            visit(Run { column: next - columns.start, count, outer, at, exist: both });
            next += count;
        }
    }

    /// Elements from the box's first position to a run's first, at `line`.
    fn offset(run: &Run, line: usize, step: &Dims) -> isize {
        let [outer, inner, a, b, along] = *step;
        (run.outer[0] * outer + run.outer[1] * inner + line * along) as isize
            + run.at[0] * a as isize
            + run.at[1] * b as isize
    }

    /// Writes the points of a chunk's inputs.
    ///
    /// # Safety
    /// The box's inputs lie inside `x`; `points` has room.
    pub unsafe fn put_inputs<T: Real>(
        &self,
        kernels: &Kernels<T>,
        x: &[T],
        chunk: &Chunk,
        layout: Layout,
        points: *mut T,
    ) {
        let step = self.steps[0];
        let positions = chunk.line.len() + self.taps - 1;
        self.runs(chunk.columns.clone(), SIDE, |run| {
            // A line is as good as one position with all of its channels.
            let calls = if self.has_line() { run.count } else { 1 };
            for column in 0..calls {
                let at = x.as_ptr().wrapping_add(self.x0 + column * OUT * step[3]);
                let tiles = Tiles {
                    at: at.wrapping_offset(Self::offset(&run, chunk.line.start, &step)).cast_mut(),
                    step: [step[2], step[3]],
                    exist: run.exist,
                    channels: positions * self.channels,
                    count: run.count / calls,
                    next: OUT * step[3],
                    points: points.wrapping_add((run.column + column) * layout.column),
                    point_step: layout.point,
                    tile_step: layout.column,
                    start: std::ptr::null(),
                    slope: T::ONE,
                    stream: false,
                };
                // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
                unsafe { (kernels.winograd.inputs)(&tiles) }
            }
        });
    }

    /// Calls `transform` with the tiles of a chunk's outputs in an array of `y`, at `channels` channels from `first` on, and
    /// with their points.
    pub fn each_output<T: Real>(
        &self,
        y: *mut T,
        [first, channels]: [usize; 2],
        chunk: &Chunk,
        layout: Layout,
        points: *mut T,
        (start, slope, stream): (*const T, T, bool),
        mut transform: impl FnMut(&Tiles<T>),
    ) {
        let step = self.steps[1];
        self.runs(chunk.columns.clone(), OUT, |run| {
            let (calls, count, next, tile_step) = if self.has_line() {
                (run.count, chunk.line.len(), step[4], layout.row)
            } else {
                (1, run.count, OUT * step[3], layout.column)
            };
            for column in 0..calls {
                let at = y.wrapping_add(self.y0 + first + column * OUT * step[3]);
                transform(&Tiles {
                    at: at.wrapping_offset(Self::offset(&run, chunk.line.start, &step)),
                    step: [step[2], step[3]],
                    exist: run.exist,
                    channels,
                    count,
                    next,
                    points: points.wrapping_add((run.column + column) * layout.column),
                    point_step: layout.point,
                    tile_step,
                    start,
                    slope,
                    stream,
                });
            }
        });
    }

    /// Offsets of the last input and output that the box touches, without channels.
    pub fn last(&self) -> (usize, usize) {
        let last = |base: usize, step: &Dims, more: [usize; 5]| {
            base + (0..5).map(|i| (self.extent[i] - 1 + more[i]) * step[i]).sum::<usize>()
        };
        let reach = [0, 0, TAPS - 1, TAPS - 1, self.taps - 1];
        (last(self.x0, &self.steps[0], reach), last(self.y0, &self.steps[1], [0; 5]))
    }
}

/// How a box is cut into chunks: extent and number of pieces of columns, and of lines.
#[derive(Clone, Copy)]
pub(super) struct Chunks {
    columns: [usize; 2],
    line: [usize; 2],
}

impl Chunks {
    pub fn len(&self) -> usize {
        self.columns[1] * self.line[1]
    }

    pub fn get(&self, i: usize) -> Chunk {
        let cut = |[extent, pieces]: [usize; 2], i: usize| i * extent / pieces..(i + 1) * extent / pieces;
        Chunk { columns: cut(self.columns, i / self.line[1]), line: cut(self.line, i % self.line[1]) }
    }
}
