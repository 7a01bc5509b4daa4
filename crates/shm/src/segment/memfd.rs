//! Segments without a name: memfd.
//!
//! The object vanishes with the last process that holds it, whatever happens. Its pages are *not*
//! allocated up front, as those of private memory are not: they come from the NUMA node of who first touches
//! them, or the one that `placement` has said, and the kernel counts none before. Only more than the machine has is
//! refused.

use super::descriptors::above_standard;
use super::{SegmentHandle, ShmError, may_have};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::sysinfo::sysinfo;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Creates a sealed, zero-filled memfd.
pub(super) fn create(bytes: usize) -> Result<File, ShmError> {
    let fd = above_standard(open).map_err(|errno| ShmError::CreateMemfd {
        source: errno.into(),
    })?;
    let file = File::from(fd);
    let failed = |source| ShmError::Allocate {
        bytes: bytes as u64,
        place: "a memfd".to_owned(),
        source,
    };
    may_have(bytes)
        .and_then(|()| exists(bytes))
        .map_err(failed)?;
    file.set_len(bytes as u64).map_err(failed)?;
    // Nobody can shorten it under a mapping, which would be SIGBUS for all.
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).map_err(|errno| failed(errno.into()))?;
    Ok(file)
}

/// Refuses more memory than the machine has: who touches it would be killed.
fn exists(bytes: usize) -> io::Result<()> {
    let memory = sysinfo()?;
    match bytes as u64 <= memory.ram_total().saturating_add(memory.swap_total()) {
        true => Ok(()),
        false => Err(Errno::ENOMEM.into()),
    }
}

fn open() -> Result<OwnedFd, Errno> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // Kernels from 6.3 on may refuse a memfd that does not say it is not executable; older ones do
    // not know the flag.
    let not_executable = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    match memfd_create(c"ferrorail", flags | not_executable) {
        Err(Errno::EINVAL) => memfd_create(c"ferrorail", flags),
        other => other,
    }
}

/// Where a peer finds it.
pub(super) fn path_of(handle: &SegmentHandle) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", handle.pid, handle.fd))
}
