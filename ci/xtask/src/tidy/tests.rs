//! Each rule finds what it is for and leaves the rest alone.

use serde_json::json;

use super::{Finding, code, docs, graph, judge, text};
use crate::tree::{File, Tree};

fn tree(files: &[(&str, &str)]) -> Tree {
    let file = |&(path, text): &(&str, &str)| File {
        path: path.into(),
        size: text.len() as u64,
        executable: path == "ci/test",
        text: Some(text.into()),
    };
    Tree { files: files.iter().map(file).collect() }
}

/// Where a rule finds something, as `path:line`.
fn places(found: Vec<Finding>) -> Vec<String> {
    found.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
}

#[test]
fn a_file_may_have_400_lines() {
    let [fits, long] = [400, 401].map(|n| "\n".repeat(n));
    assert_eq!(places(code::file_length(&tree(&[("a.rs", &fits), ("b.rs", &long), ("c.md", &long)]))), ["b.rs:0"]);
}

#[test]
fn a_file_begins_with_what_it_is() {
    let files = [("a.rs", "//! A.\n"), ("b.rs", "use std::fs;\n"), ("c.rs", "// c\n//! C.\n")];
    assert_eq!(places(code::module_comment(&tree(&files))), ["b.rs:1", "c.rs:1"]);
}

#[test]
fn kernels_read_no_clock_and_no_file() {
    let clock = "//! It.\nlet t = Instant::now();\n";
    let comment = "//! It.\n// not std::fs\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
    let files = [
        ("kernels/layers/src/a.rs", clock),
        ("kernels/layers/src/b.rs", comment),
        ("kernels/layers/src/a/tests.rs", clock),
        ("kernels/comm/src/a.rs", clock),
    ];
    assert_eq!(places(code::purity(&tree(&files))), ["kernels/layers/src/a.rs:2"]);
}

#[test]
fn the_plain_version_uses_only_types() {
    let plain =
        "use std::fmt;\nuse super::{Pool, PoolMode};\nuse shardmark_partition::Shape;\nuse shardmark_tensor::rng;\n";
    let tuned = "use super::local;\nuse crate::simd::dot;\nfn f() {\n    super::local::run();\n}\n";
    let files = [("kernels/layers/src/a/reference.rs", plain), ("kernels/layers/src/b/reference.rs", tuned)];
    let path = "kernels/layers/src/b/reference.rs";
    assert_eq!(places(code::reference(&tree(&files))), [1, 2, 4].map(|line| format!("{path}:{line}")));
}

#[test]
fn a_kernel_has_its_plain_version_and_tests() {
    let folder = "kernels/layers/src/pool";
    let names = ["mod.rs", "local.rs", "tests.rs"].map(|name| format!("{folder}/{name}"));
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(places(code::kernel_files(&tree(&files))), [format!("{folder}/reference.rs:0")]);
}

#[test]
fn input_does_not_panic() {
    let bare = "let a = read().unwrap();\nlet b = it.expect(\"a number\");\nlet c = parser.expect(b',')?;\n";
    let justified = "// invariant: checked above\nlet a = it.unwrap();\nlet b = it.unwrap(); // invariant: not empty\n";
    let tests = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() { f().unwrap() }\n}\n";
    let files = [
        ("suites/a/src/a.rs", bare),
        ("suites/a/src/b.rs", justified),
        ("suites/a/src/c.rs", tests),
        ("suites/a/tests/d.rs", bare),
        ("kernels/a/src/a.rs", bare),
    ];
    assert_eq!(places(code::unwrap(&tree(&files))), ["suites/a/src/a.rs:1", "suites/a/src/a.rs:2"]);
}

#[test]
fn lines_end_cleanly() {
    let files = [("a", "one\ntwo\n"), ("b", "one \ntwo\n"), ("c", "one"), ("d", "one\n\n"), ("e", "")];
    assert_eq!(places(text::whitespace(&tree(&files))), ["b:1", "c:0", "d:0"]);
}

#[test]
fn no_machine_is_named() {
    let own = format!("run /{}/me/prog\n", "home");
    let files = [("a.md", own.as_str()), ("b.md", "run target/release/prog in ./work\n")];
    assert_eq!(places(text::machine_paths(&tree(&files))), ["a.md:1"]);
}

#[test]
fn blobs_stay_small() {
    let large = " ".repeat(100_001);
    assert_eq!(places(text::blob(&tree(&[("a.h5", &large), ("b.h5", &large[1..])]))), ["a.h5:0"]);
}

