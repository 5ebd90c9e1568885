//! Suites: lists multiply out, overrides win in their order, scaling changes what it should.

use std::path::Path;

use shardmark_plan::expand::Filter;
use shardmark_plan::{Case, Outcome, Planned, Suite};

fn suite(text: &str) -> Suite {
    Suite::parse(text, "test", "test.toml").unwrap()
}

fn cases(text: &str) -> Vec<Planned> {
    suite(text).cases().unwrap()
}

fn error(text: &str) -> String {
    match Suite::parse(text, "test", "test.toml") {
        Err(error) => error.to_string(),
        Ok(suite) => suite.cases().expect_err(text).to_string(),
    }
}

/// What changes along a sweep: (grid, batch, width).
fn sweep(text: &str) -> Vec<String> {
    let row = |p: &Planned| format!("{} batch {} width {}", p.case.grid, p.case.batch, p.case.width);
    cases(text).iter().map(row).collect()
}

#[test]
fn strong_scaling_keeps_the_global_problem() {
    let rows = sweep("mode = 'strong'\nwidth = 64\nbatch = 4\nranks = [1, 2, 4, 6]\ngrid = ['auto:d', 'auto:nd']");
    let expected = ["1x1x1x1", "1x2x1x1", "1x4x1x1", "1x6x1x1", "2x1x1x1", "2x2x1x1", "3x2x1x1"];
    assert_eq!(rows, expected.map(|grid| format!("{grid} batch 4 width 64")));
}

#[test]
fn weak_scaling_over_samples_grows_the_batch() {
    let rows = sweep("mode = 'weak'\naxis = 'sample'\nbatch = 2\nranks = [1, 4]");
    assert_eq!(rows, ["1x1x1x1 batch 2 width 32", "4x1x1x1 batch 8 width 32"]);
}

#[test]
fn weak_scaling_over_space_grows_the_split_dimensions() {
    let rows = sweep("mode = 'weak'\naxis = 'space'\nwidth = 16\nranks = [1, 2, 8, 12]\ngrid = ['auto', '2x1x2x1']\n");
    let expected = [
        "1x1x1x1 batch 1 width 16",
        "1x2x1x1 batch 1 width 32x16x16",
        "1x2x2x2 batch 1 width 32",
        "1x3x2x2 batch 1 width 48x32x32",
    ];
    // A fixed grid needs its own rank count.
    assert_eq!(rows, expected);
    let rows = sweep("mode = 'weak'\naxis = 'space'\nwidth = 16\ngrid = ['2x1x2x1']\n");
    assert_eq!(rows, ["2x1x2x1 batch 2 width 16x32x16"]);
}

#[test]
fn lists_multiply_out_with_ranks_fastest() {
    let all = cases("mode = 'strong'\nnet = ['2020', 'mlperf']\nnorm = ['none', 'global']\nranks = [1, 2]");
    let rows: Vec<String> = all.iter().map(|p| format!("{} {} {}", p.case.net, p.case.norm, p.case.ranks)).collect();
    assert_eq!(rows[..3], ["2020 none 1", "2020 none 2", "2020 global 1"]);
    assert_eq!(rows.len(), 8);
}

#[test]
fn points_with_idle_ranks_are_skipped_with_the_reason() {
    let all = cases("mode = 'strong'\nwidth = 8\nbatch = 2\nranks = [2, 16]\ngrid = ['auto:d', 'auto:n']");
    let skips: Vec<_> = all.iter().map(|p| p.skip.as_ref().map(|skip| (skip.outcome, skip.reason.as_str()))).collect();
    let skip = |text| Some((Outcome::Skipped, text));
    assert_eq!(
        skips,
        [
            None,
            skip("grid 1x16x1x1: expected at most 8 parts along D (extent 8), got 16; use another grid"),
            None,
            skip("grid 16x1x1x1: expected at most 2 parts along batch (extent 2), got 16; use another grid"),
        ]
    );
}

