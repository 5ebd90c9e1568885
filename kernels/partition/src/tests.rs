//! Every grid of every small rank count: blocks tile, transfers pair up and cover exactly what is needed.

use crate::*;
use std::collections::BTreeMap;

fn assert_transfer_is_complete(transfer: &Transfer, grid: &Grid) {
    let mut sent: BTreeMap<(usize, usize), Region> = BTreeMap::new();
    for rank in 0..grid.size() {
        for (peer, region) in transfer.sends(grid, &grid.coords(rank)) {
            assert!(sent.insert((rank, peer), region).is_none(), "two messages from {rank} to {peer} on {grid}");
        }
    }
    for rank in 0..grid.size() {
        let coords = grid.coords(rank);
        let need = transfer.to.region(grid, &coords);
        let mut got = transfer.local(grid, &coords).len();
        for (peer, region) in transfer.recvs(grid, &coords) {
            assert_eq!(sent.remove(&(peer, rank)), Some(region), "{peer} to {rank} on {grid}");
            assert!(need.contains(&region));
            got += region.len();
        }
        assert_eq!(got, need.len(), "rank {rank} of {grid} needs {need}");
    }
    assert!(sent.is_empty(), "sends without a receive on {grid}: {sent:?}");
}

#[test]
fn blocks_tile_every_extent() {
    for extent in 0..20 {
        for parts in 1..24 {
            let mut next = 0;
            for i in 0..parts {
                let b = block(extent, parts, i);
                assert_eq!(b.lo, next);
                next = b.hi;
            }
            assert_eq!(next, extent as i64);
        }
    }
}

#[test]
fn ranks_and_coordinates_are_inverse() {
    for grid in Grid::factorisations(24) {
        for rank in 0..24 {
            assert_eq!(grid.rank(&grid.coords(rank)), rank);
        }
    }
    assert_eq!(Grid::factorisations(8).len(), 20);
}

#[test]
fn grids_are_parsed_and_printed() {
    for text in ["1x2x3x4", "16x16x16x16", "1x1x1x1x2"] {
        assert_eq!(text.parse::<Grid>().expect("valid").to_string(), text);
    }
    for text in ["", "1x2x3", "0x1x1x1", "1x1x1x-1", "axbxcxd", "1x1x1x1x1x1", "99999999999x99999999999x9x9"] {
        let message = text.parse::<Grid>().expect_err("refused").to_string();
        assert!(message.contains("expected NxDxHxW"), "{message}");
    }
}

#[test]
fn an_axis_may_split_one_dimension_only() {
    let d = AxisSet::of(&[Dim::D]);
    let error = Dist::new([AxisSet::NONE, d, d, AxisSet::NONE, AxisSet::NONE]).expect_err("refused");
    assert_eq!(error, DistError::AxisUsedTwice(Dim::D));
}

#[test]
fn windows_agree_with_the_definition_by_enumeration() {
    for (k, s, p) in [(1, 1, 0), (2, 1, 0), (2, 2, 0), (3, 1, 1), (3, 2, 1), (5, 2, 2), (7, 2, 3), (1, 2, 0), (4, 3, 1)]
    {
        let window = Window::new(k, s, p);
        let reads = |o: i64, x: i64| o * s as i64 - p as i64 <= x && x < o * s as i64 - p as i64 + k as i64;
        for lo in -3..12 {
            for hi in lo + 1..14 {
                let x = Span::new(lo, hi);
                let hits: Vec<i64> = (-40..40).filter(|&o| (lo..hi).any(|i| reads(o, i))).collect();
                if let (Some(&a), Some(&b)) = (hits.first(), hits.last()) {
                    assert_eq!(window.outputs(x), Span::new(a, b + 1), "{window:?} {x:?}");
                }
                let inner: Vec<i64> =
                    (-20..20).filter(|&o| (-90..90).filter(|&i| reads(o, i)).all(|i| x.lo <= i && i < x.hi)).collect();
                assert_eq!(window.interior(x).len(), inner.len(), "{window:?} {x:?}");
                if let Some(&a) = inner.first() {
                    assert_eq!(window.interior(x).lo, a);
                }
                let inner: Vec<i64> =
                    (-20..20).filter(|&i| (-90..90).filter(|&o| reads(o, i)).all(|o| x.lo <= o && o < x.hi)).collect();
                let got = window.interior_inputs(x).intersect(Span::new(-20, 20));
                // Inputs that nobody reads (stride above kernel) are inside whatever the outputs are.
                assert!((got.lo..got.hi).all(|i| inner.contains(&i)), "{window:?} {x:?}");
                if k >= s {
                    assert_eq!(got.len(), inner.len(), "{window:?} {x:?}");
                }
            }
        }
    }
}

