//! A suite's lists multiplied out to cases, and the arithmetic of strong and weak scaling.
//!
//! Strong: every case has the suite's `width` and `batch`. Weak over samples: `batch` is that of one part, so the
//! global batch is `batch * grid.n`. Weak over space: also the volume grows, `width` times the parts in each dimension.
//!
//! A case has only what means something to it (see [`Case::idle_beside`]). What cannot run with work on every rank stays in the list as skipped, with the reason.

use shardmark_partition::{Dim, SPATIAL, Shape};
use shardmark_problem::Kind;

use crate::case::{self, Case};
use crate::error::PlanError;
use crate::keys::KEYS;
use crate::outcome::Outcome;
use crate::suite::{Suite, split_pair};
use crate::value::{Axis, Grid, Mode, Value, Volume, Workload};

/// Cases of a suite; each has a process of its own, so nobody waits for more.
const MOST_CASES: usize = 1_000_000;

/// A case of a suite.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The case.
    pub case: Case,
    /// Why it is not run, if it is not.
    pub skip: Option<Skip>,
}

/// Why a case is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// `skipped` or `wont-fit`.
    pub outcome: Outcome,
    /// Expected, got and remedy.
    pub reason: String,
}

/// A value of `grid` in a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GridRule {
    /// This grid.
    Fixed(Grid),
    /// The ranks factored as evenly as possible over these axes (0 sample, 1 depth, 2 height, 3 width).
    Auto(Vec<usize>),
    /// `Auto` over samples in weak scaling over samples, else over depth, height and width.
    AutoByMode,
}

impl GridRule {
    /// What the key takes in a suite.
    pub(crate) const FORM: &str = "NxDxHxW, auto, or auto: and some of the axes n d h w";

    /// Reads the text form.
    pub(crate) fn read(text: &str) -> Option<GridRule> {
        let Some(axes) = text.strip_prefix("auto") else {
            return Grid::read(text).map(GridRule::Fixed);
        };
        if axes.is_empty() {
            return Some(GridRule::AutoByMode);
        }
        let axes: Vec<usize> = axes.strip_prefix(':')?.chars().map(|axis| "ndhw".find(axis)).collect::<Option<_>>()?;
        let repeated = (1..axes.len()).any(|i| axes[..i].contains(&axes[i]));
        (!axes.is_empty() && !repeated).then_some(GridRule::Auto(axes))
    }

    /// The grid of `ranks` ranks; `None` if a fixed grid has another number.
    fn grid(&self, ranks: usize, case: &Case) -> Option<Grid> {
        match self {
            GridRule::Fixed(grid) => (grid.size() == ranks).then_some(*grid),
            GridRule::Auto(axes) => Some(factor(ranks, axes)),
            GridRule::AutoByMode if case.axis == Some(Axis::Sample) => Some(factor(ranks, &[0])),
            GridRule::AutoByMode => Some(factor(ranks, &[1, 2, 3])),
        }
    }
}

/// Spreads the prime factors of `ranks`, largest first, each to the axis with the fewest parts so far.
fn factor(ranks: usize, axes: &[usize]) -> Grid {
    let mut parts = [1; 4];
    let mut rest = ranks.max(1);
    let mut primes = Vec::new();
    let mut divisor = 2;
    while rest > 1 {
        if divisor * divisor > rest {
            divisor = rest;
        }
        while rest.is_multiple_of(divisor) {
            primes.push(divisor);
            rest /= divisor;
        }
        divisor += 1;
    }
    for prime in primes.iter().rev() {
        // min_by_key takes the first of equals: the order in which the axes are named.
        if let Some(&axis) = axes.iter().min_by_key(|&&axis| parts[axis]) {
            parts[axis] *= prime;
        }
    }
    let [n, d, h, w] = parts;
    Grid::new([n, d, h, w, 1])
}

impl Suite {
    /// The cases, ranks varying fastest; equal ones (one rank of several grids) come once.
    ///
    /// # Errors
    /// Values that do not agree with each other (see [`Case::validate`]), a rank count for which no grid is listed.
    pub fn cases(&self) -> Result<Vec<Planned>, PlanError> {
        let mut planned: Vec<Planned> = Vec::new();
        let bases = self.bases()?;
        self.refuse_idle_keys(&bases)?;
        for case in bases {
            for (grid, ranks) in self.grids(&case)? {
                let next = scale(Case { grid, ranks, ..case.clone() })?;
                if planned.iter().all(|other| other.case != next.case) {
                    planned.push(next);
                }
            }
        }
        Ok(planned)
    }

    /// The product of all keys but `grid` and `ranks`.
    pub(crate) fn bases(&self) -> Result<Vec<Case>, PlanError> {
        let mut cases = vec![Case::default()];
        for key in KEYS.iter().filter(|key| key.name != "grid" && key.name != "ranks") {
            let Some(values) = self.values(key.name) else { continue };
            let count = cases.len().saturating_mul(values.len());
            if count > MOST_CASES {
                let (expected, got) = (format!("at most {MOST_CASES} in a suite"), count.to_string());
                return case::conflict("cases", &expected, &got, "give shorter lists, or several suites");
            }
            let mut product = Vec::with_capacity(count);
            for case in &cases {
                for value in values {
                    let mut case = case.clone();
                    case.set(key, value, self.name())?;
                    product.push(case);
                }
            }
            cases = product;
        }
        Ok(cases)
    }

