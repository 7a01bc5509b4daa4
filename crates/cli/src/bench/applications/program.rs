//! The applications: where their sources are, and how they become programs.

use anyhow::{Context, Result, bail};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An application.
#[derive(Debug)]
pub struct Application {
    /// The paper's name for it.
    pub name: &'static str,
    source: &'static str,
    /// The size of its problem, for each rank.
    size: &'static [&'static str],
    /// How its steps are given, and how many there are unless the user says.
    steps: (&'static str, u32),
}

/// Both of the paper. It does not say how large their problems were.
pub const APPLICATIONS: &[Application] = &[
    Application {
        name: "N-BODY",
        source: "nbody.c",
        size: &["-n", "128"],
        steps: ("-t", 20),
    },
    Application {
        name: "RADIX",
        source: "radix.c",
        size: &["-n", "65536", "-k", "p2p"],
        steps: ("-s", 10),
    },
];

impl Application {
    /// With so many time steps, or sorts.
    pub fn arguments(&self, steps: Option<u32>) -> Vec<String> {
        let (option, usual) = self.steps;
        let size = self.size.iter().map(|&word| word.to_owned());
        let steps = [option.to_owned(), steps.unwrap_or(usual).to_string()];
        size.chain(steps).collect()
    }
}

/// The folder with the sources: the given one, else that of the tree this command was built in.
pub fn sources(given: Option<&Path>) -> Result<PathBuf> {
    let executable = env::current_exe()?;
    let beside = executable.parent().unwrap_or(Path::new("/"));
    let usual = beside.join("../../tests/apps");
    let is_whole = |folder: &PathBuf| {
        let mut sources = APPLICATIONS.iter().map(|application| application.source);
        sources.all(|source| folder.join(source).is_file())
    };
    let found = match given {
        Some(folder) => Some(folder.to_owned()).filter(is_whole),
        None => Some(usual).filter(is_whole),
    };
    match (found, given) {
        (Some(folder), _) => Ok(folder),
        (None, Some(folder)) => bail!(
            "--sources {}: nbody.c and radix.c are not there",
            folder.display()
        ),
        (None, None) => bail!(
            "the sources nbody.c and radix.c are not beside this command: say where with --sources FOLDER (tests/apps of ferrorail)"
        ),
    }
}

/// A folder for programs and their files, removed afterwards.
pub struct Folder(PathBuf);

impl Folder {
    /// Makes it.
    pub fn new() -> Result<Self> {
        let path = env::temp_dir().join(format!("ferrorail-apps-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in a folder of temporary files harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compiles `application` with the MPI library's `compiler`; returns the program.
pub fn compile(
    compiler: &str,
    sources: &Path,
    folder: &Folder,
    application: &Application,
) -> Result<PathBuf> {
    let source = sources.join(application.source);
    let program = folder.file(application.source.trim_end_matches(".c"));
    let output = Command::new(compiler)
        .args(["-O2", "-std=gnu11", "-o"])
        .args([&program, &source])
        .arg("-lm")
        .output();
    let output = output.with_context(|| {
        format!(
            "cannot run the MPI compiler {compiler}: install it, or name another with --compiler"
        )
    })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let lines = || text.lines().filter(|line| !line.trim().is_empty());
        let reason = lines()
            .find(|line| line.contains("error"))
            .or_else(|| lines().next_back());
        bail!(
            "{compiler} cannot compile {}: {}",
            source.display(),
            reason.unwrap_or("it does not say why")
        );
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_the_user() {
        let nbody = &APPLICATIONS[0];
        assert_eq!(nbody.arguments(None), ["-n", "128", "-t", "20"]);
        assert_eq!(nbody.arguments(Some(3))[3], "3");
        assert_eq!(
            APPLICATIONS[1].arguments(Some(1))[2..],
            ["-k", "p2p", "-s", "1"]
        );
    }

    #[test]
    fn a_folder_without_sources_is_named() {
        let error = sources(Some(Path::new("/nowhere"))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--sources /nowhere: nbody.c and radix.c are not there"
        );
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/apps");
        assert_eq!(sources(Some(&shipped)).unwrap(), shipped);
    }

    #[test]
    fn errors_of_compilers_are_one_line() {
        let folder = Folder::new().unwrap();
        let error = |compiler: &str| {
            let error = compile(compiler, Path::new("/nowhere"), &folder, &APPLICATIONS[1]);
            format!("{:#}", error.unwrap_err())
        };
        let missing = error("no-such-mpicc");
        assert!(missing.starts_with("cannot run the MPI compiler no-such-mpicc"));
        let failing = error("cc");
        assert!(
            failing.starts_with("cc cannot compile /nowhere/radix.c: "),
            "{failing}"
        );
        assert_eq!(failing.lines().count(), 1);
        let path = folder.file("");
        drop(folder);
        assert!(!path.exists());
    }
}
