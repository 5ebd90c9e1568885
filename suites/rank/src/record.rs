//! Gathers what the ranks measured on rank 0 and makes the record of it.

use crate::error::RankError;
use crate::measure::Measured;
use crate::network;
use shardmark_comm::{Collective, Comm, CommExt, Direction};
use shardmark_layers::conv::Isa;
use shardmark_networks::{NetPlan, Phases};
use shardmark_partition::step::{Pass, Work};
use shardmark_plan::{Case, Context, machine};
use shardmark_store::{Check, Detail, Layer, Layers, Mark, Outcome, Phase, Record, Samples, Source, Traffic};

/// Collectives that a training step may use, by the names of the record.
const COLLECTIVES: [(&str, Collective); 4] = [
    ("allreduce", Collective::Allreduce),
    ("tree_allreduce", Collective::TreeAllreduce),
    ("reduce_scatter", Collective::ReduceScatter),
    ("allgatherv", Collective::Allgatherv),
];
/// Values that are gathered in one message: 8 MiB a rank.
const CHUNK: usize = 1 << 20;

/// What rank 0 knows of all ranks.
pub struct Gathered {
    /// `[rank][repeat, step, phase]`.
    seconds: Vec<Vec<f64>>,
    /// `[rank][layer, pass]`: medians over the timed steps.
    layers: Vec<Vec<f64>>,
    /// `[rank][operation, (messages, bytes)]`.
    traffic: Vec<Vec<f64>>,
    /// Peak resident bytes `[rank]`.
    memory: Vec<Vec<f64>>,
    hosts: Vec<String>,
    /// Instruction sets of the kernels.
    simd: Vec<String>,
}

/// Gathers on rank 0, in bounded chunks; the other ranks get `None`. Collective.
///
/// # Errors
/// When communication fails.
pub fn gather(case: &Case, measured: &Measured, comm: &dyn Comm) -> Result<Option<Gathered>, RankError> {
    let seconds: Vec<f64> = measured.samples.iter().flatten().flat_map(|s| phase_row(&s.phases, s.io_s)).collect();
    let gathered = Gathered {
        seconds: to_root(comm, &seconds)?,
        layers: to_root(comm, &layer_medians(case, measured))?,
        traffic: to_root(comm, &traffic_row(measured))?,
        memory: to_root(comm, &[peak_resident()])?,
        hosts: names(comm, machine::host())?,
        simd: names(comm, Isa::selected().to_string())?,
    };
    Ok((comm.rank() == 0).then_some(gathered))
}

/// The names of all ranks, of 64 bytes at most, each where it differs from the rank's before.
fn names(comm: &dyn Comm, name: String) -> Result<Vec<String>, RankError> {
    const LEN: usize = 64;
    let mut bytes = name.into_bytes();
    bytes.resize(LEN, 0);
    let all = comm.allgatherv_vec(bytes, &vec![LEN; comm.size()])?;
    let text = |name: &[u8]| String::from_utf8_lossy(name).trim_end_matches('\0').to_string();
    let mut names: Vec<String> = all.chunks(LEN).map(text).collect();
    names.dedup();
    Ok(names)
}

/// Rows of all ranks on rank 0; all rows have one length.
fn to_root(comm: &dyn Comm, row: &[f64]) -> Result<Vec<Vec<f64>>, RankError> {
    let mut rows = vec![Vec::with_capacity(row.len()); comm.size()];
    for chunk in row.chunks(CHUNK) {
        let all = comm.allgatherv_vec(chunk.to_vec(), &vec![chunk.len(); comm.size()])?;
        for (row, part) in rows.iter_mut().zip(all.chunks(chunk.len())) {
            row.extend_from_slice(part);
        }
    }
    Ok(rows)
}

fn phase_row(p: &Phases, io_s: f64) -> [f64; 9] {
    let mut row = [0.0; 9];
    for phase in Phase::ALL {
        row[*phase as usize] = match phase {
            Phase::Io => io_s,
            Phase::Forward => p.forward,
            Phase::Backward => p.backward,
            Phase::HaloTotal => p.halo_total,
            Phase::HaloExposed => p.halo_exposed,
            Phase::GradTotal => p.grad_total,
            Phase::GradExposed => p.grad_exposed,
            Phase::Optimizer => p.optimizer,
            Phase::Step => p.step,
        };
    }
    row
}

/// Median over the timed steps of forward and backward seconds of every layer.
fn layer_medians(case: &Case, measured: &Measured) -> Vec<f64> {
    let timed: Vec<_> = measured.samples.iter().flat_map(|r| r.iter().skip(case.warmup)).collect();
    let layers = timed.first().map_or(0, |s| s.layers.len());
    let median_of = |value: &dyn Fn(&crate::measure::Sample) -> f64| median(timed.iter().map(|s| value(s)).collect());
    (0..layers)
        .flat_map(|i| {
            [
                median_of(&|s| s.layers[i].forward),
                median_of(&|s| s.layers[i].backward_data + s.layers[i].backward_params),
            ]
        })
        .collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => 0.5 * (values[n / 2 - 1] + values[n / 2]),
    }
}

fn traffic_row(measured: &Measured) -> Vec<f64> {
    let counts = &measured.counts;
    let messages = [Direction::Send, Direction::Recv].map(|direction| counts.total(direction));
    let collectives = COLLECTIVES.map(|(_, kind)| counts.calls(kind));
    messages.iter().chain(&collectives).flat_map(|t| [t.count as f64, t.bytes as f64]).collect()
}