#[test]
fn flags_win_over_the_environment_over_the_file() {
    let mut suite = suite("mode = 'strong'\nwidth = 64\nseed = 1\nsteps = 9");
    let variable = |name: &str| match name {
        "SHARDMARK_WIDTH" => Some("16,32".to_string()),
        "SHARDMARK_SEED" => Some("7".to_string()),
        _ => None,
    };
    suite.set_environment(variable).unwrap();
    suite.set_pair("seed=[8, 9]").unwrap();
    suite.set_pair("grid=auto:h").unwrap();
    suite.set("ranks", "2", "--ranks").unwrap();
    let lines: Vec<String> = suite.cases().unwrap().iter().map(|planned| planned.case.to_string()).collect();
    assert_eq!(lines.len(), 4);
    assert!(
        lines[1].contains("width=16 ") && lines[1].contains("seed=9") && lines[1].contains("grid=1x1x2x1"),
        "{lines:?}"
    );
    assert!(lines[1].contains("steps=9"));
}

#[test]
fn the_resolved_text_gives_the_same_suite_again() {
    let text =
        "mode = 'weak'\naxis = 'space'\nlr = [1e-4, 0.5]\ninput = 'my \"data\"'\nranks = [1, 2]\ngrid = ['auto:dh']";
    let mut first = suite(text);
    first.set_pair("seed=3").unwrap();
    let second = suite(&first.resolved());
    assert_eq!(first.resolved(), second.resolved());
    assert_eq!(first.cases().unwrap(), second.cases().unwrap());
    let fixed = suite("mode = 'strong'\ngrid = ['1x2x1x1', '1x1x1x1']");
    assert_eq!(fixed.cases().unwrap(), suite(&fixed.resolved()).cases().unwrap());
}

#[test]
fn where_selects_by_value_not_by_spelling() {
    let all = cases("mode = 'strong'\nwidth = [16, 32]\nranks = [1, 2, 4]");
    let filter = Filter::parse(&["ranks=1,4".into(), "width=32x32x32".into()]).unwrap();
    let kept: Vec<usize> = all.iter().filter(|p| filter.keeps(&p.case)).map(|p| p.case.ranks).collect();
    assert_eq!(kept, [1, 4]);
    assert!(
        Filter::parse(&["rank=1".into()]).unwrap_err().to_string().starts_with("--where: expected one of the keys")
    );
}

#[test]
fn mistakes_name_file_and_line() {
    let unknown = error("mode = 'strong'\n\n# a comment\nwidht = 3\n");
    assert!(unknown.starts_with("test.toml:4: expected one of the keys workload net width"), "{unknown}");
    assert_eq!(error("width = 3"), "test.toml: expected mode = \"strong\" or \"weak\", got no mode; add the line");
    assert!(error("mode = 'strong'\nwidth = ").starts_with("test.toml:2: expected TOML"));
    assert!(error("mode = 'strong'\nwidth = [1, 'x']").contains("test.toml:2: width: expected WIDTH or DxHxW"));
    assert!(error("mode = 'strong'\nseed = true").contains("seed: expected a number, got \"a boolean\""));
    assert!(error("mode = 'strong'\nseed = []").contains("seed: expected a number, got \"[]\""));
    assert!(error("mode = 'strong'\ngrid = 'auto:dd'").contains("auto: and some of the axes"));
    assert!(error("mode = 'strong'\nranks = 3\ngrid = '1x2x1x1'").starts_with("ranks: expected a grid of 3 ranks"));
    assert!(error("mode = 'weak'").starts_with("axis: expected sample or space"));
}

#[test]
fn lists_in_lists_are_refused() {
    for (line, key) in [("conv = [['auto']]", "conv"), ("seed = [1, [2]]", "seed"), ("grid = [[]]", "grid")] {
        let text = error(&format!("mode = 'strong'\n{line}"));
        assert!(text.starts_with(&format!("test.toml:2: {key}: expected ")), "{text}");
        assert!(text.contains("got \"a list in a list\""), "{text}");
    }
    let text = suite("mode = 'strong'").set_pair("conv=[['auto']]").unwrap_err().to_string();
    assert!(text.starts_with("-S: conv: expected auto | direct, got \"a list in a list\""), "{text}");
}

