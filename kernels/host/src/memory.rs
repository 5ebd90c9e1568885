//! The memory of the host, by `/proc/meminfo`: Linux; elsewhere nothing is known of it.

use std::fs;

/// Main memory in bytes; what the system does not tell is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total: Option<u64>,
    /// What can be had without swapping.
    pub available: Option<u64>,
}

/// More memory is needed than can be had; whoever tells it puts what needs it before and a remedy after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected at most {:.1} GiB, got {:.1} GiB", gib(*available), gib(*needed))]
pub struct Shortage {
    /// Bytes that can be had.
    pub available: u64,
    /// Bytes that are needed.
    pub needed: u64,
}

impl Memory {
    /// Looks at the host.
    pub fn here() -> Memory {
        Memory::read(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
    }

    /// Refuses what cannot be had without swapping; where the system does not tell that, what has no addresses.
    ///
    /// # Errors
    /// When `needed` bytes are more.
    pub fn holds(&self, needed: u64) -> Result<(), Shortage> {
        let available = self.available.unwrap_or(isize::MAX as u64);
        if needed > available { Err(Shortage { available, needed }) } else { Ok(()) }
    }

    fn read(meminfo: &str) -> Memory {
        let kibibytes = |name: &str| {
            let value = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.strip_suffix("kB")?.trim().parse().ok().map(|kib: u64| kib * 1024)
        };
        Memory { total: kibibytes("MemTotal"), available: kibibytes("MemAvailable") }
    }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_than_available_is_refused() {
        let memory = Memory::read("MemTotal:       4194304 kB\nMemFree:  7 kB\nMemAvailable:   2097152 kB\n");
        assert_eq!(memory, Memory { total: Some(4 << 30), available: Some(2 << 30) });
        assert_eq!(memory.holds(2 << 30), Ok(()));
        let shortage = memory.holds(3 << 30).expect_err("too much");
        assert_eq!(shortage.to_string(), "expected at most 2.0 GiB, got 3.0 GiB");
        let unknown = Memory::read("");
        assert_eq!((unknown.available, unknown.holds(1 << 50)), (None, Ok(())));
        assert!(unknown.holds(u64::MAX).is_err());
    }
}
