//! Passes on whether the HDF5 library at hand can switch its file locks off (since 1.10.7 and 1.12.1, not 1.12.0).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(can_switch_locks)");
    let at_least = |version: &str| std::env::var_os(format!("DEP_HDF5_VERSION_{version}")).is_some();
    if at_least("1_12_1") || (at_least("1_10_7") && !at_least("1_12_0")) {
        println!("cargo::rustc-cfg=can_switch_locks");
    }
}