#[test]
fn a_page_has_one_title() {
    let files = [
        ("a.md", "# A\n\n```sh\n# a comment\n```\n## More\n"),
        ("b.md", "# A\n# B\n"),
        ("c.md", "text\n"),
        ("d.md", "\n# D\n"),
        ("results/report/golden/table.md", "| a |\n"),
    ];
    assert_eq!(places(docs::title(&tree(&files))), ["b.md:1", "c.md:1", "d.md:1"]);
}

#[test]
fn suites_are_listed() {
    let files = [
        ("README.md", "see suites/smoke.toml\n"),
        ("suites/smoke.toml", ""),
        ("suites/weak/a.toml", ""),
        ("suites/run/Cargo.toml", ""),
    ];
    assert_eq!(places(docs::suites(&tree(&files))), ["suites/weak/a.toml:0"]);
}

#[test]
fn what_readme_names_exists() {
    let readme = "[a](LICENSE) [b](missing.md#part) [c](suites/)\n\n```sh\nci/test   # all\nci/missing\ncargo xtask fmt\n\
                  cargo xtask polish\n```\n";
    let files = [("LICENSE", ""), ("README.md", readme), ("ci/test", ""), ("suites/smoke.toml", "")];
    let found: Vec<String> = docs::readme(&tree(&files)).into_iter().map(|finding| finding.message).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    for (message, name) in found.iter().zip(["missing.md", "ci/missing", "polish"]) {
        assert!(message.contains(name), "{message}");
    }
}

#[test]
fn commands_come_from_shell_blocks() {
    let page = "text\n```sh\n# a comment\nshardmark env\nshardmark list   # the suites\n```\n```\nnot a command\n```\n";
    assert_eq!(docs::commands(page), ["shardmark env", "shardmark list"]);
}

#[test]
fn the_license_is_there() {
    assert_eq!(docs::license(&tree(&[("LICENSE", "Apache License\n")])), []);
    assert_eq!(places(docs::license(&tree(&[]))), ["LICENSE:0"]);
}

fn example_graph(of_comm: &str) -> graph::Graph {
    let package = |name: &str, folder: &str, dependencies: serde_json::Value| json!({"name": name, "manifest_path": format!("/r/{folder}/Cargo.toml"), "dependencies": dependencies});
    graph::Graph::read(&json!({"workspace_root": "/r", "packages": [
        package("shardmark", "suites/run", json!([{"name": "shardmark-comm", "kind": null}])),
        package("shardmark-comm", "kernels/comm", json!([
            {"name": "shardmark", "kind": "dev"},
            {"name": of_comm, "kind": null},
        ])),
        package("shardmark-layers", "kernels/layers", json!([])),
    ]}))
}

const EXAMPLE_PAGE: &str = "\
| `shardmark` | `suites/run` | comm | the program |
| `shardmark-comm` | `kernels/comm` | - | messages |
| `shardmark-layers` | `kernels/layers` | - | kernels |
";

#[test]
fn the_graph_is_the_one_drawn() {
    let graph = example_graph("libc");
    assert_eq!(graph::findings(&graph, EXAMPLE_PAGE), []);
    let changed = EXAMPLE_PAGE.replace("| comm |", "| - |").replace("| `shardmark-layers`", "| `shardmark-other`");
    let found: Vec<String> = graph::findings(&graph, &changed).into_iter().map(|finding| finding.message).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].contains("| shardmark | suites/run | comm |"), "{}", found[0]);
    assert!(found[1].contains("| shardmark-layers |"), "{}", found[1]);
    assert!(found[2].contains("shardmark-other"), "{}", found[2]);
}

#[test]
fn a_heavy_dependency_has_one_owner() {
    for heavy in ["polars-core", "mpi"] {
        let found = graph::findings(&example_graph(heavy), EXAMPLE_PAGE);
        assert_eq!(places(found), ["kernels/comm/Cargo.toml:0"]);
    }
    assert_eq!(graph::findings(&example_graph("mpic"), EXAMPLE_PAGE), []);
}

#[test]
fn the_supervisor_contains_no_kernel() {
    let page = EXAMPLE_PAGE.replace("`kernels/comm` | - |", "`kernels/comm` | layers |");
    let found = graph::findings(&example_graph("shardmark-layers"), &page);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].message.contains("shardmark without shardmark-layers"), "{}", found[0].message);
}

#[test]
fn an_exemption_covers_its_file_or_is_struck_off() {
    let large = " ".repeat(100_001);
    let tree = tree(&[("a.h5", &large)]);
    let rules: &[super::Rule] = &[("blob", text::blob)];
    assert_eq!(judge(&tree, rules, &[("blob", "a.h5", "why")]).len(), 0);
    let found = judge(&tree, rules, &[("blob", "b.h5", "why")]);
    assert_eq!(found.iter().map(|(rule, _)| *rule).collect::<Vec<_>>(), ["blob", "exempt"]);
}
