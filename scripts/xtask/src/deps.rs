//! The dependency table against what Cargo sees.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// `dependencies.toml`.
#[derive(Deserialize)]
struct Table {
    #[serde(rename = "crate")]
    crates: BTreeMap<String, Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    level: u8,
    may: Vec<String>,
    #[serde(default)]
    never: Vec<String>,
}

/// A dependency that Cargo sees.
struct Edge {
    from: String,
    to: String,
    dev: bool,
}

/// Compares the workspace with the table.
pub fn run(root: &Path) -> Result<Vec<String>> {
    let file = root.join("scripts/xtask/dependencies.toml");
    let text = std::fs::read_to_string(&file).context("cannot read dependencies.toml")?;
    let table: Table = toml::from_str(&text).context("dependencies.toml")?;
    let metadata = crate::output(
        root,
        "cargo",
        &["metadata", "--no-deps", "--format-version=1"],
    )?;
    let (members, edges) = parse_metadata(&metadata)?;
    Ok(check(&table, &members, &edges))
}

/// The workspace's crates, and their dependencies of every kind on anything.
fn parse_metadata(text: &str) -> Result<(Vec<String>, Vec<Edge>)> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        dependencies: Vec<Dependency>,
    }
    #[derive(Deserialize)]
    struct Dependency {
        name: String,
        kind: Option<String>,
    }
    let metadata: Metadata = serde_json::from_str(text).context("cargo metadata")?;
    let mut edges = Vec::new();
    for package in &metadata.packages {
        for dependency in &package.dependencies {
            edges.push(Edge {
                from: package.name.clone(),
                to: dependency.name.clone(),
                dev: dependency.kind.as_deref() == Some("dev"),
            });
        }
    }
    let members = metadata.packages.into_iter().map(|p| p.name).collect();
    Ok((members, edges))
}

fn check(table: &Table, members: &[String], edges: &[Edge]) -> Vec<String> {
    let mut lines = Vec::new();
    for member in members {
        if !table.crates.contains_key(member) {
            lines.push(format!("{member}: has no row in dependencies.toml"));
        }
    }
    for name in table.crates.keys() {
        if !members.contains(name) {
            lines.push(format!(
                "{name}: has a row in dependencies.toml but is no crate"
            ));
        }
    }
    for (name, row) in &table.crates {
        for target in &row.may {
            match table.crates.get(target) {
                Some(lower) if lower.level < row.level => {}
                _ => lines.push(format!(
                    "{name}: may not list {target}, which is not below it"
                )),
            }
        }
    }
    lines.extend(edges.iter().filter_map(|edge| violation(table, edge)));
    lines
}

fn violation(table: &Table, edge: &Edge) -> Option<String> {
    let from = table.crates.get(&edge.from)?;
    let arrow = format!("{} -> {}", edge.from, edge.to);
    if from.never.contains(&edge.to) {
        return Some(format!("{arrow}: never allowed"));
    }
    let to = table.crates.get(&edge.to)?;
    if edge.dev {
        let upward = to.level > from.level;
        return upward.then(|| format!("{arrow} (dev): goes up"));
    }
    (!from.may.contains(&edge.to)).then(|| format!("{arrow}: not in dependencies.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        toml::from_str(
            "[crate.low]\nlevel = 0\nmay = []\nnever = ['libc']\n\
             [crate.mid]\nlevel = 1\nmay = ['low']\n\
             [crate.side]\nlevel = 1\nmay = ['low']\nnever = ['mid']\n\
             [crate.top]\nlevel = 2\nmay = ['mid']\n",
        )
        .unwrap()
    }

    fn members() -> Vec<String> {
        ["low", "mid", "side", "top"].map(str::to_owned).to_vec()
    }

    fn edge(from: &str, to: &str, dev: bool) -> Edge {
        let (from, to) = (from.to_owned(), to.to_owned());
        Edge { from, to, dev }
    }

    fn lines(from: &str, to: &str, dev: bool) -> Vec<String> {
        check(&table(), &members(), &[edge(from, to, dev)])
    }

    #[test]
    fn allowed_edges_pass() {
        assert!(lines("mid", "low", false).is_empty());
        assert!(lines("top", "mid", false).is_empty());
        assert!(lines("top", "serde", false).is_empty());
        assert!(lines("mid", "side", true).is_empty());
    }

    #[test]
    fn unlisted_upward_and_sideways_edges_fail() {
        assert_eq!(
            lines("low", "mid", false),
            ["low -> mid: not in dependencies.toml"]
        );
        assert_eq!(
            lines("mid", "side", false),
            ["mid -> side: not in dependencies.toml"]
        );
        assert_eq!(
            lines("top", "low", false),
            ["top -> low: not in dependencies.toml"]
        );
        assert_eq!(lines("mid", "top", true), ["mid -> top (dev): goes up"]);
    }

    #[test]
    fn never_holds_for_dev_dependencies_and_foreign_crates() {
        assert_eq!(lines("side", "mid", true), ["side -> mid: never allowed"]);
        assert_eq!(lines("low", "libc", false), ["low -> libc: never allowed"]);
    }

    #[test]
    fn rows_and_crates_must_match() {
        let mut members = members();
        members.push("new".into());
        members.retain(|name| name != "side");
        assert_eq!(
            check(&table(), &members, &[]),
            [
                "new: has no row in dependencies.toml",
                "side: has a row in dependencies.toml but is no crate",
            ]
        );
    }

    #[test]
    fn a_table_that_allows_an_upward_edge_fails() {
        let mut table = table();
        table.crates.get_mut("low").unwrap().may.push("top".into());
        assert_eq!(
            check(&table, &members(), &[]),
            ["low: may not list top, which is not below it"]
        );
    }

    #[test]
    fn metadata_is_read_with_its_kinds() {
        let text = r#"{"packages":[{"name":"a","dependencies":[
            {"name":"b","kind":null},{"name":"c","kind":"dev"},{"name":"d","kind":"build"}]}]}"#;
        let (members, edges) = parse_metadata(text).unwrap();
        assert_eq!(members, ["a"]);
        let dev: Vec<bool> = edges.iter().map(|edge| edge.dev).collect();
        assert_eq!(dev, [false, true, false]);
    }
}
