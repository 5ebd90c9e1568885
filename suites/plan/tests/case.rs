//! Case lines: what is printed is read back, and what is wrong is said.

use shardmark_plan::Case;
use shardmark_plan::keys::KEYS;
use shardmark_plan::value::{Grid, Input, Setting, Volume};

const EXAMPLE: &str = "cosmoflow net=2020 width=128 norm=none batch=1 grid=1x2x2x1 ranks=4 transport=threads \
                       mode=strong steps=5 warmup=1 repeat=1 optimizer=adam input=synthetic seed=1 tail=pool5 check=quick";

fn error(line: &str) -> String {
    Case::parse(line).expect_err(line).to_string()
}

#[test]
fn a_line_round_trips_short_and_resolved() {
    let lines = [
        EXAMPLE,
        "cosmoflow",
        "cosmoflow width=8x16x32 grid=2x4x1x1 lr=0.0003 eps=1e-3 dropout=0.5 hang_limit=2.5 timeout=60",
        "cosmoflow mode=weak axis=space epochs=3 validate=64 input=\"my data/\\\"a\\\"\" seed=18446744073709551615",
        "cosmoflow net=mlperf norm=global transport=mpi optimizer=sgd transform=log1p detail=extremes check=full",
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
    assert_eq!(Case::default().hash(1), "2e84a8f5f7a7e720");
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
    assert!(error("unet").contains("workload: expected cosmoflow, got \"unet\""));
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
    assert!(error("cosmoflow momentum=1.5").starts_with("momentum: expected 0 <= x < 1, got 1.5"));
    assert!(error("cosmoflow input=\"a b").contains("closing quote"));
    assert!(error("cosmoflow input=").contains("input: expected synthetic"));
}
