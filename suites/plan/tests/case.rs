//! Case lines: what is printed is read back, and what is wrong is said.

use shardmark_plan::Case;
use shardmark_plan::keys::KEYS;
use shardmark_plan::value::{Bytes, Grid, Input, Setting, Value, Volume, Workload};

const EXAMPLE: &str = "cosmoflow net=2020 width=128 norm=none batch=1 grid=1x2x2x1 ranks=4 transport=threads \
                       mode=strong steps=5 warmup=1 repeat=1 optimizer=adam input=synthetic seed=1 tail=pool5 check=quick";

const LAYER: &str = "layer:conv2d/c=3/k=64/in=224x224/kernel=7/stride=2/pad=3/first batch=2 grid=1x1x2x1";

fn error(line: &str) -> String {
    Case::parse(line).expect_err(line).to_string()
}

#[test]
fn a_line_round_trips_short_and_resolved() {
    let lines = [
        EXAMPLE,
        "cosmoflow",
        "cosmoflow width=8x16x32 grid=2x4x1x1 lr=0.0003 eps=1e-3 dropout=0.5 hang_limit=2.5 timeout=60",
        "cosmoflow mode=weak axis=space epochs=3 validate=64 input=\"my data/\\\"a\\\"\" transform=log1p \
         seed=18446744073709551615",
        LAYER,
        "comm:allreduce bytes=1536 grid=3x1x1x1",
        "comm:halo width=8x16x32 channels=2 grid=1x2x2x1",
        "cosmoflow net=mlperf norm=global transport=mpi optimizer=sgd detail=extremes check=full",
    ];
    for line in lines {
        let case = Case::parse(line).unwrap();
        assert_eq!(Case::parse(&case.to_string()).unwrap(), case, "{case}");
        assert_eq!(Case::parse(&case.resolved()).unwrap(), case, "{}", case.resolved());
    }
}

#[test]
fn values_arrive_in_their_fields() {
    let case = Case::parse(EXAMPLE).unwrap();
    assert_eq!(case.grid, Grid::new([1, 2, 2, 1, 1]));
    assert_eq!(case.width, Volume([128; 3]));
    assert_eq!(case.ranks, 4);
    let case = Case::parse("cosmoflow grid=1x2x3x1 dropout=0.25 input=\"a b\"").unwrap();
    assert_eq!((case.ranks, case.dropout), (6, Setting::Given(0.25)));
    assert_eq!(case.input, Input::Dataset("a b".into()));
}

#[test]
fn the_resolved_line_names_every_key() {
    let line = Case::default().resolved();
    for key in &KEYS[1..] {
        assert!(line.contains(&format!(" {}=", key.name)), "{} in {line}", key.name);
    }
}

#[test]
fn the_hash_depends_on_every_key_and_the_schema_and_never_changes() {
    let case = Case::parse(EXAMPLE).unwrap();
    // Written down: records of an older program are found by it.
    assert_eq!(Case::default().hash(1), "051946bafb8ede49");
    assert_eq!(case.hash(1), Case::parse(&case.resolved()).unwrap().hash(1));
    assert_ne!(case.hash(1), case.hash(2));
    assert_ne!(case.hash(1), Case { seed: 2, ..case.clone() }.hash(1));
    assert_ne!(case.hash(1), Case { timeout: Some(1.0), ..case.clone() }.hash(1));
}

