//! Sub-boxes and teams change no bit.

use super::{Conv, Isa, Problem, isas, run_by};
use shardmark_host::{SOLO, Team};
use shardmark_partition::{Region, SPATIAL, Span};
use shardmark_tensor::{Block, rng};

#[test]
fn sub_boxes_give_the_same_bits() {
    let teams: Vec<Team> = (1..=4).map(|threads| Team::new(threads).expect("threads")).collect();
    for (conv, n, extents) in [
        (Conv::cube(20, 35, 3, 1, 1, true), 1, [5, 6, 7]),
        (Conv::cube(4, 16, 3, 1, 1, false), 2, [3, 5, 11]),
        (Conv::cube(40, 70, 3, 2, 1, false), 1, [5, 5, 6]),
        // All outputs are so many that weights are packed, and those of each sub-box so few that they are not.
        (Conv::cube(19, 37, 3, 1, 1, true), 1, [7, 10, 12]),
        (Conv::cube(18, 51, 3, 2, 1, true), 1, [17, 18, 21]),
        // Over tiles, which the sub-boxes cut through.
        (Conv::cube(19, 36, 3, 1, 1, true), 1, [9, 11, 12]),
        (Conv::image(65, 16, 3, 1, 0, false), 2, [1, 27, 30]),
    ] {
        let problem = Problem::new(&conv, n, extents, |stream, i| rng::uniform(5, stream, i) - 0.5);
        let (x, dy) = (problem.x_block(), problem.dy_block());
        let (out, input) = (Region::full(problem.y_shape), Region::full(problem.x_shape));
        for isa in isas() {
            let (mut local, weight, bias) = problem.local::<f32>(isa);
            let (mut y, mut dx) = (Block::zeros(out), Block::zeros(input));
            // What is left of other weights is not used.
            let others = vec![f32::NAN; weight.len()];
            local.forward(&SOLO, &others, &bias, &x, &mut y, &out);
            local.backward_data(&SOLO, &others, &dy, &mut dx, &input);
            local.forget_weights();
            local.forward(&SOLO, &weight, &bias, &x, &mut y, &out);
            local.backward_data(&SOLO, &weight, &dy, &mut dx, &input);
            for team in &teams {
                local.forget_weights();
                // Without a packed copy, with the one that many outputs need, and with what those have left.
                let lists = [(pieces(&out), pieces(&input)), (vec![out], vec![input]), (pieces(&out), pieces(&input))];
                for (outputs, inputs) in lists {
                    let (mut y_parts, mut dx_parts) = (Block::zeros(out), Block::zeros(input));
                    outputs.iter().for_each(|part| local.forward(team, &weight, &bias, &x, &mut y_parts, part));
                    inputs.iter().for_each(|part| local.backward_data(team, &weight, &dy, &mut dx_parts, part));
                    assert_eq!(y, y_parts, "{isa}, {} threads: forward of {conv:?}", team.threads());
                    assert_eq!(dx, dx_parts, "{isa}, {} threads: data gradient of {conv:?}", team.threads());
                }
            }
        }
    }
}

#[test]
fn any_team_gives_the_same_bits() {
    for (conv, n, extents) in [
        (Conv::cube(20, 35, 3, 1, 1, true), 1, [5, 16, 40]),
        (Conv::cube(4, 16, 3, 1, 1, false), 2, [9, 25, 31]),
        (Conv::cube(90, 130, 3, 2, 1, false), 1, [5, 5, 6]),
        (Conv::image(130, 70, 1, 1, 0, true), 2, [1, 30, 11]),
        (Conv::cube(50, 270, 3, 1, 1, true), 1, [2, 2, 3]),
        (Conv::cube(33, 130, 3, 1, 1, true), 1, [12, 13, 9]),
        (Conv::image(20, 18, 3, 1, 1, true), 2, [1, 60, 70]),
    ] {
        let problem = Problem::new(&conv, n, extents, |stream, i| rng::uniform(5, stream, i) - 0.5);
        let alone = run_by::<f32>(&problem, Isa::selected(), &SOLO);
        for threads in 2..=4 {
            let team = Team::new(threads).expect("threads");
            assert_eq!(run_by::<f32>(&problem, Isa::selected(), &team), alone, "{threads} threads: {conv:?}");
        }
    }
}

/// An interior and its sides, among them slabs one element thin.
fn pieces(whole: &Region) -> Vec<Region> {
    let interior = SPATIAL.iter().fold(*whole, |r, &dim| {
        let span = r.span(dim);
        r.with(dim, Span::new(span.lo + 1, (span.hi - 2).max(span.lo + 1)))
    });
    let mut parts = whole.minus(&interior);
    parts.push(interior);
    parts
}
