//! Problem lines parse or explain themselves; every registered line is a problem; passes write their results; the server
//! answers.

use crate::server::{Request, Session};
use crate::stream::{Stream, TRIADS};
use crate::{Amount, Case, Pass, Problem, ProblemError, ROLES, Work, peak, problems};
use shardmark_host::{SOLO, Team};
use shardmark_layers::Op;
use shardmark_layers::conv::{Conv, Isa};

fn problem(line: &str) -> Problem {
    line.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// Layer, input and output of a line.
fn layer(line: &str) -> (Op, [usize; 5], [usize; 5]) {
    match problem(line).work {
        Work::Layer { op, x, y, .. } => (op, x, y),
        _ => panic!("{line} is no layer of a graph"),
    }
}

#[test]
fn lines_parse_and_print() {
    let line = "conv3d n=1 c=16 k=32 in=64x64x64 kernel=3 stride=1 pad=1";
    assert_eq!(problem(line).to_string(), line);
    let cube = Op::Conv(Conv::cube(16, 32, 3, 1, 1, false));
    assert_eq!(layer(line), (cube, [1, 64, 64, 64, 16], [1, 64, 64, 64, 32]));
    let (_, x, y) = layer("conv2d n=2 c=3 k=4 in=9x5 kernel=3x1 stride=2x1 pad=0:1x0");
    assert_eq!((x, y), ([2, 1, 9, 5, 3], [2, 1, 4, 5, 4]));
    let (_, x, y) = layer("dense n=4 c=3 k=5");
    assert_eq!((x, y), ([4, 1, 1, 1, 3], [4, 1, 1, 1, 5]));
    let (op, x, y) = layer("pool_max2d n=1 c=3 in=9x8 kernel=3 stride=2 pad=1");
    assert_eq!((op.kind(), x, y), ("max_pool", [1, 1, 9, 8, 3], [1, 1, 5, 4, 3]));
    assert_eq!(layer("batch_norm n=2 c=3 in=7x6x5").1, [2, 7, 6, 5, 3]);
    assert_eq!(layer("leaky_relu n=2 c=3 in=7").1, [2, 1, 1, 7, 3]);
    let Work::Transposed { x, y, .. } = problem("conv_transpose2d n=1 c=3 k=4 in=9x8 kernel=3 stride=2 pad=1").work
    else {
        panic!("a transposed convolution");
    };
    assert_eq!((x, y), ([1, 1, 9, 8, 3], [1, 1, 17, 15, 4]));
    assert!(matches!(problem("adam len=12").work, Work::Update { len: 12, .. }));
}

#[test]
fn errors_name_the_key_and_the_line() {
    let error = |line: &str| line.parse::<Problem>().expect_err("no problem").to_string();
    assert!(error("pool3d n=1").contains("got pool3d"));
    assert!(error("").contains("got nothing"));
    assert!(error("conv2d n=1 c=3 k=4 in=9x9 kernel=3 stride=0 pad=1").starts_with("stride of `conv2d"));
    assert!(error("conv2d n=1 c=3 k=4 in=9x9x9 kernel=3 stride=1 pad=1").contains("one value for each dimension"));
    assert!(error("conv2d n=1 c=3 k=4 in=9x9 kernel=3 stride=1").contains("got nothing"));
    assert!(error("conv2d n=1 n=2 c=3 k=4 in=9x9 kernel=3 stride=1 pad=1").contains("once"));
    assert!(error("conv2d n=1 c=3 k=4 in=9x9 kernel=3 stride=1 pad=1 first=1").contains("the word alone"));
    assert!(error("batch_norm n=1 c=3 in=9x9 kernel=3").contains("each of n c in once"));
    assert!(error("leaky_relu n=1 c=3 in=9x9x9x9").contains("one value for each dimension"));
    assert!(error("adam len=0").contains("a whole number of at least 1"));
    assert!(error("dense n=1 c=3").starts_with("k of `dense"));
    assert!(
        error("conv_transpose2d n=1 c=3 k=4 in=1x9 kernel=2 stride=2 pad=1").starts_with("pad of `conv_transpose2d")
    );
    let too_small = "conv2d n=1 c=3 k=4 in=2x2 kernel=5 stride=1 pad=0".parse::<Problem>();
    assert!(matches!(too_small, Err(ProblemError::Spec(_))));
}

#[test]
fn what_no_memory_holds_is_refused_before_it_is_allocated() {
    let padded = "pool_max2d n=1 c=1 in=4x4 kernel=2 stride=999999999 pad=999999999".parse::<Problem>();
    let error = padded.expect_err("no window holds an input").to_string();
    assert!(error.starts_with("pad of `pool_max2d") && error.contains("padded by less than its kernel"), "{error}");
    for line in [
        "conv3d n=1 c=16 k=32 in=600000x600x600 kernel=3 stride=1 pad=1",
        "conv2d n=1 c=1 k=1 in=4x4 kernel=2 stride=999999999 pad=999999999",
        "conv_transpose2d n=1 c=1 k=1 in=1000000x1000000 kernel=1000000 stride=1 pad=999999",
        "pool_max2d n=1 c=1 in=4x4 kernel=999999999x999 stride=1 pad=499999999x499",
        "pool_max2d n=1 c=1 in=4x4 kernel=2 stride=1 pad=0:999999999",
        "pool_avg2d n=1 c=1 in=1x9999999 kernel=1x9999999 stride=1 pad=0x4999999",
        "dense n=1 c=999999 k=9999999",
        "batch_norm n=99999 c=99999 in=999",
    ] {
        let case = line.parse().and_then(|problem| Case::new(&problem, Team::solo()));
        let error = case.err().expect(line).to_string();
        let beyond = error.starts_with(&format!("memory of `{line}`: expected at most "));
        assert!(beyond || error.contains("padded by less"), "{error}");
    }
}

#[test]
fn passes_are_those_that_the_problem_has() {
    let names = |line: &str| problem(line).passes().iter().map(|p| p.name()).collect::<Vec<_>>();
    let conv = "conv2d n=1 c=3 k=4 in=9x9 kernel=3 stride=1 pad=1";
    assert_eq!(names(conv), ["forward", "backward_data", "backward_params"]);
    assert_eq!(names(&format!("{conv} first")), ["forward", "backward_params"]);
    assert_eq!(names("batch_norm n=2 c=3 in=7"), ["forward", "backward_data"]);
    assert_eq!(names("sgd len=4"), ["update"]);
    assert_eq!(problem(conv).pass("backward").expect("a pass"), Pass::Backward);
    assert!(
        problem(conv).pass("update").is_err_and(|e| e.to_string().contains("backward_params, backward, got update"))
    );
    assert!(problem("sgd len=4").pass("backward").is_err());
}

#[test]
fn amounts_follow_the_sizes() {
    let conv = "conv3d n=1 c=16 k=32 in=8x8x8 kernel=3 stride=1 pad=1";
    let flops = 2 * 27 * 16 * 32 * 512;
    assert_eq!(problem(conv).amount(Pass::Forward), Amount::Flops(flops));
    assert_eq!(problem(conv).amount(Pass::Backward), Amount::Flops(2 * flops));
    assert_eq!(problem(&format!("{conv} first")).amount(Pass::Backward), Amount::Flops(flops));
    let transposed = "conv_transpose2d n=1 c=3 k=4 in=5x5 kernel=2 stride=2 pad=0";
    assert_eq!(problem(transposed).amount(Pass::Backward), Amount::Flops(2 * 2 * 4 * 3 * 4 * 25));
    let bytes = |line: &str| [Pass::Forward, Pass::Backward].map(|pass| problem(line).amount(pass));
    assert_eq!(bytes("batch_norm n=1 c=2 in=5"), [120, 200].map(Amount::Bytes));
    assert_eq!(bytes("leaky_relu n=1 c=2 in=5"), [80, 120].map(Amount::Bytes));
    assert_eq!(bytes("pool_avg2d n=1 c=1 in=4x4 kernel=2 stride=2 pad=0"), [80, 80].map(Amount::Bytes));
    assert_eq!(bytes("pool_max2d n=1 c=1 in=4x4 kernel=2 stride=2 pad=0"), [80, 144].map(Amount::Bytes));
    assert_eq!(problem("sgd len=10").amount(Pass::Update), Amount::Bytes(120));
    assert_eq!(problem("adam len=10").amount(Pass::Update), Amount::Bytes(280));
}

#[test]
fn every_registered_line_is_a_problem_and_smoke_runs() {
    for (role, text) in ROLES {
        let problems = problems(text).unwrap_or_else(|e| panic!("{role}: {e}"));
        assert!(!problems.is_empty(), "{role}");
        for (problem, threads) in problems.iter().filter(|_| role == "smoke").zip([1, 2].into_iter().cycle()) {
            let mut case = Case::new(problem, Team::new(threads).expect("threads")).expect("a case");
            let whole = problem.pass("backward").ok();
            for pass in problem.passes().iter().copied().chain(whole) {
                case.run(pass).expect("a pass");
                for values in case.results(pass) {
                    assert!(values.iter().all(|v| v.is_finite()), "{pass} of {problem}");
                    // Max pooling leaves most of its input gradient zero.
                    let filled = values.iter().filter(|&&v| v != 0.0).count();
                    assert!(filled * 20 > values.len(), "{pass} of {problem} is nearly all zero");
                }
            }
        }
    }
}

#[test]
fn the_peak_is_a_rate() {
    let team = Team::new(2).expect("threads");
    for team in [&SOLO, &team] {
        let peak = peak::multiply_add_peak(Isa::Portable, team, 3);
        assert!(peak > 0.1 && peak < 1e6, "{peak}");
    }
}

#[test]
fn triads_agree_and_bandwidth_is_a_rate() {
    let values = |seed: usize| (0..1003).map(|i| (i * seed % 17) as f32).collect::<Vec<_>>();
    let (b, c) = (values(3), values(5));
    let expected: Vec<f32> = b.iter().zip(&c).map(|(b, c)| b + 3.0 * c).collect();
    for triad in TRIADS {
        // Unaligned starts, and ends that fill no vector.
        for skip in 0..6 {
            let mut a = vec![0.0; b.len()];
            triad(&mut a[skip..], &b[skip..], &c[skip..], 3.0);
            assert_eq!(a[skip..], expected[skip..]);
        }
    }
    let rate = Stream::with_len(300_001).bandwidth(&Team::new(2).expect("threads"), 1);
    assert!(rate > 0.01 && rate < 1e5, "{rate}");
}

#[test]
fn requests_parse_or_explain_themselves() {
    let case = Request::Case { problem: "sgd len=4".into(), pass: "update".into(), threads: 2 };
    assert_eq!("sgd len=4 | update | threads=2".parse(), Ok(case));
    assert_eq!("peak threads=1".parse(), Ok(Request::Peak { threads: 1 }));
    assert_eq!("stream threads=3".parse(), Ok(Request::Stream { threads: 3 }));
    for wrong in ["peak", "peak threads=0", "sgd len=4 | update", "sgd len=4 | update | 2", "walk"] {
        let error = wrong.parse::<Request>().expect_err("no request").to_string();
        assert!(error.contains(wrong), "{error}");
    }
    for early in ["run", "run after=0.02"] {
        assert!(early.parse::<Request>().is_err_and(|e| e.to_string().contains("prepare a case")));
    }
    for wrong in [
        "run after=",
        "run after=soon",
        "run after=-1",
        "run after=1e300",
        "run after=60.1",
        "run after=nan",
        "run after=inf",
        "runafter=0.001",
        "run  after=1",
        "run twice",
    ] {
        assert!(wrong.parse::<Request>().is_err_and(|e| e.to_string().contains("correct the request")));
    }
}

#[test]
fn a_case_is_served_until_another_request_comes() {
    let requests = "run\nsgd len=4 | update | threads=1\nrun\nrun\nrun\nrun after=2\npeak threads=1\n";
    let mut answers = Vec::new();
    let mut session = Session::new(requests.as_bytes(), &mut answers);
    let request = session.next_request().expect("input");
    assert!(matches!(request, Some(Request::Case { .. })));
    let mut runs = 0;
    let time = session.time(Amount::Bytes(48), || {
        runs += 1;
        if runs == 2 { Err("tired") } else { Ok(0.25 * f64::from(runs)) }
    });
    time.expect("output");
    assert_eq!(session.next_request().expect("input"), Some(Request::Peak { threads: 1 }));
    assert_eq!(session.next_request().expect("input"), None);
    let answers = String::from_utf8(answers).expect("text");
    let answers: Vec<&str> = answers.lines().collect();
    assert!(answers[0].starts_with("error: request"), "{}", answers[0]);
    assert_eq!(answers[1..], ["ready bytes=48", "0.25", "error: tired", "0.75", "1.5"]);
}

#[test]
fn bytes_that_are_no_text_are_refused_and_the_server_goes_on() {
    let mut answers = Vec::new();
    let session = Session::new(&b"\xff\xfe | update | threads=1\n\xff\npeak threads=3\n"[..], &mut answers);
    let served = session.run(|request, session| match request {
        Request::Case { problem, .. } => Err(problem.parse::<Problem>().expect_err("no problem").into()),
        _ => Ok(session.answer(&"served")?),
    });
    served.expect("memory is read and written");
    let answers = String::from_utf8(answers).expect("text");
    let answers: Vec<&str> = answers.lines().collect();
    assert!(answers[0].starts_with("error: layer of `\u{fffd}"), "{answers:?}");
    assert!(answers[1].starts_with("error: request: expected"), "{answers:?}");
    assert_eq!(answers[2..], ["served"]);
}

#[test]
fn an_output_without_room_ends_the_server() {
    let mut room = [0; 20];
    let session = Session::new(&b"walk\nwalk\n"[..], &mut room[..]);
    assert!(session.run(|_, _| Ok(())).is_err());
}
