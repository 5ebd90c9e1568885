//! The weight gradient where outputs share no inputs, or are few: a product of two matrices, both of which are copied to the
//! order of the kernel.

use super::super::cut::strips;
use super::super::fill::Run;
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
        for block in blocks() {
            let panel = &mut panels.dy.as_mut_slice()[panel_of(&block)..];
            // SAFETY: by this function's contract.
            unsafe { self.fill_panel(group.lines, &block, panel.as_mut_ptr()) };
        }
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
            panels.x.resize(outputs * (strips.span(tiles.end - 1).end - strips.span(tiles.start).start));
            let mut at = 0;
            for span in tiles.clone().map(|t| strips.span(t)) {
                // SAFETY: by this function's contract.
                unsafe { self.fill_inputs(group.lines, row, span.clone(), panels.x.as_mut_slice()[at..].as_mut_ptr()) };
                at += outputs * span.len();
            }
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

    /// Copies the inputs `span` of a row of each of the lines' outputs to `[outputs][inputs]`.
    ///
    /// # Safety
    /// All inputs of the lines lie inside `x`; `to` has room for those that are copied.
    unsafe fn fill_inputs(&self, lines: &[Line], row: usize, span: Range<usize>, mut to: *mut T) {
        for line in lines {
            let from = self.x[line.x + self.rows[row] + span.start..].as_ptr();
            let run =
                Run { from, from_step: self.x_step, to, to_step: span.len(), len: line.len, channels: span.len() };
            // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
            unsafe {
                (self.kernels.rows)(&run);
                to = to.add(line.len * span.len());
            }
        }
    }
}
