//! What can fail about a segment. Each variant names the act.

use std::io;
use std::path::PathBuf;

/// What went wrong, in words a user can act on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShmError {
    /// The size cannot exist in this address space.
    #[error(
        "a shared segment of {bytes} bytes cannot exist; a smaller FERRORAIL_SCRATCH takes less for a communicator"
    )]
    TooLarge {
        /// Bytes asked for.
        bytes: u64,
    },
    /// Nearly all descriptors of the process are in use.
    #[error("the last of {limit} descriptors are left to the program; `ulimit -n` gives more")]
    Descriptors {
        /// The process's limit.
        limit: u64,
    },
    /// Nearly all of the process's address space is in use.
    #[error(
        "the last quarter of {limit} bytes of address space is left to the program; `ulimit -v` gives more"
    )]
    AddressSpace {
        /// The process's limit.
        limit: u64,
    },
    /// `memfd_create` failed.
    #[error("creating a memfd failed: {source}; FERRORAIL_SHM=posix does without")]
    CreateMemfd {
        /// The system's reason.
        source: io::Error,
    },
    /// The name could not be created.
    #[error("creating {} failed: {source}; FERRORAIL_SHM=memfd needs no such file", path.display())]
    CreatePosix {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The memory is not there, e.g. `/dev/shm` is full or smaller than the segment.
    #[error(
        "allocating {bytes} bytes of shared memory in {place} failed: {source}{}",
        allocation_hint(source, place)
    )]
    Allocate {
        /// Bytes asked for.
        bytes: u64,
        /// File system or kind of object.
        place: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Mapping failed.
    #[error("mapping a shared segment of {bytes} bytes failed: {source}")]
    Map {
        /// Bytes to map.
        bytes: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The system forbids opening a peer's segment.
    #[error(
        "attaching to the segment of process {pid} at {} is forbidden: {source}; \
         FERRORAIL_SHM=posix shares by name instead",
        path.display()
    )]
    AttachForbidden {
        /// The creator.
        pid: u32,
        /// What was opened.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no such object.
    #[error(
        "the segment of process {pid} is not at {}: {source}; it ended, or lives in another pid \
         namespace, where FERRORAIL_SHM=posix may help",
        path.display()
    )]
    AttachGone {
        /// The creator.
        pid: u32,
        /// What was opened.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another object is found there: the peer lives in another pid namespace or mount.
    #[error(
        "{} is not the segment of process {pid}: another pid namespace or another /dev/shm",
        path.display()
    )]
    AttachOther {
        /// The creator.
        pid: u32,
        /// What was opened.
        path: PathBuf,
    },
    /// Opening a peer's segment failed for another reason.
    #[error("opening {} failed: {source}", path.display())]
    Attach {
        /// What was opened.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The segment was laid out by someone who counts differently.
    #[error(
        "the node segment's header is {found:x?}, expected {expected:x?}: ranks differ in \
         version or settings"
    )]
    Header {
        /// Words of this rank's layout.
        expected: Vec<u64>,
        /// Words found.
        found: Vec<u64>,
    },
}

/// What to set when memory ran out.
fn allocation_hint(source: &io::Error, place: &str) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EFBIG) => {
            "; `ulimit -f` limits the length of files, a smaller FERRORAIL_SCRATCH takes less for a communicator"
        }
        Some(libc::ENOSPC | libc::ENOMEM | libc::EDQUOT) if place == "a memfd" => {
            "; a smaller FERRORAIL_SCRATCH takes less for a communicator"
        }
        Some(libc::ENOSPC | libc::ENOMEM | libc::EDQUOT) => {
            "; FERRORAIL_SHM=memfd does not use it, a smaller FERRORAIL_SCRATCH takes less for a communicator"
        }
        _ => "",
    }
}
