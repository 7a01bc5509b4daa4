//! What can be judged from one file's path and content.

use super::{RULES, Rules, Term};
use std::collections::BTreeMap;

/// Judges one tracked file and adds the lines of code in it to `sizes`.
pub(super) fn check(
    rules: &Rules,
    path: &str,
    content: &[u8],
    sizes: &mut BTreeMap<String, usize>,
) -> Vec<String> {
    let mut lines = Vec::new();
    if content.len() > rules.limits.file_bytes {
        let (size, limit) = (content.len(), rules.limits.file_bytes);
        lines.push(format!("{path}: {size} bytes, the limit is {limit}"));
    }
    let Ok(text) = std::str::from_utf8(content) else {
        return lines;
    };
    if path != RULES {
        lines.extend(banned(rules, path, text));
        lines.extend(vocabulary(rules, path, text));
    }
    if is_code(path, content) {
        sizes.insert(path.to_owned(), text.lines().count());
    }
    if extension(path) == "rs" && !text.starts_with("//!") {
        lines.push(format!("{path}: does not start with //! documentation"));
    }
    if path.ends_with("/Cargo.toml") && !has_workspace_lints(text) {
        lines.push(format!("{path}: lacks `[lints] workspace = true`"));
    }
    lines
}

fn banned(rules: &Rules, path: &str, text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for rule in &rules.banned {
        let concerned = rule.only.is_empty() || rule.only.iter().any(|e| e == extension(path));
        if !concerned || rule.except.iter().any(|except| covers(except, path)) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            for word in rule
                .words
                .iter()
                .filter(|word| line.contains(word.as_str()))
            {
                lines.push(format!("{path}:{}: `{word}`: {}", number + 1, rule.why));
            }
        }
    }
    lines
}

/// Finds words of which the glossary has another one.
fn vocabulary(rules: &Rules, path: &str, text: &str) -> Vec<String> {
    let applies = |term: &&Term| {
        let within = |list: &[String]| list.iter().any(|entry| covers(entry, path));
        (term.within.is_empty() || within(&term.within)) && !within(&term.except)
    };
    let terms: Vec<_> = rules.vocabulary.iter().filter(applies).collect();
    if terms.is_empty() || !matches!(extension(path), "rs" | "md" | "toml" | "json" | "c" | "h") {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for word in words(line) {
            let replaced = |term: &&&Term| term.goes.contains(&word);
            if let Some(term) = terms.iter().find(replaced) {
                let (number, comes) = (number + 1, &term.comes);
                lines.push(format!(
                    "{path}:{number}: `{word}`: say `{comes}` (GLOSSARY.md)"
                ));
            }
        }
    }
    lines
}

/// The words of a line in small letters: `NodeFlag`, `node_flag` and "Node flag" are two each.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in line.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if begins || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether an exception, a file or a folder with its slash, is for this path.
fn covers(except: &str, path: &str) -> bool {
    except == path || (except.ends_with('/') && path.starts_with(except))
}

fn has_workspace_lints(manifest: &str) -> bool {
    manifest
        .parse::<toml::Table>()
        .ok()
        .and_then(|table| table.get("lints")?.get("workspace")?.as_bool())
        .unwrap_or(false)
}

/// Text after the last dot of the file name, or nothing.
fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn is_code(path: &str, content: &[u8]) -> bool {
    matches!(extension(path), "rs" | "c" | "h" | "f90" | "sh" | "py") || content.starts_with(b"#!/")
}

/// Whether `bash -n` can judge it.
pub(super) fn is_shell(path: &str, content: &[u8]) -> bool {
    let first = content.split(|&byte| byte == b'\n').next().unwrap_or(b"");
    extension(path) == "sh" || (first.starts_with(b"#!") && first.ends_with(b"sh"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        toml::from_str(
            "[limits]\nfile_lines = 3\nfile_bytes = 100\n\
             [[banned]]\nwords = ['bad']\nwhy = 'worse'\n\
             [[banned]]\nwords = ['atomic']\nwhy = 'no'\nonly = ['rs']\nexcept = ['ok.rs', 'ffi/']\n",
        )
        .unwrap()
    }

    fn judge(path: &str, text: &str) -> Vec<String> {
        check(&rules(), path, text.as_bytes(), &mut BTreeMap::new())
    }

    #[test]
    fn banned_words_name_the_line() {
        assert_eq!(judge("a.md", "good\nbad\n"), ["a.md:2: `bad`: worse"]);
        assert_eq!(judge(RULES, "bad"), [""; 0]);
        assert_eq!(judge("x/a.rs", "//! atomic").len(), 1);
        assert_eq!(judge("ok.rs", "//! atomic"), [""; 0]);
        assert_eq!(judge("ffi/a.rs", "//! atomic"), [""; 0]);
        assert_eq!(judge("a.md", "atomic"), [""; 0]);
    }

    #[test]
    fn words_that_another_replaces_are_found_in_names_and_prose() {
        let text = "[limits]\nfile_lines = 3\nfile_bytes = 900\n\
             [[vocabulary]]\ngoes = ['bell']\ncomes = 'doorbell'\nwithin = ['a/']\nexcept = ['a/b.rs']\n";
        let rules: Rules = toml::from_str(text).unwrap();
        let judge = |path, text: &str| vocabulary(&rules, path, text);
        for found in [
            "//! The bell.",
            "struct Bell;",
            "ring_bell()",
            "BELL",
            "aBell",
        ] {
            assert_eq!(judge("a/a.rs", found).len(), 1, "{found}");
            assert_eq!(judge("a/b.rs", found), [""; 0]);
            assert_eq!(judge("c.rs", found), [""; 0]);
        }
        for fine in ["doorbell", "bells", "Doorbell", "label"] {
            assert_eq!(judge("a/a.rs", fine), [""; 0], "{fine}");
        }
        let line = judge("a/a.md", "one\ntwo bell");
        assert_eq!(line, ["a/a.md:2: `bell`: say `doorbell` (GLOSSARY.md)"]);
    }

    #[test]
    fn large_files_fail() {
        assert_eq!(
            judge("a.bin", &"x".repeat(101)),
            ["a.bin: 101 bytes, the limit is 100"]
        );
    }

    #[test]
    fn rust_files_start_with_documentation() {
        assert_eq!(
            judge("a.rs", "fn main() {}\n"),
            ["a.rs: does not start with //! documentation"]
        );
    }

    #[test]
    fn crates_take_the_workspace_lints() {
        assert_eq!(
            judge("a/Cargo.toml", "[lints]\nworkspace = true\n"),
            [""; 0]
        );
        assert_eq!(judge("a/Cargo.toml", "[package]\n").len(), 1);
        assert_eq!(judge("Cargo.toml", "[workspace]\n"), [""; 0]);
    }

    #[test]
    fn only_code_has_a_line_limit() {
        let mut sizes = BTreeMap::new();
        check(&rules(), "a.c", b"1\n2\n", &mut sizes);
        check(&rules(), "run", b"#!/usr/bin/env bash\n", &mut sizes);
        check(&rules(), "a.md", b"1\n2\n", &mut sizes);
        let known: Vec<_> = sizes.into_iter().collect();
        assert_eq!(known, [("a.c".to_owned(), 2), ("run".to_owned(), 1)]);
    }

    #[test]
    fn shell_is_known_by_its_first_line() {
        assert!(is_shell("demo", b"#!/usr/bin/env bash\n"));
        assert!(is_shell("lib/need.sh", b"need() {"));
        assert!(!is_shell("plot", b"#!/usr/bin/env python3\n"));
    }
}
