//! `ferrorail exec`: run a program with the preload library.

mod interposable;

use crate::library;
use crate::program::Program;
use anyhow::{Context, Result, bail};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const PRELOAD: &str = "LD_PRELOAD";

/// Run a program with libferrorail.so preloaded, e.g. `mpirun -n 4 ferrorail exec ./app`
///
/// Exits as the program does; with 127 if it is not found, 126 if it cannot be run, 125 if the
/// preload library is missing.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    program: Program,
}

/// Replaces this process; returns only if that fails.
pub fn main(args: &Args) -> Result<ExitCode> {
    let library = library::find()?;
    let preload = prepend(&library, env::var_os(PRELOAD).as_deref())?;
    let (name, arguments) = args.program.command.split_first().context("no program")?;
    let Some(program) = locate(name) else {
        ferrorail_base::complain(format_args!(
            "ferrorail exec: {}: no such program",
            name.display()
        ));
        return Ok(ExitCode::from(127));
    };
    if let Some(obstacle) = interposable::obstacle(&program) {
        ferrorail_base::complain(format_args!(
            "ferrorail exec: {} {obstacle}: it cannot be interposed and runs without ferrorail",
            program.display()
        ));
    }
    let error = Command::new(&program)
        .arg0(name)
        .args(arguments)
        .env(PRELOAD, preload)
        .exec();
    ferrorail_base::complain(format_args!(
        "ferrorail exec: {}: {error}",
        program.display()
    ));
    Ok(ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    }))
}

/// The value of `LD_PRELOAD` that has `library` first and everything of `existing` behind it, once.
fn prepend(library: &Path, existing: Option<&OsStr>) -> Result<OsString> {
    let is_separator = |byte: &u8| matches!(byte, b':' | b' ');
    let path = library.as_os_str();
    if path.as_bytes().iter().any(&is_separator) {
        bail!(
            "{}: {PRELOAD} cannot hold a path with a space or colon; move or link the library",
            library.display()
        );
    }
    let mut preload = path.to_owned();
    for other in existing.unwrap_or_default().as_bytes().split(is_separator) {
        if !other.is_empty() && other != path.as_bytes() {
            preload.push(":");
            preload.push(OsStr::from_bytes(other));
        }
    }
    Ok(preload)
}

/// The file that `program` means: itself if it has a slash, else the first in `PATH`.
fn locate(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    let executable = |path: &PathBuf| {
        use nix::unistd::{AccessFlags, access};
        path.is_file() && access(path, AccessFlags::X_OK).is_ok()
    };
    let path = env::var_os("PATH").context("PATH is not set").ok()?;
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(executable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preload_is_prepended_once() {
        let prepended = |existing: Option<&str>| {
            let existing = existing.map(OsStr::new);
            prepend(Path::new("/lib/ours.so"), existing).unwrap()
        };
        assert_eq!(prepended(None), "/lib/ours.so");
        assert_eq!(prepended(Some("")), "/lib/ours.so");
        assert_eq!(prepended(Some("a.so b.so")), "/lib/ours.so:a.so:b.so");
        assert_eq!(prepended(Some("a.so:/lib/ours.so")), "/lib/ours.so:a.so");
        let error = prepend(Path::new("/a b/ours.so"), None).unwrap_err();
        assert!(error.to_string().contains("space or colon"), "{error}");
    }

    #[test]
    fn programs_are_searched_in_path() {
        let shell = locate(OsStr::new("sh")).unwrap();
        assert!(shell.is_absolute() && shell.ends_with("sh"));
        assert_eq!(locate(OsStr::new("/bin/sh")).unwrap(), Path::new("/bin/sh"));
        assert_eq!(locate(OsStr::new("no-such-program-anywhere")), None);
        assert_eq!(locate(OsStr::new("./no-such-program")), None);
    }
}
