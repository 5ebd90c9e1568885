//! Rules for Rust files.

use super::Finding;
use crate::tree::Tree;

/// Lines of a file. (Functions are measured by clippy, see clippy.toml.)
const MAX_LINES: usize = 400;

/// One idea a file.
pub fn file_length(tree: &Tree) -> Vec<Finding> {
    let long =
        tree.texts(".rs").map(|(path, text)| (path, text.lines().count())).filter(|(_, lines)| *lines > MAX_LINES);
    long.map(|(path, lines)| {
        Finding::new(path, 0, format!("expected at most {MAX_LINES} lines, got {lines}; split it by idea"))
    })
    .collect()
}

/// Each file says on its first line what it is.
pub fn module_comment(tree: &Tree) -> Vec<Finding> {
    let bare = tree.texts(".rs").filter(|(_, text)| !text.starts_with("//! "));
    bare.map(|(path, _)| Finding::new(path, 1, "expected a module comment `//! ..`, got none; say what the file is"))
        .collect()
}

/// What computes depends on its arguments alone: no clock, no file, no network, no environment.
pub fn purity(tree: &Tree) -> Vec<Finding> {
    const PURE: [&str; 3] = ["kernels/partition/src/", "kernels/tensor/src/", "kernels/layers/src/"];
    const IMPURE: [&str; 7] =
        ["std::fs", "std::net", "std::env", "std::time", "std::process", "Instant::now", "SystemTime::now"];
    let pure = tree.texts(".rs").filter(|(path, _)| PURE.iter().any(|folder| path.starts_with(folder)));
    let lines = pure.flat_map(|(path, text)| product_lines(path, text).map(move |(line, code)| (path, line, code)));
    lines
        .filter_map(|(path, line, code)| {
            let word = IMPURE.iter().find(|word| code.contains(**word))?;
            Some(Finding::new(path, line, format!("expected arguments alone, got {word}; pass the value in")))
        })
        .collect()
}

/// The plain versions are frozen oracles: of this workspace they use the description of the problem (types), the shapes
/// and the definition of the random numbers; nothing that is tuned.
pub fn reference(tree: &Tree) -> Vec<Finding> {
    let plain = tree.texts("/reference.rs");
    let lines = plain.flat_map(|(path, text)| product_lines(path, text).map(move |(line, code)| (path, line, code)));
    lines
        .filter(|(_, _, code)| uses_more_than_types(code))
        .map(|(path, line, code)| {
            Finding::new(path, line, format!("expected plain std and types, got `{}`; write it out", code.trim()))
        })
        .collect()
}

fn uses_more_than_types(code: &str) -> bool {
    let capital = |name: &str| name.trim().starts_with(|c: char| c.is_ascii_uppercase());
    let Some(path) = code.trim().strip_prefix("use ") else {
        return code.contains("crate::") || code.contains("super::");
    };
    let path = path.trim_end_matches(';');
    if path.starts_with("std::") || path == "shardmark_tensor::rng" {
        return false;
    }
    let types = ["super::", "shardmark_partition::"].iter().find_map(|prefix| path.strip_prefix(prefix));
    !types.is_some_and(|names| names.trim_matches(['{', '}']).split(',').all(capital))
}

/// A reader who knows one kernel knows them all: each has its tuned version, its plain version and its tests.
pub fn kernel_files(tree: &Tree) -> Vec<Finding> {
    const FILES: [&str; 3] = ["local.rs", "reference.rs", "tests.rs"];
    let inside = tree.paths().filter_map(|path| path.strip_prefix("kernels/layers/src/")?.strip_suffix("/mod.rs"));
    let kernels = inside.filter(|kernel| !kernel.contains('/')).map(|kernel| format!("kernels/layers/src/{kernel}"));
    let wanted = kernels.flat_map(|kernel| FILES.map(|file| format!("{kernel}/{file}")));
    wanted
        .filter(|path| tree.file(path).is_none())
        .map(|path| Finding::new(&path, 0, "expected it beside mod.rs, got no such file; see README, adding a kernel"))
        .collect()
}

/// Input can be anything: what reads it returns errors. A panic needs a comment `// invariant: ..` on its line or above.
pub fn unwrap(tree: &Tree) -> Vec<Finding> {
    const CAREFUL: [&str; 3] = ["datasets/", "suites/", "results/"];
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".rs").filter(|(path, _)| CAREFUL.iter().any(|folder| path.starts_with(folder))) {
        let all: Vec<&str> = text.lines().collect();
        for (line, code) in product_lines(path, text) {
            let justified =
                all[line - 1].contains("// invariant: ") || line > 1 && all[line - 2].contains("// invariant: ");
            if (code.contains(".unwrap()") || code.contains(".expect(\"")) && !justified {
                let message =
                    "expected an error or a comment `// invariant: why`, got a panic; return what was expected";
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

/// The lines that become part of a program, numbered from 1, without comments: no test files, and nothing from the first
/// `#[cfg(test)]` with a body on (tests stand last in their file).
fn product_lines<'a>(path: &str, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let only_tests = ["/tests/", "/benches/", "/tests.rs", "/testing.rs"].iter().any(|part| path.contains(part));
    let lines: Vec<&str> = if only_tests { Vec::new() } else { text.lines().collect() };
    let body = |pair: &[&str]| pair[0].trim() == "#[cfg(test)]" && pair[1].trim_end().ends_with('{');
    let end = lines.windows(2).position(body).unwrap_or(lines.len());
    let product = lines.into_iter().take(end).enumerate();
    product.map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
}
