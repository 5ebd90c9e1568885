//! What the machine at hand has: CPU, cores, memory. Linux; elsewhere the fields that cannot be read are absent.

use shardmark_host::Memory;
use std::collections::BTreeSet;
use std::fs;

/// The machine at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its host name.
    pub host: String,
    /// The CPU's model name.
    pub cpu: Option<String>,
    /// Hardware threads that this process may use (affinity and control groups respected).
    pub threads: usize,
    /// Physical cores of the machine.
    pub cores: Option<usize>,
    /// Hardware threads that this process may run on, as `0-3,8`.
    pub affinity: Option<String>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Memory that can be had without swapping, in bytes.
    pub available: Option<u64>,
}

impl Machine {
    /// Looks at the machine.
    pub fn here() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let Memory { total: memory, available } = Memory::here();
        Machine {
            host: host(),
            cpu: field(&cpuinfo, "model name"),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            cores: cores(&cpuinfo),
            affinity: field(&status, "Cpus_allowed_list"),
            memory,
            available,
        }
    }

    /// Whether ranks with so many threads in all have to share hardware threads.
    pub fn oversubscribed(&self, threads: usize) -> bool {
        threads > self.threads
    }
}

/// The host's name.
pub fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "unknown".into(), |name| name.trim().into())
}

/// How many processes the kernel has killed for want of memory since it started.
pub fn memory_kills() -> u64 {
    let counters = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = counters.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The value of the first `name : value` line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_string())
    })
}

/// Distinct (package, core) pairs.
fn cores(cpuinfo: &str) -> Option<usize> {
    let pairs: BTreeSet<_> =
        cpuinfo.split("\n\n").filter_map(|cpu| Some((field(cpu, "physical id")?, field(cpu, "core id")?))).collect();
    (!pairs.is_empty()).then_some(pairs.len())
}