#[test]
fn halos_and_redistributions_are_complete_on_every_grid() {
    for ranks in 1..=8 {
        for grid in Grid::factorisations(ranks) {
            for (k, s, p) in [(3, 1, 1), (2, 1, 0), (3, 2, 1), (5, 2, 2), (7, 2, 3), (2, 2, 0), (1, 1, 0), (1, 2, 0)] {
                let window = Window::new(k, s, p);
                for shape in [[2, 8, 7, 5, 3], [3, 3, 2, 9, 1], [1, 16, 3, 4, 2]] {
                    let Some(out) = out_shape(shape, window) else { continue };
                    let dist = Dist::spatial();
                    let own_x = Cover::own(shape, dist);
                    let own_y = Cover::own(out, dist);
                    let need_x = Cover::inputs(shape, out, dist, [window; 3]);
                    let need_y = Cover::outputs(out, shape, dist, [window; 3]);
                    let tail = Cover::own(shape, Dist::samples());
                    for (from, to) in [(own_x, need_x), (own_y, need_y), (own_x, tail), (tail, own_x)] {
                        assert_transfer_is_complete(&Transfer { from, to, key: 0 }, &grid);
                    }
                }
            }
        }
    }
}

#[test]
fn replicas_are_served_too() {
    for grid in Grid::factorisations(6) {
        let shape = [2, 5, 4, 3, 2];
        let only = |d| Dist::new([AxisSet::NONE, d, AxisSet::NONE, AxisSet::NONE, AxisSet::NONE]).expect("valid");
        let split = Cover::own(shape, only(AxisSet::of(&[Dim::D])));
        let whole = Cover::own(shape, only(AxisSet::NONE));
        assert_transfer_is_complete(&Transfer { from: split, to: whole, key: 0 }, &grid);
        assert_transfer_is_complete(&Transfer { from: whole, to: split, key: 0 }, &grid);
    }
}

#[test]
fn going_to_the_tail_stays_inside_sample_groups() {
    for grid in Grid::factorisations(8) {
        for samples in 1..9 {
            let shape = [samples, 4, 4, 4, 1];
            let transfer =
                Transfer { from: Cover::own(shape, Dist::spatial()), to: Cover::own(shape, Dist::samples()), key: 0 };
            for rank in 0..8 {
                let coords = grid.coords(rank);
                for (peer, _) in transfer.sends(&grid, &coords) {
                    assert_eq!(grid.coords(peer)[0], coords[0]);
                }
            }
        }
    }
}

#[test]
fn region_minus_box_is_disjoint_and_complete() {
    let outer = Region::full([2, 5, 6, 7, 3]);
    let inner = outer.with(Dim::D, Span::new(1, 4)).with(Dim::W, Span::new(0, 5));
    let sides = outer.minus(&inner);
    assert_eq!(sides.iter().map(Region::len).sum::<usize>() + inner.len(), outer.len());
    for (i, a) in sides.iter().enumerate() {
        assert!(a.intersect(&inner).is_empty());
        assert!(sides[i + 1..].iter().all(|b| a.intersect(b).is_empty()));
    }
}

fn out_shape(shape: Shape, window: Window) -> Option<Shape> {
    let [d, h, w] = [1, 2, 3].map(|i| window.out_extent(shape[i]));
    Some([shape[0], d?, h?, w?, shape[4]])
}
