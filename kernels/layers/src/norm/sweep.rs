//! How lines `[W, C]` are swept: in the order of memory, as rows of a period of channels.
//!
//! Sweeps of a batch norm wait for memory, and memory is fast for who asks in its order: there, walks that keep a strip's
//! constants in registers over many rows are slower than reading the constants again for each row. In the caches they are up to
//! twice as fast.

use crate::Float;
use crate::simd::{STRIP, WIDE, prefetch_next_strip};
use crate::store::Stores;
use shardmark_partition::Region;
use std::iter::from_fn;
use std::ops::Range;

/// Most elements of a block: what is kept for each while a panel is swept stays in the first-level cache.
pub(super) const BLOCK: usize = 512;

/// Elements of rows that are swept together.
const NEAR: usize = 4096;

/// Most rows of a panel. Sums over its rows are in T, all others in f64.
pub(super) const ROWS: usize = 32;

/// Elements of a row: the channels of a power of two of positions, that wide strips fill if so many are few, or else those of
/// one position.
pub(super) fn period(c: usize) -> usize {
    // The least common multiple of c and a power of two.
    let filled = |strip: usize| (c * strip) >> c.trailing_zeros().min(strip.trailing_zeros());
    let candidates = [(filled(WIDE), BLOCK / 2), (filled(STRIP), BLOCK)];
    candidates.into_iter().find(|(len, most)| len <= most).map_or(c, |(len, _)| len)
}

/// Puts the values of all channels into a vector, over and over for a period; its memory is used again.
pub(super) fn overwrite_period<T: Float>(vector: &mut Vec<T>, values: impl Iterator<Item = T>) {
    vector.clear();
    vector.extend(values);
    let period = period(vector.len());
    while vector.len() < period {
        vector.extend_from_within(..vector.len().min(period - vector.len()));
    }
}

/// How lines are swept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    /// Elements of a row.
    pub period: usize,
    /// Most rows that are swept as one: a strip's constants and sums then stay in registers.
    rows: usize,
}

impl Sweep {
    /// The sweep of the lines of a part with `c` channels. Rows of one strip follow each other in memory; longer ones are
    /// swept several at a time where they are in the caches.
    pub fn of<T>(part: &Region, c: usize) -> Self {
        let period = period(c);
        let rows = match Stores::of::<T>(part) {
            _ if period == WIDE => usize::MAX,
            Stores::Cached => (NEAR / period).max(1),
            Stores::Streaming => 1,
        };
        Sweep { period, rows }
    }
}

/// Rows that are swept as one.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    /// First element.
    from: usize,
    rows: usize,
    /// Elements of each row; less than the period in the last one of a line.
    pub width: usize,
    period: usize,
}

impl Walk {
    /// Walks that cover some elements of a line, which begin with a whole period.
    #[inline(always)]
    pub fn over(elements: Range<usize>, Sweep { period, rows }: Sweep) -> impl Iterator<Item = Walk> {
        let mut from = elements.start;
        from_fn(move || {
            let left = elements.end - from;
            let width = period.min(left);
            let rows = if rows == 1 { 1 } else { (left / period).clamp(1, rows) };
            let walk = Walk { from, rows, width, period };
            from += rows * width;
            (width > 0).then_some(walk)
        })
    }

    /// Asks for the lines of cache that a strip will read later, unless its constants stay in registers: those loops are so
    /// short that the core runs far enough ahead by itself, and asking costs a fifth of their speed.
    #[inline(always)]
    pub fn ask<T, const L: usize>(self, values: &[T]) {
        if self.rows == 1 {
            prefetch_next_strip::<T, L>(values);
        }
    }

    /// Elements of the block that begins with a row's element `first`.
    #[inline(always)]
    pub fn block(self, first: usize) -> usize {
        self.width.saturating_sub(first).min(BLOCK)
    }

    /// Where the element `at` of each row is.
    #[inline(always)]
    pub fn places(self, at: usize) -> impl Iterator<Item = usize> {
        (0..self.rows).map(move |row| self.from + row * self.period + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_whole_positions_and_strips_where_they_are_short() {
        for (c, expected) in
            [(1, 64), (3, 192), (8, 64), (16, 64), (20, 80), (32, 64), (40, 80), (48, 192), (64, 64), (96, 192)]
        {
            assert_eq!(period(c), expected, "{c} channels");
        }
        for c in 1..3000 {
            let period = period(c);
            assert!((period / c).is_power_of_two() && period.is_multiple_of(c));
            assert!(period == c || period <= BLOCK && period.is_multiple_of(STRIP));
        }
    }

    #[test]
    fn walks_cover_a_line_once_in_order() {
        for (len, c) in [(0, 3), (21, 3), (192, 3), (4000, 20), (640, 64), (700, 7), (5 * 700, 700), (64, 1), (65, 1)] {
            for rows in [1, 3, usize::MAX] {
                let mut next = 0;
                for walk in Walk::over(0..len, Sweep { period: period(c), rows }) {
                    for row in walk.places(0) {
                        assert_eq!(row, next);
                        next += walk.width;
                    }
                }
                assert_eq!(next, len, "{c} channels, {rows} rows");
            }
        }
    }
}
