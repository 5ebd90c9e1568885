//! Hands the compiler's version, its flags and the target on to the provenance of results.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let rustc = Command::new(variable("RUSTC")).arg("--version").output();
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default();
    println!("cargo::rustc-env=SHARDMARK_RUSTC={rustc}");
    println!("cargo::rustc-env=SHARDMARK_RUSTFLAGS={}", variable("CARGO_ENCODED_RUSTFLAGS").replace('\x1f', " "));
    println!("cargo::rustc-env=SHARDMARK_TARGET={}", variable("TARGET"));
    println!("cargo::rustc-env=SHARDMARK_OPT_LEVEL={}", variable("OPT_LEVEL"));
}
