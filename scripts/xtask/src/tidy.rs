//! Habits that every tracked file is held to, as a ratchet: what is too large today may be listed
//! with its size, and may then only shrink.

mod circles;
mod files;

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The settings of this check; it alone may spell the words it bans.
const RULES: &str = "scripts/xtask/tidy.toml";

/// `tidy.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    limits: Limits,
    /// Most methods of a trait, by path and name.
    #[serde(default)]
    traits: BTreeMap<String, usize>,
    #[serde(default)]
    allowed: Allowed,
    #[serde(default)]
    banned: Vec<Banned>,
    #[serde(default)]
    vocabulary: Vec<Term>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    file_lines: usize,
    file_bytes: usize,
}

/// Exceptions: path, with the present number of lines; folder of a crate, with that of files in circles.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    #[serde(default)]
    files: BTreeMap<String, usize>,
    #[serde(default)]
    circles: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Banned {
    words: Vec<String>,
    why: String,
    /// File name extensions it concerns; all if empty.
    #[serde(default)]
    only: Vec<String>,
    #[serde(default)]
    except: Vec<String>,
}

/// Words that another one replaces, as parts of identifiers and in prose: `bell` is found in `Bell`,
/// `ring_bell` and "the bell", not in `doorbell`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Term {
    goes: Vec<String>,
    comes: String,
    /// Files and folders (with their slash) that it concerns; all if empty.
    #[serde(default)]
    within: Vec<String>,
    #[serde(default)]
    except: Vec<String>,
}

/// Checks every file that Git tracks.
pub fn run(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(RULES)).context(RULES)?;
    let rules: Rules = toml::from_str(&text).context(RULES)?;
    let tracked = crate::output(root, "git", &["ls-files", "-z"])?;
    let shellcheck = installed("shellcheck");
    let mut lines = Vec::new();
    let mut sizes = BTreeMap::new();
    let mut crates = circles::Crates::default();
    for path in tracked.split('\0').filter(|path| !path.is_empty()) {
        let full = root.join(path);
        if !full.is_file() {
            continue; // deleted but not yet committed, or a symbolic link to a folder
        }
        let content = std::fs::read(&full).with_context(|| path.to_owned())?;
        lines.extend(files::check(&rules, path, &content, &mut sizes));
        if let Ok(text) = std::str::from_utf8(&content)
            && let Err(error) = crates.add(path, text)
        {
            lines.push(format!("{path}: {error}"));
        }
        if files::is_shell(path, &content) {
            lines.extend(shell(root, "bash", &["-n", path])?);
            if shellcheck {
                lines.extend(shell(
                    root,
                    "shellcheck",
                    &["--severity=warning", "--external-sources", path],
                )?);
            }
        }
    }
    let limit = rules.limits.file_lines;
    lines.extend(ratchet(&sizes, &rules.allowed.files, limit, "lines"));
    for (place, &most) in &rules.traits {
        let (path, name) = place.split_once("::").context("[traits]: path::name")?;
        let text = std::fs::read_to_string(root.join(path)).with_context(|| place.clone())?;
        match methods(&text, name)? {
            Some(count) if count <= most => {}
            Some(count) => lines.push(format!("{place}: {count} methods, the limit is {most}")),
            None => lines.push(format!("{place}: there is no such trait")),
        }
    }
    lines.extend(crates.check(&rules.allowed.circles));
    Ok(lines)
}

/// Number of methods of the trait `name`, those with a body too; `None` if there is no such trait.
fn methods(text: &str, name: &str) -> syn::Result<Option<usize>> {
    let file = syn::parse_file(text)?;
    let mut traits = file.items.iter().filter_map(|item| match item {
        syn::Item::Trait(item) if item.ident == name => Some(item),
        _ => None,
    });
    let is_method = |item: &&syn::TraitItem| matches!(item, syn::TraitItem::Fn(_));
    Ok(traits
        .next()
        .map(|found| found.items.iter().filter(is_method).count()))
}

/// What breaks `limit`, or is not as large as it is allowed to be; in `unit`.
fn ratchet(
    sizes: &BTreeMap<String, usize>,
    allowed: &BTreeMap<String, usize>,
    limit: usize,
    unit: &str,
) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, &size) in sizes {
        match allowed.get(name) {
            None if size > limit => {
                lines.push(format!("{name}: {size} {unit}, the limit is {limit}"));
            }
            Some(&known) if size > known => {
                lines.push(format!("{name}: grew from {known} to {size} {unit}"));
            }
            Some(&known) if size < known && size > limit => {
                lines.push(format!(
                    "{name}: shrank to {size} {unit}; lower {known} in {RULES}"
                ));
            }
            Some(_) if size <= limit => {
                lines.push(format!(
                    "{name}: within the limit now; drop it from {RULES}"
                ));
            }
            _ => {}
        }
    }
    let gone = allowed.keys().filter(|name| !sizes.contains_key(*name));
    lines.extend(gone.map(|name| format!("{name}: gone; drop it from {RULES}")));
    lines
}

fn installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|result| result.status.success())
}

/// The complaints of a checker of shell scripts, one line each.
fn shell(root: &Path, checker: &str, arguments: &[&str]) -> Result<Vec<String>> {
    let result = Command::new(checker)
        .args(arguments)
        .current_dir(root)
        .output()
        .with_context(|| format!("cannot run {checker}"))?;
    if result.status.success() {
        return Ok(Vec::new());
    }
    let printed = [result.stdout, result.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    let complaints: Vec<&str> = printed
        .split('\n')
        .filter(|line| !line.is_empty())
        .collect();
    Ok(vec![format!("{checker}: {}", complaints.join(" | "))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(size: usize) -> BTreeMap<String, usize> {
        BTreeMap::from([("a.rs".to_owned(), size)])
    }

    #[test]
    fn the_limit_holds_where_nothing_is_allowed() {
        assert!(ratchet(&sizes(400), &BTreeMap::new(), 400, "lines").is_empty());
        assert_eq!(
            ratchet(&sizes(401), &BTreeMap::new(), 400, "lines"),
            ["a.rs: 401 lines, the limit is 400"]
        );
    }

    #[test]
    fn an_exception_may_only_shrink() {
        assert!(ratchet(&sizes(450), &sizes(450), 400, "lines").is_empty());
        assert_eq!(
            ratchet(&sizes(451), &sizes(450), 400, "lines"),
            ["a.rs: grew from 450 to 451 lines"]
        );
        assert!(ratchet(&sizes(420), &sizes(450), 400, "lines")[0].contains("lower 450"));
        assert!(ratchet(&sizes(300), &sizes(450), 400, "lines")[0].contains("drop it"));
        assert!(ratchet(&BTreeMap::new(), &sizes(450), 400, "lines")[0].contains("gone"));
    }

    #[test]
    fn methods_of_a_trait_are_counted() {
        let text = "trait A { fn a(); fn b() {} type C; } trait B { fn c(); }";
        let count = |name| methods(text, name).unwrap();
        assert_eq!(
            (count("A"), count("B"), count("C")),
            (Some(2), Some(1), None)
        );
    }

    #[test]
    fn a_broken_shell_script_is_reported() {
        let folder = std::env::temp_dir();
        let script = folder.join(format!("xtask-tidy-{}.sh", std::process::id()));
        std::fs::write(&script, "if true; then\n").unwrap();
        let lines = shell(&folder, "bash", &["-n", script.to_str().unwrap()]).unwrap();
        std::fs::remove_file(&script).unwrap();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("syntax error"), "{lines:?}");
    }
}
