//! Sums over tiles against direct sums, over shapes that nobody chose.

use super::super::winograd;
use super::{Algorithm, Conv, Isa, Problem};
use shardmark_host::Team;
use shardmark_partition::{Dim, Region, SPATIAL, Span, Window};
use shardmark_tensor::{Block, rng};

/// Number `i` of a case, below `n`.
fn draw(case: u64, i: u64, n: u64) -> usize {
    (rng::uniform(case, 11, i) * n as f64) as usize
}

/// Three taps along two dimensions; any channels, paddings and extents, so that some have tiles and some do not.
fn problem(case: u64) -> Problem {
    let window =
        |kernel: usize, i: u64| Window { kernel, stride: 1, pad: draw(case, i, 3), pad_after: draw(case, i + 1, 3) };
    let windows = match draw(case, 0, 3) {
        0 => [Window::POINT, window(3, 1), window(3, 3)],
        _ => [window(3, 1), window(3, 3), window(1 + draw(case, 5, 4), 6)],
    };
    let (c, k) = (1 + draw(case, 8, 50), 1 + draw(case, 9, 70));
    let conv = Conv { c, k, windows, bias: true, algorithm: Algorithm::Auto };
    let extents = [3 + draw(case, 10, 9), 4 + draw(case, 11, 14), 4 + draw(case, 12, 20)];
    Problem::integers(&conv, 1 + draw(case, 13, 3), extents)
}

/// Some part of a region.
fn part(case: u64, whole: Region) -> Region {
    let mut i = 20;
    [Dim::N].into_iter().chain(SPATIAL).fold(whole, |region, dim| {
        let span = region.span(dim);
        i += 2;
        let lo = draw(case, i, span.len() as u64);
        let len = 1 + draw(case, i + 1, (span.len() - lo) as u64);
        region.with(dim, Span::new(span.lo + lo as i64, span.lo + (lo + len) as i64))
    })
}

#[test]
fn tiles_and_direct_sums_agree_for_any_shape_and_part() {
    let team = Team::new(2).expect("threads");
    let mut by_tiles = [0; 3];
    for case in 0..150 {
        let tiles = problem(case);
        let passes = winograd::passes(&tiles.conv, tiles.y_shape);
        by_tiles.iter_mut().zip(passes).for_each(|(count, pass)| *count += usize::from(pass.is_some()));
        let mut direct = problem(case);
        direct.conv.algorithm = Algorithm::Direct;
        let (x, dy) = (tiles.x_block(), tiles.dy_block());
        let (out, input) = (Region::full(tiles.y_shape), Region::full(tiles.x_shape));
        let (out_part, input_part) = (part(case, out), part(case + 1000, input));
        let [got, expected] = [&tiles, &direct].map(|problem| {
            let (mut local, weight, bias) = problem.local::<f32>(Isa::selected());
            let (mut y, mut dx) = (Block::zeros(out), Block::zeros(input));
            local.forward(&team, &weight, &bias, &x, &mut y, &out_part);
            local.backward_data(&team, &weight, &dy, &mut dx, &input_part);
            let mut dw = vec![f32::NAN; weight.len()];
            local.backward_weight(&team, &x, &dy, &out_part, &mut dw);
            (y, dx, dw)
        });
        assert!(got == expected, "case {case}: {:?} over {:?}, {out_part:?}", tiles.conv, tiles.x_shape);
    }
    assert!(by_tiles.iter().all(|count| (30..120).contains(count)), "of 150: {by_tiles:?}");
}
