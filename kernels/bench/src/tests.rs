//! Problem lines parse or explain themselves; every registered line is a problem; passes write their results.

use crate::{Case, PASSES, Problem, ProblemError, ROLES, peak, problems};
use shardmark_layers::conv::{Conv, Isa};

#[test]
fn lines_parse_and_print() {
    let line = "conv3d n=1 c=16 k=32 in=64x64x64 kernel=3 stride=1 pad=1";
    let problem: Problem = line.parse().expect("a problem");
    assert_eq!(problem.conv, Conv::cube(16, 32, 3, 1, 1, false));
    assert_eq!((problem.x, problem.y), ([1, 64, 64, 64, 16], [1, 64, 64, 64, 32]));
    assert_eq!(problem.flops(), 2 * 27 * 16 * 32 * 64 * 64 * 64);
    assert_eq!(problem.to_string(), line);
    let image: Problem = "conv2d n=2 c=3 k=4 in=9x5 kernel=3x1 stride=2x1 pad=0:1x0".parse().expect("a problem");
    assert_eq!((image.x, image.y), ([2, 1, 9, 5, 3], [2, 1, 4, 5, 4]));
}

#[test]
fn errors_name_the_key_and_the_line() {
    let error = |line: &str| line.parse::<Problem>().expect_err("no problem").to_string();
    assert!(error("pool3d n=1").contains("got pool3d"));
    assert!(error("conv2d n=1 c=3 k=4 in=9x9 kernel=3 stride=0 pad=1").starts_with("stride of `conv2d"));
    assert!(error("conv2d n=1 c=3 k=4 in=9x9x9 kernel=3 stride=1 pad=1").contains("one value for each dimension"));
    assert!(error("conv2d n=1 c=3 k=4 in=9x9 kernel=3 stride=1").contains("got nothing"));
    assert!(error("conv2d n=1 n=2 c=3 k=4 in=9x9 kernel=3 stride=1 pad=1").contains("once"));
    let too_small = "conv2d n=1 c=3 k=4 in=2x2 kernel=5 stride=1 pad=0".parse::<Problem>();
    assert!(matches!(too_small, Err(ProblemError::Spec(_))));
}

#[test]
fn every_registered_line_is_a_problem_and_smoke_runs() {
    for (role, text) in ROLES {
        let problems = problems(text).unwrap_or_else(|e| panic!("{role}: {e}"));
        assert!(!problems.is_empty(), "{role}");
        for problem in problems.iter().filter(|_| role == "smoke") {
            let mut case = Case::new(problem, Isa::selected());
            for pass in PASSES {
                case.run(pass);
                let zeros = case.result(pass).iter().filter(|&&v| v == 0.0).count();
                assert!(zeros * 10 < case.result(pass).len(), "{pass} of {problem} is nearly all zero");
            }
        }
    }
}

#[test]
fn the_peak_is_a_rate() {
    let peak = peak::multiply_add_peak(Isa::Portable, 3);
    assert!(peak > 0.1 && peak < 1e5, "{peak}");
}