#[test]
fn mistakes_are_told_as_expected_got_remedy() {
    let unknown = error("cosmoflow wdth=3");
    assert!(
        unknown.contains("got \"wdth\"") && unknown.contains("width") && unknown.contains("hang_limit"),
        "{unknown}"
    );
    assert_eq!(error("cosmoflow 32"), "case line: expected key=value, got \"32\"; write for example width=32");
    assert_eq!(error("cosmoflow seed=1 seed=2"), "case line: expected seed once, got it twice; remove one");
    assert_eq!(
        error("cosmoflow grid=1x0x1x1"),
        "case line: grid: expected NxDxHxW, got \"1x0x1x1\"; see `shardmark list --keys`"
    );
    assert!(
        error("unet").contains("workload: expected cosmoflow | layer:LINE | comm:allreduce | comm:halo, got \"unet\"")
    );
    assert_eq!(
        error("cosmoflow grid=1x2x1x1 ranks=3"),
        "ranks: expected ranks=2 for grid=1x2x1x1, got ranks=3; leave ranks out or correct the grid"
    );
    assert!(error("cosmoflow grid=4294967296x4294967296x4294967296x1").contains("grid: expected NxDxHxW"));
    assert!(error("cosmoflow grid=1x1x1x1x2").contains("grid: expected NxDxHxW"));
    assert!(error("cosmoflow mode=weak").starts_with("axis: expected sample or space"));
    assert!(error("cosmoflow axis=space").starts_with("axis: expected none in strong scaling"));
    assert!(error("cosmoflow batch=0").starts_with("batch: expected at least 1"));
    assert!(error("cosmoflow epochs=2").starts_with("epochs: expected a dataset"));
    assert!(error("cosmoflow lr=nan").contains("lr: expected a number, got \"nan\""));
    assert!(error("cosmoflow optimizer=sgd momentum=1.5").starts_with("momentum: expected 0 <= x < 1, got 1.5"));
    assert!(error("cosmoflow input=\"a b").contains("closing quote"));
    assert!(error("cosmoflow input=").contains("input: expected synthetic"));
}

#[test]
fn a_layer_is_one_word_however_it_is_written() {
    let case = Case::parse(LAYER).unwrap();
    let layer = case.layer().unwrap().unwrap();
    assert_eq!((layer.x, layer.output()), ([2, 1, 224, 224, 3], [2, 1, 112, 112, 64]));
    let spaced = Workload::read("layer:conv2d k=64 c=3 in=224x224  kernel=7x7 stride=2 pad=3:3 first").unwrap();
    assert_eq!(spaced, case.workload);
    assert_eq!(Workload::read(&spaced.print()), Some(spaced));
    assert!(
        case.to_string().starts_with("layer:conv2d/c=3/k=64/in=224x224/kernel=7/stride=2/pad=3/first batch=2 grid=")
    );
    assert!(case.resolved().contains(" width=32 "));
    let quoted = "workload=\"layer:dense c=3 k=4\" batch=2";
    assert_eq!(Case::parse(quoted).unwrap().to_string().split(' ').next(), Some("layer:dense/c=3/k=4"));
    assert_eq!(Case::parse("comm:allreduce bytes=2048").unwrap().bytes, Bytes(2048));
    assert!(Case::parse("comm:allreduce bytes=2048").unwrap().to_string().contains(" bytes=2KiB "));
    assert_eq!((Bytes::read("3MiB"), Bytes::read("3 MB"), Bytes(0).print()), (Some(Bytes(3 << 20)), None, "0".into()));
}

#[test]
fn a_key_that_changes_nothing_is_refused_and_has_its_default() {
    assert_eq!(
        error("comm:allreduce conv=direct"),
        "conv: expected no value beside comm:allreduce, where it changes nothing, got direct; leave it out"
    );
    for (line, key, beside) in [
        ("comm:halo lr=0.5", "lr", "comm:halo"),
        ("comm:halo tail=pool5", "tail", "comm:halo"),
        ("comm:halo seed=2", "seed", "comm:halo"),
        ("comm:allreduce width=64", "width", "comm:allreduce"),
        ("layer:dense/c=3/k=4 conv=direct", "conv", "layer:dense/c=3/k=4"),
        ("layer:dense/c=3/k=4 norm=global", "norm", "layer:dense/c=3/k=4"),
        ("layer:dense/c=3/k=4 input=data", "input", "layer:dense/c=3/k=4"),
        ("layer:dense/c=3/k=4 beta1=0.5", "beta1", "layer:dense/c=3/k=4"),
        ("cosmoflow bytes=4KiB", "bytes", "cosmoflow"),
        ("cosmoflow momentum=0.5", "momentum", "optimizer=adam"),
        ("cosmoflow optimizer=sgd eps=0.5", "eps", "optimizer=sgd"),
        ("cosmoflow transform=log1p", "transform", "input=synthetic"),
        ("cosmoflow validate=3", "validate", "epochs=0"),
        ("cosmoflow epochs=2 input=data steps=9", "steps", "epochs=2"),
    ] {
        let text = error(line);
        assert!(text.starts_with(&format!("{key}: expected no value beside {beside}, ")), "{line}: {text}");
    }
    for line in ["layer:conv2d/c=3/k=4/in=9x9/kernel=3/stride=1/pad=1 conv=direct", "comm:allreduce conv=auto lr=1e-3"]
    {
        assert!(Case::parse(line).is_ok(), "{line}");
    }
    let case = Case::parse("comm:allreduce").unwrap();
    assert!(case.settings().contains_key("bytes") && !case.settings().contains_key("conv"));
    assert!(case.resolved().contains(" conv=auto "));
    let short = case.to_string();
    assert_eq!(
        short,
        "comm:allreduce grid=1x1x1x1 ranks=1 transport=threads mode=strong steps=5 warmup=1 repeat=1 check=quick"
    );
}