/// Peak resident bytes of this process.
fn peak_resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.map_or(0.0, |kib| kib * 1024.0)
}

/// The record of a case that ran to its end.
pub fn build(case: &Case, context: &Context, check: Option<Check>, measured: Measured, gathered: Gathered) -> Record {
    let ran = shardmark_store::Case {
        line: case.resolved(),
        hash: case.hash(shardmark_store::SCHEMA),
        suite: context.resolved.clone(),
        settings: case.settings(),
    };
    let passed = check.as_ref().is_none_or(|c| c.passed);
    let message = check.as_ref().filter(|c| !c.passed).map_or(String::new(), |c| c.text.clone());
    let mut record = Record::without_samples(ran, if passed { Outcome::Ok } else { Outcome::Wrong }, message);
    record.source = Source::Measured;
    record.marks = marks(case, context);
    record.check = check;
    record.samples = samples(case, &measured, &gathered);
    record.losses = measured.losses;
    record.validation = measured.validation;
    record.layers = layers(case, &gathered);
    record.traffic = traffic(&gathered);
    record.memory = gathered.memory.iter().map(|row| row.first().map_or(0, |&b| b as u64)).collect();
    record.provenance = context.provenance.clone();
    record.provenance.insert("seed".into(), case.seed.to_string());
    record.provenance.insert("host".into(), gathered.hosts.join(" "));
    record.provenance.insert("simd".into(), gathered.simd.join(" "));
    record
}

fn marks(case: &Case, context: &Context) -> Vec<Mark> {
    let mut marks = Vec::new();
    if case.check == shardmark_plan::value::Check::None {
        marks.push(Mark::Unchecked);
    }
    if context.oversubscribed {
        marks.push(Mark::Oversubscribed);
    }
    // Fewer timed steps than a 95 % interval of their median needs.
    if case.steps * case.repeat < 6 && case.epochs == 0 {
        marks.push(Mark::Quick);
    }
    marks
}

fn samples(case: &Case, measured: &Measured, gathered: &Gathered) -> Samples {
    let steps = measured.samples.first().map_or(0, Vec::len);
    let warmup = (0..steps).map(|step| step < case.warmup).collect();
    let mut samples = Samples::new(measured.samples.len(), warmup, gathered.seconds.len());
    for (rank, row) in gathered.seconds.iter().enumerate() {
        for (i, values) in row.chunks(Phase::ALL.len()).enumerate() {
            for phase in Phase::ALL {
                samples.set(i / steps, i % steps, rank, *phase, values[*phase as usize]);
            }
        }
    }
    samples
}

fn layers(case: &Case, gathered: &Gathered) -> Layers {
    use shardmark_plan::value::Detail as Wanted;
    let detail = match case.detail {
        Wanted::All if gathered.layers.len() > 64 => Detail::Extremes,
        Wanted::All => Detail::All,
        Wanted::Extremes => Detail::Extremes,
        Wanted::None => Detail::None,
    };
    // Bare communication has no layer.
    let Ok(plan) = network::plan(case) else { return Layers { detail: Detail::None, rows: Vec::new() } };
    if detail == Detail::None {
        return Layers { detail, rows: Vec::new() };
    }
    let work = work(case, &plan);
    let mut rows = Vec::new();
    for (i, node) in plan.graph.nodes.iter().enumerate() {
        for (p, pass) in ["forward", "backward"].into_iter().enumerate() {
            let column = 2 * i + p;
            let mut seconds: Vec<f64> =
                gathered.layers.iter().map(|row| row.get(column).copied().unwrap_or(f64::NAN)).collect();
            if detail == Detail::Extremes {
                seconds.sort_by(f64::total_cmp);
                seconds = vec![seconds[0], median(seconds.clone()), seconds[seconds.len() - 1]];
            }
            let (layer, kind) = (node.name.clone(), node.op.kind().to_string());
            let (flops, bytes) = work[column];
            rows.push(Layer { name: layer, kind, pass: pass.into(), seconds, flops, bytes });
        }
    }
    Layers { detail, rows }
}

/// FLOPs and bytes over all ranks by `[layer, pass]`, by the Steps.
fn work(case: &Case, plan: &NetPlan) -> Vec<(f64, f64)> {
    let mut table = vec![(0.0, 0.0); 2 * plan.graph.nodes.len()];
    for step in (0..case.ranks).flat_map(|rank| plan.steps(rank, network::step_options(case))) {
        let column = match step.pass {
            Pass::Forward => 2 * step.layer,
            Pass::Backward => 2 * step.layer + 1,
            Pass::Input | Pass::Update => continue,
        };
        if let Work::Compute { flops, bytes, .. } = step.work {
            table[column].0 += flops as f64;
            table[column].1 += bytes as f64;
        }
    }
    table
}

fn traffic(gathered: &Gathered) -> Traffic {
    let operations = ["send", "recv"].into_iter().chain(COLLECTIVES.map(|(name, _)| name)).map(String::from).collect();
    let column = |offset: usize| {
        gathered.traffic.iter().map(|row| row.iter().skip(offset).step_by(2).map(|&v| v as u64).collect()).collect()
    };
    Traffic { operations, messages: column(0), bytes: column(1) }
}
