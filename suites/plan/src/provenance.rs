//! Where a result comes from: the code, the compiler, the machine. Names are those of the record's provenance.

use std::collections::BTreeMap;

use crate::machine::Machine;

/// Collects `commit` (that the program was built from, with `-dirty` if a source differed from it; left out if it was
/// not built in a git repository and the variable `SHARDMARK_COMMIT` did not say it then), `version`, `rustc`,
/// `rustflags`, `target`, `opt_level`, `host`, `cpu`, `cores`, `threads`, `affinity`, `memory_bytes`, `os`.
pub fn collect() -> BTreeMap<String, String> {
    let machine = Machine::here();
    let mut map = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            map.insert(name.to_string(), value);
        }
    };
    put("version", Some(env!("CARGO_PKG_VERSION").into()));
    put("commit", option_env!("SHARDMARK_COMMIT").map(String::from));
    put("rustc", Some(env!("SHARDMARK_RUSTC").into()));
    put("rustflags", Some(env!("SHARDMARK_RUSTFLAGS").into()));
    put("target", Some(env!("SHARDMARK_TARGET").into()));
    put("opt_level", Some(env!("SHARDMARK_OPT_LEVEL").into()));
    put("host", Some(machine.host));
    put("cpu", machine.cpu);
    put("cores", machine.cores.map(|cores| cores.to_string()));
    put("threads", Some(machine.threads.to_string()));
    put("affinity", machine.affinity);
    put("memory_bytes", machine.memory.map(|bytes| bytes.to_string()));
    put("os", std::fs::read_to_string("/proc/version").ok().map(|text| text.trim().into()));
    map
}
