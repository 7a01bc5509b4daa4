//! What the built files export and need: a preload library must define exactly the symbols it
//! means to, and load where the RDMA and topology libraries are not installed.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Libraries that the host may lack, or (MPI) that the program brings along.
const OPTIONAL: [&str; 4] = ["libibverbs", "librdmacm", "libhwloc", "libmpi"];

/// Compares the library's dynamic symbols with the list under version control.
pub fn exports(root: &Path, profile: &str) -> Result<Vec<String>> {
    let library = built(root, profile, "libferrorail.so")?;
    let printed = crate::output(root, "nm", &["-D", "--defined-only", &library])?;
    let list = root.join("crates/capi/exports.txt");
    let listed = std::fs::read_to_string(list).context("crates/capi/exports.txt")?;
    Ok(compare(&defined(&printed), &parse_list(&listed)))
}

/// Looks for optional libraries among those the loader would insist on.
pub fn needed(root: &Path, profile: &str) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for name in ["libferrorail.so", "ferrorail"] {
        let file = built(root, profile, name)?;
        let printed = crate::output(root, "readelf", &["-d", "-W", &file])?;
        lines.extend(unwanted(name, &printed));
    }
    Ok(lines)
}

/// A file of the build with that profile, which must be there.
fn built(root: &Path, profile: &str, name: &str) -> Result<String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let file = target.join(profile).join(name);
    if !file.is_file() {
        bail!(
            "{} is not built: cargo build --profile {profile}",
            file.display()
        );
    }
    Ok(file.display().to_string())
}

/// Symbol names in the output of `nm -D --defined-only`, without version suffixes and the version
/// nodes themselves (type `A`).
fn defined(printed: &str) -> BTreeSet<&str> {
    printed
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().rev();
            let (name, kind) = (words.next()?, words.next()?);
            (kind != "A").then(|| name.split('@').next().unwrap_or(name))
        })
        .collect()
}

/// One symbol a line; `#` starts a comment.
fn parse_list(text: &str) -> BTreeSet<&str> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .filter(|name| !name.is_empty())
        .collect()
}

fn compare(defined: &BTreeSet<&str>, listed: &BTreeSet<&str>) -> Vec<String> {
    let extra = defined.difference(listed);
    let extra = extra.map(|name| format!("{name}: exported but not in crates/capi/exports.txt"));
    let missing = listed.difference(defined);
    let missing = missing.map(|name| format!("{name}: in crates/capi/exports.txt, not exported"));
    extra.chain(missing).collect()
}

/// Violations in the output of `readelf -d`.
fn unwanted(file: &str, printed: &str) -> Vec<String> {
    printed
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split_once('[')?.1.split(']').next())
        .filter(|library| OPTIONAL.iter().any(|name| library.starts_with(name)))
        .map(|library| format!("{file}: needs {library}, which may be absent"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NM: &str = "0000000000001000 T MPI_Allgather@@FERRORAIL_1\n\
                      0000000000001010 W MPI_Init\n\
                      0000000000000000 A FERRORAIL_1\n";

    #[test]
    fn equal_lists_pass() {
        let listed = parse_list("# start-up\nMPI_Init\n\nMPI_Allgather # blocking\n");
        assert!(compare(&defined(NM), &listed).is_empty());
    }

    #[test]
    fn extra_and_missing_symbols_fail() {
        assert_eq!(
            compare(&defined(NM), &parse_list("MPI_Init\nMPI_Finalize\n")),
            [
                "MPI_Allgather: exported but not in crates/capi/exports.txt",
                "MPI_Finalize: in crates/capi/exports.txt, not exported",
            ]
        );
    }

    #[test]
    fn optional_libraries_must_not_be_needed() {
        let printed = " 0x0000000000000001 (NEEDED)  Shared library: [libibverbs.so.1]\n\
                       0x0000000000000001 (NEEDED)  Shared library: [libc.so.6]\n\
                       0x000000000000000e (SONAME)  Library soname: [libmpi.so]\n";
        assert_eq!(
            unwanted("a", printed),
            ["a: needs libibverbs.so.1, which may be absent"]
        );
    }
}
