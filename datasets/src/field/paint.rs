//! The density of particles on the grid, by cloud in cell (Hockney & Eastwood 1981): each particle is a cube as large as a
//! cell and is shared among the eight cells that it overlaps.

use std::ops::Range;

use super::Displacements;
use crate::parallel::for_slabs;

/// Density `[D, H, W]` in units of the mean for growth factors `[D, D2]`.
///
/// Each thread owns planes and adds to them, in lattice order, what falls there; so every cell adds up the same numbers in
/// the same order for any number of threads.
pub fn paint(displacements: &Displacements, growth: [f64; 2], threads: usize) -> Vec<f32> {
    let n = displacements.grid().cells;
    let farthest = (0..n * n * n).map(|i| displacements.at(0, i, growth).abs()).fold(0.0, f64::max);
    let reach = farthest.ceil() as usize + 1;
    let mut density = vec![0.0; n * n * n];
    for_slabs(&mut density, n * n, threads, |owned, slab| {
        for d in (0..n).filter(|&d| may_touch(d, reach, &owned, n)) {
            for h in 0..n {
                for w in 0..n {
                    let particle = (d * n + h) * n + w;
                    let at = |axis, start: usize| start as f64 + displacements.at(axis, particle, growth);
                    deposit([at(0, d), at(1, h), at(2, w)], n, &owned, slab);
                }
            }
        }
    });
    density
}

/// False if a particle of lattice plane `d` that moves by less than `reach` - 1 planes is sure to miss the planes `owned`.
fn may_touch(d: usize, reach: usize, owned: &Range<usize>, n: usize) -> bool {
    let after_start = (d + n - owned.start) % n;
    after_start < owned.len() + reach || n - after_start <= reach
}

/// Adds one particle at `position` (in cells; cell i covers [i, i + 1), the box is periodic) to the planes `owned` of the
/// density, which are `slab`.
pub(super) fn deposit(position: [f64; 3], n: usize, owned: &Range<usize>, slab: &mut [f32]) {
    let [d, h, w] = position.map(|x| overlap(x, n));
    for (d, share_d) in d {
        if !owned.contains(&d) {
            continue;
        }
        for (h, share_h) in h {
            let row = ((d - owned.start) * n + h) * n;
            for (w, share_w) in w {
                slab[row + w] += share_d * share_h * share_w;
            }
        }
    }
}

/// The two cells of an axis that a particle at `x` overlaps, and its share in each.
fn overlap(x: f64, n: usize) -> [(usize, f32); 2] {
    let size = n as f64;
    let x = x - 0.5;
    // Rounding may carry a tiny negative x to exactly `size`.
    let x = (x - size * (x / size).floor()).min(size.next_down());
    let cell = x as usize;
    let right = (x - cell as f64) as f32;
    [(cell, 1.0 - right), (if cell + 1 == n { 0 } else { cell + 1 }, right)]
}
