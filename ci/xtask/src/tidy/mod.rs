//! Rules that no compiler knows. Each rule is a function from the files to its findings; a file that may break one is
//! listed in [`EXEMPT`] with the reason, and an exemption that is no longer needed is itself a finding.

mod code;
mod docs;
mod graph;
mod text;

#[cfg(test)]
mod tests;

use crate::run::metadata;
use crate::tree::Tree;

pub use docs::commands;

/// A rule, and what it found.
type Rule = (&'static str, fn(&Tree) -> Vec<Finding>);

const RULES: &[Rule] = &[
    ("file-length", code::file_length),
    ("module-comment", code::module_comment),
    ("purity", code::purity),
    ("reference", code::reference),
    ("kernel-files", code::kernel_files),
    ("unwrap", code::unwrap),
    ("whitespace", text::whitespace),
    ("machine-paths", text::machine_paths),
    ("blob", text::blob),
    ("title", docs::title),
    ("suites", docs::suites),
    ("readme", docs::readme),
    ("license", docs::license),
];

/// (rule, path, why).
const EXEMPT: &[(&str, &str, &str)] = &[
    (
        "purity",
        "kernels/layers/src/conv/dispatch.rs",
        "tests and benchmarks force an instruction set by the environment",
    ),
    ("purity", "kernels/layers/src/layer.rs", "takes the time of a layer's own collectives, and shows it to no kernel"),
];

/// Where a rule is broken, and how.
#[derive(Debug, PartialEq)]
pub struct Finding {
    path: String,
    /// From 1; 0 if the whole file is meant.
    line: usize,
    /// `expected .., got ..; remedy`
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.into(), line, message: message.into() }
    }
}

/// Applies all rules to the repository.
///
/// # Errors
/// A rule is broken; the findings were printed.
pub fn tidy() -> Result<(), String> {
    let tree = Tree::read()?;
    let mut findings = judge(&tree, RULES, EXEMPT);
    let graph = graph::Graph::read(&metadata()?);
    let found = graph::findings(&graph, tree.text("ARCHITECTURE.md").unwrap_or_default());
    findings.extend(found.into_iter().map(|finding| ("graph", finding)));
    for (rule, Finding { path, line, message }) in &findings {
        let place = if *line > 0 { format!("{path}:{line}") } else { path.clone() };
        println!("{place}: {message} [{rule}]");
    }
    println!("tidy: {} files, {} rules, {} findings", tree.files.len(), RULES.len() + 1, findings.len());
    if findings.is_empty() {
        Ok(())
    } else {
        Err("expected no findings, got those above; see ci/xtask/src/tidy".into())
    }
}

/// The findings of all rules less what is exempt, and the exemptions that cover nothing.
fn judge(tree: &Tree, rules: &[Rule], exempt: &[(&str, &str, &str)]) -> Vec<(&'static str, Finding)> {
    let found = rules.iter().flat_map(|(name, rule)| rule(tree).into_iter().map(move |finding| (*name, finding)));
    let found: Vec<_> = found.collect();
    let covers = |rule: &str, path: &str, (name, finding): &(&str, Finding)| *name == rule && finding.path == path;
    let stale: Vec<_> = exempt
        .iter()
        .filter(|(rule, path, _)| !found.iter().any(|it| covers(rule, path, it)))
        .map(|(rule, path, _)| {
            (
                "exempt",
                Finding::new(path, 0, format!("expected to break the rule {rule}, got nothing; strike it off EXEMPT")),
            )
        })
        .collect();
    let kept = found.into_iter().filter(|it| !exempt.iter().any(|(rule, path, _)| covers(rule, path, it)));
    kept.chain(stale).collect()
}
