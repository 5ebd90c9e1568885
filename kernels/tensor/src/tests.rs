//! Blocks address global coordinates; random numbers do not depend on the grid; verdicts can fail.

use crate::{Block, compare, rng};
use shardmark_partition::{Dim, Region, Span};

fn numbered(region: Region) -> Block<f32> {
    Block::from_fn(region, |[n, d, h, w, c]| ((((n * 10 + d) * 10 + h) * 10 + w) * 10 + c) as f32)
}

#[test]
fn pack_and_unpack_move_boxes_between_blocks() {
    let whole = numbered(Region::full([2, 4, 5, 6, 3]));
    let part = Region::full([2, 4, 5, 6, 3]).with(Dim::D, Span::new(1, 3)).with(Dim::W, Span::new(2, 6));
    let mut other = Block::zeros(part);
    other.unpack(&part, &whole.pack(&part));
    assert_eq!(other, numbered(part));
    let mut copied = Block::zeros(part);
    copied.copy_from(&whole, &part);
    assert_eq!(copied, other);
    let some_channels = part.with(Dim::C, Span::new(1, 2));
    assert_eq!(whole.pack(&some_channels), numbered(some_channels).data());
    other.add(&part, &whole.pack(&part));
    assert_eq!(other.channels([1, 2, 4, 5])[2], 2.0 * 12452.0);
}

#[test]
fn the_border_lies_outside_only() {
    let inside = Region::full([1, 3, 3, 3, 2]);
    let padded = inside.with(Dim::H, Span::new(-1, 4)).with(Dim::W, Span::new(-2, 3));
    let mut block = Block::from_fn(padded, |_| 1.0f32);
    block.fill_outside(&inside, -7.0);
    let border = block.data().iter().filter(|&&x| x == -7.0).count();
    assert_eq!(border, padded.len() - inside.len());
    assert!(block.pack(&inside).iter().all(|&x| x == 1.0));
}

#[test]
fn random_numbers_have_the_right_moments_and_streams_differ() {
    let n = 20_000u64;
    let u: f64 = (0..n).map(|i| rng::uniform(1, 2, i)).sum::<f64>() / n as f64;
    assert!((u - 0.5).abs() < 0.01, "{u}");
    let (m, v) = (0..n).map(|i| rng::normal(1, 2, i)).fold((0.0, 0.0), |(m, v), x| (m + x, v + x * x));
    assert!((m / n as f64).abs() < 0.03 && (v / n as f64 - 1.0).abs() < 0.05);
    assert_ne!(rng::bits(1, 2, 3), rng::bits(1, 3, 2));
    assert_ne!(rng::bits(1, 2, 3), rng::bits(2, 2, 3));
}

#[test]
fn verdicts_fail_on_errors_nan_and_emptiness() {
    fn values(v: &[f64]) -> impl ExactSizeIterator<Item = f64> {
        v.iter().copied()
    }
    assert!(compare::compare("x", values(&[1.0, 2.0]), &[1.0, 2.0], 0.0).passed());
    assert!(!compare::compare("x", values(&[1.0, 2.1]), &[1.0, 2.0], 0.05).passed());
    assert!(!compare::compare("x", values(&[f64::NAN]), &[1.0], 1e9).passed());
    assert!(!compare::compare("x", values(&[1.0]), &[1.0, 2.0], 1e9).passed());
    assert!(!compare::compare("x", values(&[0.0; 200]), &[0.0; 200], 1.0).passed());
}
