//! Segments with a name: POSIX shared memory.
//!
//! A segment is a file `ferrorail-<pid>-<random>` in `/dev/shm`, as `shm_open` would make it; the
//! directory is a parameter so that tests can run on a file system of a few pages. Pages are
//! allocated at creation: writing a page that a full tmpfs cannot supply is SIGBUS.
//!
//! The creator removes the name as soon as all have attached. If it dies before, the next creation
//! on the host removes it: the creator holds a `flock` for as long as it lives, so a name whose pid
//! is gone *and* whose lock can be taken belongs to nobody (the lock also tells about creators in
//! other pid namespaces that share `/dev/shm`).

use super::descriptors::above_standard;
use super::{ShmError, may_have};
use crate::process;
use ferrorail_base::sync::{AtomicBool, Ordering};
use nix::errno::Errno;
use nix::fcntl::posix_fallocate;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where `shm_open` keeps its files on Linux.
pub(super) const DIRECTORY: &str = "/dev/shm";
const PREFIX: &str = "ferrorail-";

/// A segment's name, with its leading slash, and whether this process has to remove it.
#[derive(Debug)]
pub(super) struct Name {
    name: String,
    /// The file and the creating process, in that process.
    created: Option<(PathBuf, u32)>,
    linked: AtomicBool,
}

impl Name {
    /// The name of a segment that somebody else created.
    pub(super) fn of_peer(name: String) -> Self {
        Self {
            name,
            created: None,
            linked: AtomicBool::new(false),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.name
    }

    /// Removes the name, once, in the creating process (not in a fork of it).
    pub(super) fn unlink(&self) {
        let Some((path, pid)) = &self.created else {
            return;
        };
        if *pid != std::process::id() || !self.linked.swap(false, Ordering::Relaxed) {
            return;
        }
        if let Err(error) = std::fs::remove_file(path) {
            tracing::debug!(path = %path.display(), %error, "removing a segment's name failed");
        }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        self.unlink();
    }
}

/// The file behind a name.
pub(super) fn path_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(name.trim_start_matches('/'))
}

/// The pid in a file name of ours; `None` for other names.
pub(super) fn creator_of(file_name: &str) -> Option<u32> {
    let (pid, random) = file_name.strip_prefix(PREFIX)?.split_once('-')?;
    let plain = !random.is_empty() && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    pid.parse().ok().filter(|_| plain)
}

/// Creates a named file of `bytes` allocated, zero bytes, readable by this user only.
pub(super) fn create(directory: &Path, bytes: usize) -> Result<(File, Name), ShmError> {
    loop {
        let pid = std::process::id();
        let name = format!("/{PREFIX}{pid}-{:016x}", random());
        let path = path_of(directory, &name);
        let failed = |source| ShmError::CreatePosix {
            path: path.clone(),
            source,
        };
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW);
        let file = match above_standard(|| options.open(&path)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            other => other.map_err(failed)?,
        };
        let name = Name {
            name,
            created: Some((path.clone(), pid)),
            linked: AtomicBool::new(true),
        };
        match lock(&file) {
            // A process of another pid namespace takes it for one that is left, and removes it.
            Err(Errno::EWOULDBLOCK) => continue,
            other => other.map_err(|errno| failed(errno.into()))?,
        }
        if file.metadata().map_err(failed)?.nlink() == 0 {
            // It has been removed so.
            continue;
        }
        allocate(&file, bytes).map_err(|source| ShmError::Allocate {
            bytes: bytes as u64,
            place: directory.display().to_string(),
            source,
        })?;
        return Ok((file, name));
    }
}

fn allocate(file: &File, bytes: usize) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(|_| Errno::EFBIG)?;
    may_have(bytes)?;
    loop {
        match posix_fallocate(file, 0, length) {
            // A signal came; what is allocated stays so.
            Err(Errno::EINTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Takes the file's lock without waiting. It goes with the last descriptor of this open file.
fn lock(file: &File) -> Result<(), Errno> {
    // SAFETY: an open descriptor.
    Errno::result(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })?;
    Ok(())
}

/// Removes what crashed processes of this user left in `directory`.
pub(super) fn sweep(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let creator = entry.file_name().to_str().and_then(creator_of);
        if creator.is_some_and(|pid| !process::is_running(pid))
            && let Some(_locked) = abandoned(&entry.path())
        {
            // Nobody gets its lock before it has gone.
            let removed = std::fs::remove_file(entry.path());
            tracing::debug!(path = %entry.path().display(), ?removed, "swept a dead process's segment");
        }
    }
}

/// A regular file of this user's that has no creator who holds its lock; with that lock.
fn abandoned(path: &Path) -> Option<File> {
    let open = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file = open.ok()?;
    let ours = file
        .metadata()
        .is_ok_and(|found| found.is_file() && found.uid() == nix::unistd::geteuid().as_raw());
    (ours && lock(&file).is_ok()).then_some(file)
}

/// A number that neither other processes nor forks of this one share.
fn random() -> u64 {
    let mut bits = 0u64;
    // SAFETY: the buffer is eight writable bytes.
    let got = unsafe { libc::getrandom((&raw mut bits).cast(), size_of::<u64>(), 0) };
    if got == size_of::<u64>() as isize {
        return bits;
    }
    // Uniqueness is enough: `create_new` protects the name.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |elapsed| elapsed.as_nanos() as u64)
}