    /// The grids of one base case with their ranks: grid after grid, each with the rank counts that it can have.
    fn grids(&self, case: &Case) -> Result<Vec<(Grid, usize)>, PlanError> {
        let rules: Vec<GridRule> = match self.values("grid") {
            Some(texts) => texts.iter().filter_map(|text| GridRule::read(text)).collect(),
            None => vec![GridRule::AutoByMode],
        };
        let ranks: Vec<usize> = match self.values("ranks") {
            Some(texts) => texts.iter().filter_map(|text| text.parse().ok()).collect(),
            None => {
                // Without `ranks`, fixed grids are taken as they are and the others have one rank.
                let of = |rule: &GridRule| if let GridRule::Fixed(grid) = rule { grid.size() } else { 1 };
                let mut ranks: Vec<usize> = rules.iter().map(of).collect();
                ranks.sort_unstable();
                ranks.dedup();
                ranks
            }
        };
        for &count in &ranks {
            if count == 0 || rules.iter().all(|rule| rule.grid(count, case).is_none()) {
                let got = self.values("grid").unwrap_or_default().join(" ");
                let remedy = "list such a grid or leave the rank count out";
                return case::conflict("ranks", &format!("a grid of {count} ranks"), &format!("grid {got}"), remedy);
            }
        }
        let pairs =
            rules.iter().flat_map(|rule| ranks.iter().filter_map(|&p| rule.grid(p, case).map(|grid| (grid, p))));
        Ok(pairs.collect())
    }
}

/// Applies strong or weak scaling to a case that has the suite's `width` and `batch`.
fn scale(mut case: Case) -> Result<Planned, PlanError> {
    let too_big = |what: &str| -> Result<usize, PlanError> {
        case::conflict(what, "a product below 2^64", "more", "use fewer ranks")
    };
    if case.mode == Mode::Weak {
        case.batch = case.batch.checked_mul(case.grid.parts(Dim::N)).map_or_else(|| too_big("batch"), Ok)?;
        if case.axis == Some(Axis::Space) {
            let mut volume = case.width.0;
            for (extent, parts) in volume.iter_mut().zip(SPATIAL.map(|dim| case.grid.parts(dim))) {
                *extent = extent.checked_mul(parts).map_or_else(|| too_big("width"), Ok)?;
            }
            case.width = Volume(volume);
        }
    }
    let case = case.without_idle_keys();
    case.validate()?;
    Ok(case.into())
}

/// A case that is scaled already.
impl From<Case> for Planned {
    fn from(case: Case) -> Planned {
        let skip = idle_ranks(&case).map(|reason| Skip { outcome: Outcome::Skipped, reason });
        Planned { case, skip }
    }
}

/// Why some ranks would own nothing, if so: such a point does not belong in a scaling series.
fn idle_ranks(case: &Case) -> Option<String> {
    let grid = &case.grid;
    let refuse = |axis: &str, extent: usize, parts: usize| {
        format!(
            "grid {grid}: expected at most {extent} parts along {axis} (extent {extent}), got {parts}; use another grid"
        )
    };
    extents(case).into_iter().find(|it| it.2 > it.1).map(|(axis, extent, parts)| refuse(&axis, extent, parts))
}

/// What ranks share of a case's tensors: name, extent and parts of each axis.
fn extents(case: &Case) -> Vec<(String, usize, usize)> {
    let spatial = |shape: Shape, what: &str| {
        let axis = |dim: Dim| (format!("{dim}{what}"), shape[dim as usize], case.grid.parts(dim));
        SPATIAL.map(axis).to_vec()
    };
    let batch = ("batch".to_string(), case.batch, case.grid.parts(Dim::N));
    match (&case.workload, case.layer()) {
        (Workload::Allreduce, _) => Vec::new(),
        // Dense layers share samples among all ranks.
        (_, Ok(Some(layer))) if layer.kind == Kind::Dense => vec![("batch".into(), case.batch, case.ranks)],
        (_, Ok(Some(layer))) => [vec![batch], spatial(layer.x, ""), spatial(layer.output(), " of the output")].concat(),
        _ => {
            let [d, h, w] = case.width.0;
            [vec![batch], spatial([1, d, h, w, 1], "")].concat()
        }
    }
}

/// Which cases of a suite are wanted: each `key=value[,value...]` must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter(Vec<(&'static str, Vec<String>)>);

impl Filter {
    /// Reads the arguments of `--where`.
    ///
    /// # Errors
    /// Text without `=`, an unknown key, a value without the key's form.
    pub fn parse(pairs: &[String]) -> Result<Filter, PlanError> {
        let mut filter = Filter::default();
        for pair in pairs {
            let (name, values) = split_pair(pair)?;
            let key = case::find(name, "--where")?;
            let mut canonical = Vec::new();
            for value in values.split(',') {
                // Through a case and back: 32x32x32 and 32 are the same width.
                let mut case = Case::default();
                case.set(key, value, "--where")?;
                canonical.push((key.get)(&case));
            }
            filter.0.push((key.name, canonical));
        }
        Ok(filter)
    }

    /// Whether the case is wanted.
    pub fn keeps(&self, case: &Case) -> bool {
        self.0.iter().all(|(name, values)| crate::keys::find(name).is_some_and(|key| values.contains(&(key.get)(case))))
    }
}
