//! Rules for what people read.

use super::Finding;
use crate::steps::STEPS;
use crate::tree::Tree;

/// A page has one title, on its first line. (What a test expects a program to print, in golden/, is no page.)
pub fn title(tree: &Tree) -> Vec<Finding> {
    let titles =
        |text: &str| prose(text).filter(|(_, line)| line.starts_with("# ")).map(|(line, _)| line).collect::<Vec<_>>();
    let pages = tree.texts(".md").filter(|(path, _)| !path.contains("/golden/"));
    let pages = pages.map(|(path, text)| (path, titles(text)));
    pages
        .filter(|(_, titles)| titles[..] != [1])
        .map(|(path, titles)| {
            Finding::new(
                path,
                1,
                format!("expected one title `# ..` on line 1, got titles on lines {titles:?}; use ##"),
            )
        })
        .collect()
}

/// Whoever looks for a suite finds it in a page.
pub fn suites(tree: &Tree) -> Vec<Finding> {
    let suites = tree.paths().filter(|path| path.starts_with("suites/") && path.ends_with(".toml"));
    let suites = suites.filter(|path| !path.ends_with("/Cargo.toml") && !path.contains("/tests/"));
    suites
        .filter(|suite| !tree.texts(".md").any(|(_, text)| text.contains(*suite)))
        .map(|suite| Finding::new(suite, 0, "expected its path in a page (*.md), got none; list it in README"))
        .collect()
}

/// The scripts, xtask steps and files that README names exist.
pub fn readme(tree: &Tree) -> Vec<Finding> {
    let text = tree.text("README.md").unwrap_or_default();
    let links =
        links(text).filter(|link| tree.file(link).is_none() && !tree.paths().any(|path| path.starts_with(link)));
    let links = links.map(|link| format!("expected the file {link}, got none; correct the link"));
    let commands = commands(text).into_iter().filter_map(|command| broken(tree, &command));
    links.chain(commands).map(|message| Finding::new("README.md", 0, message)).collect()
}

/// Why a command of README cannot work, if so.
fn broken(tree: &Tree, command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[..] {
        [script, ..] if script.starts_with("ci/") => {
            let runs = tree.file(script).is_some_and(|file| file.executable);
            (!runs).then(|| format!("expected an executable file, got {script}; correct the command"))
        }
        ["cargo", "xtask", step, ..] => {
            let known = step == "check" || STEPS.iter().any(|it| it.name == step);
            (!known).then(|| format!("expected a step of xtask, got {step}; correct the command"))
        }
        _ => None,
    }
}

/// The relative links of a page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

/// The commands in a page's blocks marked `sh`, without comments.
pub fn commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut shell = false;
    for line in text.lines() {
        if line.starts_with("```") {
            shell = line == "```sh";
        } else if shell {
            let command = line.split(" #").next().unwrap_or_default().trim();
            if !command.is_empty() && !command.starts_with('#') {
                commands.push(command.to_string());
            }
        }
    }
    commands
}

/// People must know what they may do with it.
pub fn license(tree: &Tree) -> Vec<Finding> {
    let present = tree.text("LICENSE").is_some_and(|text| text.contains("Apache License"));
    if present {
        Vec::new()
    } else {
        vec![Finding::new("LICENSE", 0, "expected the Apache License, got none; restore it")]
    }
}

/// The lines outside code blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.starts_with("```");
        code ^= fence;
        (!code && !fence).then_some((index + 1, line))
    })
}
