//! `shardmark env`: what is here, and what would spoil measurements, each with its remedy.

use std::fs;
use std::process::Command;

use shardmark_plan::exit::Exit;
use shardmark_plan::machine::Machine;
use shardmark_plan::provenance;

use crate::columns::{gib, table};

/// Prints what is here and the warnings.
pub fn print() -> Exit {
    let machine = Machine::here();
    for line in table(&facts(&machine)) {
        println!("{line}");
    }
    let warnings = warnings(&machine);
    if warnings.is_empty() {
        println!("no warnings");
    }
    for warning in warnings {
        println!("warning: {warning}");
    }
    Exit::Ok
}

fn facts(machine: &Machine) -> Vec<Vec<String>> {
    let unknown = || "unknown".to_string();
    let provenance = provenance::collect();
    let of = |key: &str| provenance.get(key).cloned().unwrap_or_else(unknown);
    let memory = |bytes: Option<u64>| bytes.map_or_else(unknown, gib);
    let cores = machine.cores.map_or_else(unknown, |cores| cores.to_string());
    let facts = [
        ("shardmark", format!("{} ({})", of("version"), of("commit"))),
        ("built by", format!("{} for {}, optimisation {}", of("rustc"), of("target"), of("opt_level"))),
        ("flags", provenance.get("rustflags").cloned().unwrap_or_else(|| "none".into())),
        ("host", machine.host.clone()),
        ("system", of("os")),
        ("CPU", machine.cpu.clone().unwrap_or_else(unknown)),
        ("cores", format!("{cores} ({} hardware threads for this process)", machine.threads)),
        ("ranks", format!("up to {} have a hardware thread each; more are marked oversubscribed", machine.threads)),
        ("affinity", machine.affinity.clone().unwrap_or_else(unknown)),
        ("memory", format!("{} ({} available)", memory(machine.memory), memory(machine.available))),
        ("shared memory", shared_memory().map_or_else(unknown, |bytes| format!("{} free in /dev/shm", gib(bytes)))),
        ("open files", limit(libc::RLIMIT_NOFILE)),
        ("locked memory", limit(libc::RLIMIT_MEMLOCK)),
        (
            "MPI",
            mpi().unwrap_or_else(|| "not found; install it (Debian: openmpi-bin) or use --transport threads".into()),
        ),
        ("HDF5", shardmark_h5::library_version()),
        ("rank program", rank_program()),
        ("kernels", simd().unwrap_or_else(unknown)),
    ];
    facts.into_iter().map(|(name, value)| vec![name.to_string(), value]).collect()
}

fn rank_program() -> String {
    match crate::launch::Launcher::new(crate::launch::DEFAULT_LAUNCHER) {
        Ok(launcher) => launcher.program().display().to_string(),
        Err(error) => error.to_string(),
    }
}

/// The instruction set of the kernels, or what is wrong with it.
fn simd() -> Option<String> {
    let launcher = crate::launch::Launcher::new(crate::launch::DEFAULT_LAUNCHER).ok()?;
    Some(launcher.simd().unwrap_or_else(|complaint| complaint))
}

/// The first line of `mpirun --version`.
fn mpi() -> Option<String> {
    let output = Command::new("mpirun").arg("--version").output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(|line| line.trim().to_string())
}

/// Bytes free in `/dev/shm`.
fn shared_memory() -> Option<u64> {
    // SAFETY: the structure is plain data that the call fills; the path is a constant with its end.
    unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(c"/dev/shm".as_ptr(), &mut stat) == 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// A resource limit as text.
fn limit(resource: libc::__rlimit_resource_t) -> String {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills the structure.
    match unsafe { libc::getrlimit(resource, &mut limit) } {
        0 if limit.rlim_cur == libc::RLIM_INFINITY => "unlimited".into(),
        0 => limit.rlim_cur.to_string(),
        _ => "unknown".into(),
    }
}

/// What would spoil measurements here.
fn warnings(machine: &Machine) -> Vec<String> {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_string()).ok();
    let mut warnings = Vec::new();
    let mut warn = |when: bool, text: String| {
        if when {
            warnings.push(text);
        }
    };
    let threads = machine.threads;
    let all = read("/proc/cpuinfo").map_or(0, |text| text.lines().filter(|line| line.starts_with("processor")).count());
    warn(
        threads < all,
        format!(
            "only {threads} of {all} hardware threads may be used, so more ranks are oversubscribed; widen it \
             with taskset"
        ),
    );
    let load: f64 = read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0.0);
    warn(load > 0.5, format!("the load is {load}: other work disturbs the timing; wait until it is over"));
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    warn(
        governor.as_deref().is_some_and(|governor| governor != "performance"),
        format!("the CPU governor is {}; set it: cpupower frequency-set -g performance", governor.unwrap_or_default()),
    );
    warn(
        machine.cores.is_some_and(|cores| cores < threads),
        format!("{threads} hardware threads share {} cores; use at most one rank a core", machine.cores.unwrap_or(0)),
    );
    let shared = shared_memory().unwrap_or(u64::MAX);
    warn(
        shared < 64 << 20,
        format!("{} free in /dev/shm; MPI on one node needs more: mount -o remount,size=1G /dev/shm", gib(shared)),
    );
    warn(
        machine.available.is_some_and(|bytes| bytes < 1 << 30),
        "less than 1 GiB of memory is available; end other programs".into(),
    );
    let swap = read("/proc/swaps").is_some_and(|text| text.lines().count() > 1);
    warn(swap, "swap is on: a case that does not fit becomes slow instead of failing; swapoff -a".into());
    warnings
}
