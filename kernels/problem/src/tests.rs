//! Lines round trip, have the right shapes, or explain themselves.

use crate::{Kind, LayerLine};

fn layer(line: &str) -> LayerLine {
    line.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn what_is_printed_is_read_back() {
    for (line, printed) in [
        ("conv3d n=1 c=16 k=32 in=64x64x64 kernel=3 stride=1 pad=1", ""),
        (
            "conv2d pad=3 n=2 c=3 k=64 in=9x5 kernel=7x7 stride=2x1 first",
            "conv2d n=2 c=3 k=64 in=9x5 kernel=7 stride=2x1 pad=3 first",
        ),
        (
            "conv3d n=1 c=1 k=1 in=4x4x4 kernel=2 stride=1 pad=0:1x0:1x0:1",
            "conv3d n=1 c=1 k=1 in=4x4x4 kernel=2 stride=1 pad=0:1",
        ),
        ("conv_transpose2d n=1 c=3 k=4 in=9x8 kernel=3 stride=2 pad=1", ""),
        ("pool_max2d n=1 c=3 in=9x8 kernel=3 stride=2 pad=1", ""),
        ("dense n=4 c=3 k=5 first", ""),
        ("batch_norm n=2 c=3 in=7x6x5", ""),
        ("leaky_relu n=2 c=3 in=7", ""),
    ] {
        let printed = if printed.is_empty() { line } else { printed };
        assert_eq!(layer(line).to_string(), printed);
        assert_eq!(layer(printed), layer(line));
    }
}

#[test]
fn shapes_follow_from_the_sizes() {
    let line = layer("conv2d n=2 c=3 k=4 in=9x5 kernel=3x1 stride=2x1 pad=0:1x0");
    assert_eq!((line.x, line.output()), ([2, 1, 9, 5, 3], [2, 1, 4, 5, 4]));
    assert_eq!(layer("dense n=4 c=3 k=5").output(), [4, 1, 1, 1, 5]);
    let line = layer("conv_transpose2d n=1 c=3 k=4 in=9x8 kernel=3 stride=2 pad=1");
    assert_eq!((line.kind, line.output()), (Kind::ConvTranspose, [1, 1, 17, 15, 4]));
    assert_eq!(layer("pool_avg3d n=1 c=3 in=2x9x9 kernel=3 stride=2 pad=0").output(), [1, 0, 4, 4, 3]);
    assert_eq!(layer("leaky_relu n=2 c=3 in=7").output(), [2, 1, 1, 7, 3]);
}

#[test]
fn errors_name_the_key_and_the_line() {
    let error = |line: &str| line.parse::<LayerLine>().expect_err("no layer").to_string();
    assert!(error("pool3d n=1").contains("got pool3d"));
    assert!(error("").contains("got nothing"));
    assert!(error("conv2d n=1 c=3 k=4 in=9x9 kernel=3 stride=0 pad=1").starts_with("stride of `conv2d"));
    assert!(error("conv2d n=1 c=3 k=4 in=9x9x9 kernel=3 stride=1 pad=1").contains("one value for each dimension"));
    assert!(error("batch_norm n=1 c=3 in=9x9 kernel=3").contains("each of n c in once"));
    assert!(error("conv2d c=3 k=4 in=9x9 kernel=3 stride=1 pad=1").starts_with("n of `conv2d"));
}

#[test]
fn what_is_too_large_is_blamed_on_the_key_that_makes_it_so() {
    for (key, line) in [
        ("pad", "conv2d n=1 c=3 k=4 in=9x9 kernel=3 stride=1 pad=999999999"),
        ("pad", "pool_avg3d n=2 c=3 in=9x9x9 kernel=3 stride=1 pad=0:9999999"),
        ("k", "conv2d n=1 c=3 k=999999999 in=999x999 kernel=1 stride=1 pad=0"),
        ("stride", "conv_transpose2d n=1 c=3 k=4 in=9x9 kernel=3 stride=99999999 pad=0"),
        ("kernel", "conv_transpose2d n=1 c=3 k=4 in=9x9 kernel=99999999 stride=2 pad=0"),
        ("in", "batch_norm n=2 c=3 in=999999999x999999999"),
        ("n", "leaky_relu n=999999999 c=3 in=99999"),
        ("c", "leaky_relu n=2 c=999999999 in=999999"),
        ("k", "dense n=2 c=9999999 k=99999999"),
    ] {
        let error = line.parse::<LayerLine>().expect_err(line).to_string();
        let start = format!("{key} of `{line}`: expected tensors of at most 2^46 elements, got ");
        assert!(error.starts_with(&start), "{error}");
    }
}
