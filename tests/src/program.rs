//! Compiles the MPI programs of the tests, once for each host MPI, and what goes into jobs beside them.

use crate::Setup;
use crate::mpi::Mpi;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the executable of `source` (relative to `tests/`) for `mpi` is, or will be.
pub fn path(setup: &Setup, mpi: Mpi, source: &str) -> PathBuf {
    let name = Path::new(source).file_stem().unwrap_or_default();
    setup.work.join(mpi.to_string()).join(name)
}

/// Compiles `source` for `mpi` unless the executable is newer; returns the executable.
pub fn build(setup: &Setup, mpi: Mpi, source: &str) -> Result<PathBuf> {
    let executable = path(setup, mpi, source);
    let source = setup.root.join("tests").join(source);
    if up_to_date(&executable, &source)? {
        return Ok(executable);
    }
    let folder = executable.parent().context("an executable has a folder")?;
    std::fs::create_dir_all(folder).context("cannot make the folder of programs")?;
    let fortran = source
        .extension()
        .is_some_and(|extension| extension == "f90");
    let compiler = mpi.compiler(setup, fortran)?;
    let mut command = Command::new(compiler);
    command.args(["-O1", "-g1", "-pthread"]);
    if fortran {
        // Modules of different MPIs must not meet.
        command.arg(format!("-J{}", folder.display()));
    } else {
        command.args(["-std=gnu11", "-Wall", "-Wextra"]);
    }
    command.arg(&source).arg("-lm");
    compile(command, &executable)?;
    Ok(executable)
}

/// Where the library is, or will be, that makes ranks of MPICH give way to each other.
pub fn give_way(setup: &Setup) -> PathBuf {
    setup.work.join("give_way.so")
}

/// Where the library is, or will be, that makes a step of the set-up fail.
pub fn fail_step(setup: &Setup) -> PathBuf {
    setup.work.join("fail_step.so")
}

/// Compiles what goes into jobs beside ferrorail, on a machine that has a compiler.
pub fn build_aids(setup: &Setup) -> Result<()> {
    build_library(setup, &give_way(setup), "aids/give_way.c")?;
    build_library(setup, &fail_step(setup), "aids/fail_step.c")
}

/// Compiles `source` to a shared library.
pub fn build_library(setup: &Setup, library: &Path, source: &str) -> Result<()> {
    shared(setup, Command::new("cc"), library, source)
}

/// Compiles a tool that wraps the calls of one kind (see `aids/tool.c`); returns the library.
pub fn build_tool(setup: &Setup, mpi: Mpi, wrapped: &str) -> Result<PathBuf> {
    let library = path(setup, mpi, &format!("tool_{}.so", wrapped.to_lowercase()));
    let library = library.with_extension("so");
    let mut compiler = Command::new(mpi.compiler(setup, false)?);
    compiler.arg(format!("-DTOOL_{wrapped}"));
    shared(setup, compiler, &library, "aids/tool.c")?;
    Ok(library)
}

/// A shared library of `source`, by `compiler`, unless there is a newer one.
fn shared(setup: &Setup, mut compiler: Command, library: &Path, source: &str) -> Result<()> {
    let source = setup.root.join("tests").join(source);
    if up_to_date(library, &source)? {
        return Ok(());
    }
    let folder = library.parent().context("a library has a folder")?;
    std::fs::create_dir_all(folder).context("cannot make the folder of programs")?;
    compiler.args(["-O2", "-Wall", "-Wextra", "-shared", "-fPIC"]);
    compiler.arg(source).arg("-ldl");
    compile(compiler, library)
}

/// Has `command` write `target`. Several threads, of several stages, may want the same one: it appears when it
/// is whole.
fn compile(mut command: Command, target: &Path) -> Result<()> {
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let unfinished = target.with_extension(format!("{process}.{thread:?}"));
    command.arg("-o").arg(&unfinished);
    let result = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !result.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&result.stderr));
    }
    std::fs::rename(&unfinished, target)
        .with_context(|| format!("cannot make {}", target.display()))
}

/// Whether the executable is newer than every file beside its source, which it may include.
fn up_to_date(executable: &Path, source: &Path) -> Result<bool> {
    let Ok(built) = std::fs::metadata(executable).and_then(|found| found.modified()) else {
        return Ok(false);
    };
    let folder = source.parent().context("a source has a folder")?;
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        if entry?.metadata()?.modified()? > built {
            return Ok(false);
        }
    }
    Ok(true)
}