#[test]
fn wrong_layers_are_told_by_the_grammar() {
    assert!(error("layer:conv4d/c=3").starts_with("layer of `conv4d c=3 n=1`: expected one of conv2d, conv3d"));
    assert!(error("layer:conv2d/c=3/k=4/in=9x9/kernel=3/stride=0/pad=1").starts_with("stride of `conv2d"));
    assert!(
        error("layer:dense/n=2/c=3/k=4")
            .contains("expected a layer without n, got dense n=2 c=3 k=4; set the key batch")
    );
    assert!(error("layer:conv2d/c=3/k=4/in=2x2/kernel=5/stride=1/pad=0").contains("expected windows that fit"));
    assert!(error("layer:conv2d/c=3/k=4/in=9x9/kernel=3/stride=1/pad=999999999").starts_with("pad of `conv2d"));
    assert!(
        error("layer:leaky_relu/c=3/in=99999 batch=999999999").starts_with("batch: expected tensors of at most 2^46")
    );
    assert!(error("layer:dense/c=3/k=4 batch=1000000000").starts_with("batch: expected a whole number of"));
    assert!(Case::parse("layer:dense/c=3/k=4 batch=10000000").is_ok());
    assert!(error("layer:pool_max2d/c=4/in=5x5/kernel=2/stride=3/pad=2").contains("padded by less than its kernel"));
    let transposed = error("layer:conv_transpose2d/c=3/k=4/in=9x9/kernel=2/stride=2/pad=0");
    assert!(transposed.contains("expected a layer of a network, got conv_transpose2d"), "{transposed}");
    assert!(error("layer:dense/c=3/k=4 mode=weak axis=space").starts_with("axis: expected sample for a single layer"));
    assert!(
        error("layer:dense c=3 k=4").contains("expected the layer as one word, got c after a blank; join its words")
    );
    assert!(error("comm:allreduce bytes=6").starts_with("bytes: expected a positive multiple of 4, got 6"));
}

#[test]
fn sizes_that_no_machine_counts_are_refused() {
    for line in [
        "cosmoflow batch=18446744073709551615 grid=1x1x1x1",
        "cosmoflow channels=4000000000 grid=1x1x1x1",
        "cosmoflow width=18446744073709551615 grid=1x1x1x1",
        "comm:halo width=100000 batch=1000000 grid=1x1x1x1",
        "comm:allreduce bytes=1000000GiB grid=1x1x1x1",
        "layer:leaky_relu/c=18446744073709551615/in=4 grid=1x1x1x1",
        "layer:conv3d/c=9/k=9/in=999999999x999999999x9/kernel=1/stride=1/pad=0 grid=1x1x1x1",
        "layer:dense/c=999999999/k=3 batch=999999999 grid=1x1x1x1",
        "cosmoflow grid=1x1x1x1 threads_per_rank=1025",
        "cosmoflow grid=1x1x1x1 hang_limit=1e300",
        "cosmoflow grid=1x1x1x1 timeout=-1",
    ] {
        let error = Case::parse(line).expect_err(line).to_string();
        assert!(error.contains("expected") && error.contains("got"), "{error}");
    }
}
