//! The crate graph is the one that ARCHITECTURE.md draws, and each heavy dependency has one owner.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Finding;

/// A dependency that is slow to build or needs a system library (`NAME` and `NAME-*`), and the only crate that may name it.
const OWNERS: [(&str, &str); 4] = [
    ("hdf5-metno", "shardmark-h5"),
    ("mpi", "shardmark-comm-mpi"),
    ("polars", "shardmark-report"),
    ("plotters", "shardmark-report"),
];

/// What a program must not contain, however indirectly: the supervisor starts anywhere (no MPI) and computes nothing;
/// what runs on the ranks is quick to build and small.
const APART: [(&str, &str); 3] =
    [("shardmark", "shardmark-comm-mpi"), ("shardmark", "shardmark-layers"), ("shardmark-rank", "shardmark-report")];

/// One crate of the workspace.
#[derive(Debug, PartialEq)]
pub struct Crate {
    /// From the root.
    pub folder: String,
    /// Crates of the workspace that it is built from (not those of its tests alone).
    pub uses: BTreeSet<String>,
    /// All other dependencies, those of tests included.
    pub external: BTreeSet<String>,
}

/// The crates by name.
#[derive(Default)]
pub struct Graph(pub BTreeMap<String, Crate>);

impl Graph {
    /// Takes the output of `cargo metadata --no-deps`.
    pub fn read(metadata: &Value) -> Graph {
        let root = metadata["workspace_root"].as_str().unwrap_or_default();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let packages = list(&metadata["packages"]);
        let names: BTreeSet<String> = packages.iter().map(|package| text(&package["name"])).collect();
        let entry = |package: &Value| {
            let manifest = text(&package["manifest_path"]);
            let folder = manifest.trim_start_matches(root).trim_start_matches('/').trim_end_matches("/Cargo.toml");
            let dependencies = list(&package["dependencies"]);
            let (inner, outer): (Vec<_>, Vec<_>) =
                dependencies.iter().partition(|dependency| names.contains(&text(&dependency["name"])));
            let uses =
                inner.iter().filter(|dependency| dependency["kind"] != "dev").map(|it| text(&it["name"])).collect();
            let external = outer.iter().map(|dependency| text(&dependency["name"])).collect();
            (text(&package["name"]), Crate { folder: folder.into(), uses, external })
        };
        Graph(packages.iter().map(entry).collect())
    }

    /// Everything that `name` is built from.
    fn reach<'a>(&'a self, name: &'a str) -> BTreeSet<&'a str> {
        let mut seen = BTreeSet::new();
        let mut open = vec![name];
        while let Some(next) = open.pop() {
            let uses = self.0.get(next).into_iter().flat_map(|it| &it.uses).map(String::as_str);
            open.extend(uses.filter(|it| seen.insert(*it)));
        }
        seen
    }
}

/// Compares the graph with the table in the page (rows `| name | folder | uses | what |`) and with the owners.
pub fn findings(graph: &Graph, page: &str) -> Vec<Finding> {
    let drawn = table(page);
    let mut findings = Vec::new();
    for (name, it) in &graph.0 {
        let uses = it.uses.iter().map(|name| short(name)).collect::<Vec<_>>().join(", ");
        let row = (it.folder.clone(), if uses.is_empty() { "-".into() } else { uses });
        if drawn.get(name) != Some(&row) {
            let message =
                format!("expected the row `| {name} | {} | {} | ..`, got another or none; correct it", row.0, row.1);
            findings.push(Finding::new("ARCHITECTURE.md", 0, message));
        }
        for dependency in &it.external {
            let owner = OWNERS.iter().find(|(family, _)| family_of(dependency, family)).map(|(_, owner)| *owner);
            if let Some(owner) = owner.filter(|owner| owner != name) {
                let message = format!("expected {dependency} only in {owner}, got it here; use {owner}");
                findings.push(Finding::new(&format!("{}/Cargo.toml", it.folder), 0, message));
            }
        }
    }
    for name in drawn.keys().filter(|name| !graph.0.contains_key(*name)) {
        findings.push(Finding::new("ARCHITECTURE.md", 0, format!("expected a crate, got {name}; strike its row")));
    }
    for (program, part) in APART {
        if graph.reach(program).contains(part) {
            findings.push(Finding::new(
                "Cargo.toml",
                0,
                format!("expected {program} without {part}, got it; cut the edge"),
            ));
        }
    }
    findings
}

fn family_of(dependency: &str, family: &str) -> bool {
    dependency.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The rows whose first column names a crate: name to (folder, uses).
fn table(page: &str) -> BTreeMap<String, (String, String)> {
    let rows = page.lines().filter(|line| line.starts_with("| ")).map(|line| {
        let columns: Vec<String> = line.split('|').map(|cell| cell.trim().replace('`', "")).collect();
        columns
    });
    let crates =
        rows.filter(|columns| columns.len() >= 5 && (columns[1].starts_with("shardmark") || columns[1] == "xtask"));
    crates.map(|columns| (columns[1].clone(), (columns[2].clone(), columns[3].clone()))).collect()
}

fn short(name: &str) -> &str {
    name.strip_prefix("shardmark-").unwrap_or(name)
}
