//! The weight gradient where outputs share no inputs, or are few: a product of two matrices, both of which are copied to the
//! order of the kernel.

use super::super::cut::strips;
use super::super::fill::{Matrix, Panel};
use super::super::pack::{Blocks, ChannelBlock};
use super::tile::{PIECE_LINES, WeightTile};
use super::{Group, Line, Panels, Problem, Target};
use shardmark_tensor::Real;
use std::ops::Range;

impl<T: Real> Problem<'_, T> {
    /// Sums over one group of outputs, and asks for the memory of the next meanwhile; the target's rows are strips.
    ///
    /// # Safety
    /// As for [`Problem::sum_group`].
    pub(super) unsafe fn sum_apart(&self, group: &Group, target: &Target<T>, panels: &mut Panels<T>) {
        let Problem { kernels, run, blocks: Blocks { channels, lanes }, .. } = *self;
        let outputs = group.len();
        let blocks = || self.blocks.all().skip(target.blocks.start).take(target.blocks.len());
        let first = blocks().next().map_or(0, |block| block.first);
        let panel_of = |block: &ChannelBlock| (block.first - first) * outputs;
        panels.dy.resize(blocks().map(|block| block.vecs * lanes).sum::<usize>() * outputs);
        panels.cut.clear();
        panels.cut.extend(blocks().map(|block| Panel {
            first: block.first,
            columns: block.existing(lanes),
            to: panel_of(&block),
            to_step: block.vecs * lanes,
        }));
        let dy = |line: &Line| self.dy[line.y..].as_ptr();
        // SAFETY: by this function's contract; there is room for all blocks.
        unsafe { self.fill_panels(group.lines, (dy, self.y_step), &panels.cut, panels.dy.as_mut_slice()) };
        let strips = strips(kernels, run);
        let runs = strips.runs(target.rows.clone()).map(|(row, columns)| {
            let [start, end] = [columns.start, columns.end].map(|column| self.rows[row] + column);
            start..end
        });
        panels.ahead.clear();
        self.list_ahead(group.next, &target.blocks, runs, &mut panels.ahead);
        let mut ahead = panels.ahead.chunks(outputs.div_ceil(PIECE_LINES));
        let line = [Line { x: 0, y: 0, len: outputs }];
        for strip in target.rows.clone() {
            let (row, tiles) = (strip / strips.len(), strips.tiles(strip % strips.len()));
            let columns = strips.columns(tiles.clone());
            panels.x.resize(outputs * columns.len());
            panels.cut.clear();
            panels.cut.extend(tiles.clone().map(|t| strips.span(t)).map(|span| Panel {
                first: span.start - columns.start,
                columns: span.len(),
                to: (span.start - columns.start) * outputs,
                to_step: span.len(),
            }));
            let x = |line: &Line| self.x[line.x + self.rows[row] + columns.start..].as_ptr();
            // SAFETY: by this function's contract; there is room for all tiles.
            unsafe { self.fill_panels(group.lines, (x, self.x_step), &panels.cut, panels.x.as_mut_slice()) };
            let mut at = 0;
            for Range { start: lo, end: hi } in tiles.map(|t| strips.span(t)) {
                for block in blocks() {
                    let tile = WeightTile {
                        x: panels.x.as_slice()[at..].as_ptr(),
                        x_step: hi - lo,
                        lines: &line,
                        dy: panels.dy.as_slice()[panel_of(&block)..].as_ptr(),
                        // SAFETY: an element of dw.
                        dw: unsafe { target.dw.add((row * run + lo) * channels + block.first) },
                        dw_step: channels,
                        tail: block.tail,
                        add: target.add,
                        ahead: ahead.next().unwrap_or(&[]),
                    };
                    // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
                    unsafe { kernels.weights[block.vecs - 1][hi - lo - 1](&tile) }
                }
                at += outputs * (hi - lo);
            }
        }
    }

    /// Copies a row for each output of some lines to panels; `first` is where that of a line's first output is.
    ///
    /// # Safety
    /// The columns of the panels are there for all outputs, the rows of a line `step` elements apart; `to` has room for them.
    unsafe fn fill_panels(
        &self,
        lines: &[Line],
        (first, step): (impl Fn(&Line) -> *const T, usize),
        panels: &[Panel],
        to: &mut [T],
    ) {
        let to = to.as_mut_ptr();
        let mut outputs = 0;
        for line in lines {
            let rows = outputs..outputs + line.len;
            outputs = rows.end;
            // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
            unsafe { (self.kernels.panels)(&Matrix { from: first(line), step, rows, panels, to }) }
        }
    }
}