#[test]
fn keys_go_to_the_cases_that_they_change() {
    let text = "mode = 'strong'\nworkload = ['comm:allreduce', 'comm:halo', 'layer:dense/c=3/k=4']\n\
                bytes = ['4KiB', '8KiB']\nwidth = 8\nbatch = 2";
    let lines: Vec<String> = cases(text).iter().map(|p| p.case.to_string()).collect();
    let has = |start: &str, words: &[&str]| {
        lines.iter().any(|l| l.starts_with(start) && words.iter().all(|word| l.contains(word)))
    };
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(has("comm:allreduce bytes=4KiB grid=", &[]) && has("comm:allreduce bytes=8KiB grid=", &[]), "{lines:#?}");
    assert!(has("comm:halo width=8 batch=2 grid=", &[]) && has("layer:dense/c=3/k=4 batch=2 grid=", &[]), "{lines:#?}");
    // In weak scaling the batch grows, but not that of an allreduce.
    let weak = cases("mode = 'weak'\naxis = 'sample'\nworkload = 'comm:allreduce'\nranks = 4");
    assert_eq!(weak[0].case.batch, 1);
    let optimizers = cases("mode = 'strong'\noptimizer = ['sgd', 'adam']\nmomentum = [0.5, 0.8]\nbeta1 = 0.8");
    assert_eq!(optimizers.len(), 3);
}

#[test]
fn keys_that_change_none_of_the_cases_are_refused_but_not_in_the_environment() {
    let comm = "mode = 'strong'\nworkload = ['comm:allreduce', 'comm:halo']\n";
    assert_eq!(
        error(&format!("{comm}conv = ['auto', 'direct']")),
        "conv: expected no value beside comm:allreduce, where it changes nothing, got direct; leave it out"
    );
    assert_eq!(cases(&format!("{comm}conv = 'auto'\nwidth = 32")).len(), 2);
    let mut suite = suite(comm);
    suite.set_environment(|name| (name == "SHARDMARK_CONV").then(|| "direct".into())).unwrap();
    assert_eq!(suite.cases().unwrap().len(), 2);
    assert!(suite.resolved().contains("conv = \"auto\""));
    assert_eq!(suite.cases().unwrap(), self::suite(&suite.resolved()).cases().unwrap());
    suite.set_pair("conv=direct").unwrap();
    assert!(suite.cases().unwrap_err().to_string().starts_with("conv: expected no value"));
}

#[test]
fn the_suites_in_the_tree_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (file, name) in [
        ("smoke.toml", "smoke"),
        ("strong/cosmoflow.toml", "strong-cosmoflow"),
        ("weak/cosmoflow.toml", "weak-cosmoflow"),
        ("train/cosmoflow.toml", "train-cosmoflow"),
        ("micro/dryden2019.toml", "micro-dryden2019"),
        ("micro/communication.toml", "micro-communication"),
    ] {
        let suite = Suite::read(&folder.join(file)).unwrap();
        assert_eq!(suite.name(), name);
        let cases = suite.cases().unwrap();
        assert!(cases.iter().all(|planned| planned.skip.is_none()), "{file}");
        for planned in &cases {
            assert_eq!(Case::parse(&planned.case.to_string()).unwrap(), planned.case);
        }
    }
}

#[test]
fn layers_multiply_out_and_grids_that_do_not_fit_are_skipped() {
    let text = "mode = 'strong'\nbatch = [1, 2]\nranks = [1, 8]\ngrid = 'auto:h'\n\
                workload = ['layer:conv2d c=3 k=4 in=8x9 kernel=3 stride=2 pad=1', 'layer:dense/c=3/k=4']";
    let rows: Vec<_> = cases(text).iter().map(|p| p.skip.as_ref().map(|skip| skip.reason.clone())).collect();
    let reason = |axis: &str, extent: usize| {
        Some(format!(
            "grid 1x1x8x1: expected at most {extent} parts along {axis} (extent {extent}), got 8; use another grid"
        ))
    };
    let output = || reason("H of the output", 4);
    assert_eq!(rows, [None, output(), None, output(), None, reason("batch", 1), None, reason("batch", 2)]);
    let filter = Filter::parse(&["workload=layer:dense k=4 c=3".into()]).unwrap();
    assert_eq!(cases(text).iter().filter(|p| filter.keeps(&p.case)).count(), 4);
    let suite = suite(text);
    assert_eq!(suite.cases().unwrap(), self::suite(&suite.resolved()).cases().unwrap());
    assert!(error("mode = 'strong'\nworkload = 'layer:conv2d c=0'").starts_with("c of `conv2d c=0 n=1`"));
    let rows = sweep("mode = 'weak'\naxis = 'space'\nworkload = 'comm:halo'\nwidth = 8\nranks = [2]\ngrid = 'auto:d'");
    assert_eq!(rows, ["1x2x1x1 batch 1 width 16x8x8"]);
}
