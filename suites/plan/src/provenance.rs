//! Where a result comes from: the code, the compiler, the machine. Names are those of the record's provenance.

use std::collections::BTreeMap;
use std::process::Command;

use crate::machine::Machine;

/// Collects `commit` (with `-dirty` if tracked files were changed), `version`, `rustc`, `rustflags`, `target`, `opt_level`,
/// `host`, `cpu`, `cores`, `threads`, `affinity`, `memory_bytes`, `os`. Starts `git` if the source tree is at hand.
pub fn collect() -> BTreeMap<String, String> {
    let machine = Machine::here();
    let mut map = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            map.insert(name.to_string(), value);
        }
    };
    put("version", Some(env!("CARGO_PKG_VERSION").into()));
    put("commit", Some(commit()));
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

/// The commit of the source tree that the program was built from, with `-dirty` if a tracked file differs from it; without the
/// tree or git, what the variable `SHARDMARK_COMMIT` said when the program was built, or `unknown`.
pub fn commit() -> String {
    let tree = env!("CARGO_MANIFEST_DIR");
    let git = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git").arg("-C").arg(tree).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let Some(commit) = git(&["rev-parse", "HEAD"]) else {
        return option_env!("SHARDMARK_COMMIT").unwrap_or("unknown").into();
    };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => commit + "-dirty",
    }
}
