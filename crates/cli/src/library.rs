//! Where libferrorail.so is.

use anyhow::{Result, bail};
use std::env;
use std::path::{Path, PathBuf};

/// File name of the preload library.
const NAME: &str = "libferrorail.so";
/// Overrides the search.
const VARIABLE: &str = "FERRORAIL_LIBRARY";

/// Absolute path of the preload library: `FERRORAIL_LIBRARY`, else beside this executable, else in
/// `../lib` of it.
pub fn find() -> Result<PathBuf> {
    let executable = env::current_exe()?;
    let directory = executable.parent().unwrap_or(Path::new("/"));
    find_from(env::var_os(VARIABLE).map(PathBuf::from), directory)
}

fn find_from(given: Option<PathBuf>, directory: &Path) -> Result<PathBuf> {
    if let Some(path) = given.filter(|path| !path.as_os_str().is_empty()) {
        if !path.is_file() {
            bail!("{VARIABLE}={}: there is no such file", path.display());
        }
        return Ok(path.canonicalize()?);
    }
    let candidates = [directory.join(NAME), directory.join("../lib").join(NAME)];
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.canonicalize()?),
        None => bail!(
            "{NAME} is neither in {0} nor in {0}/../lib: build it (cargo build --release) or set {VARIABLE}",
            directory.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_search_goes_in_order() {
        let root = env::temp_dir().join(format!("ferrorail-library-{}", std::process::id()));
        let (bin, lib) = (root.join("bin"), root.join("lib"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&lib).unwrap();
        let root = root.canonicalize().unwrap();

        let error = find_from(None, &bin).unwrap_err().to_string();
        assert!(
            error.contains(VARIABLE) && error.contains("bin/../lib"),
            "{error}"
        );
        fs::write(lib.join(NAME), "").unwrap();
        assert_eq!(find_from(None, &bin).unwrap(), root.join("lib").join(NAME));
        fs::write(bin.join(NAME), "").unwrap();
        assert_eq!(find_from(None, &bin).unwrap(), root.join("bin").join(NAME));
        assert_eq!(
            find_from(Some("".into()), &bin).unwrap(),
            root.join("bin").join(NAME)
        );

        fs::write(root.join("other.so"), "").unwrap();
        let other = find_from(Some(bin.join("../other.so")), &bin).unwrap();
        assert_eq!(other, root.join("other.so"));
        let error = find_from(Some(bin.join("none.so")), &bin)
            .unwrap_err()
            .to_string();
        assert!(error.contains("none.so: there is no such file"), "{error}");
        fs::remove_dir_all(root).unwrap();
    }
}
