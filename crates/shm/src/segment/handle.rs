//! What one process tells another so that it can attach.

use super::{ShmError, posix};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Identifies a segment to the processes of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHandle {
    /// A process that holds the segment.
    pub pid: u32,
    /// Its descriptor.
    pub fd: i32,
    /// Device of the shared object (`st_dev`).
    pub device: u64,
    /// Inode of the shared object (`st_ino`).
    pub inode: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Name of a POSIX segment, with its leading slash; `None` for a memfd.
    pub posix_name: Option<String>,
}

const FIXED_BYTES: usize = 4 + 4 + 3 * 8;

impl SegmentHandle {
    /// Little-endian form for out-of-band exchange.
    pub fn to_wire(&self) -> Vec<u8> {
        let name = self.posix_name.as_deref().unwrap_or_default();
        let mut wire = Vec::with_capacity(FIXED_BYTES + name.len());
        wire.extend_from_slice(&self.pid.to_le_bytes());
        wire.extend_from_slice(&self.fd.to_le_bytes());
        for word in [self.device, self.inode, self.bytes] {
            wire.extend_from_slice(&word.to_le_bytes());
        }
        wire.extend_from_slice(name.as_bytes());
        wire
    }

    /// Inverse of [`SegmentHandle::to_wire`]; `None` if it is not one, in particular if the name
    /// is none of ours.
    pub fn from_wire(wire: &[u8]) -> Option<Self> {
        let (fixed, name) = wire.split_at_checked(FIXED_BYTES)?;
        let (pid, rest) = fixed.split_first_chunk()?;
        let (fd, rest) = rest.split_first_chunk()?;
        let (device, rest) = rest.split_first_chunk()?;
        let (inode, rest) = rest.split_first_chunk()?;
        let (bytes, _) = rest.split_first_chunk()?;
        let posix_name = match std::str::from_utf8(name).ok()? {
            "" => None,
            name if posix::creator_of(name.strip_prefix('/')?).is_some() => Some(name.to_owned()),
            _ => return None,
        };
        Some(Self {
            pid: u32::from_le_bytes(*pid),
            fd: i32::from_le_bytes(*fd),
            device: u64::from_le_bytes(*device),
            inode: u64::from_le_bytes(*inode),
            bytes: u64::from_le_bytes(*bytes),
            posix_name,
        })
    }

    /// Opens `path`, making sure that it is this segment before and after: opening whatever a
    /// stranger has behind that path could block or have effects.
    pub(super) fn open(&self, path: &Path) -> Result<File, ShmError> {
        let failed = |source| self.open_error(path, source);
        self.check(path, &std::fs::metadata(path).map_err(failed)?)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK)
            .open(path)
            .map_err(failed)?;
        self.check(path, &file.metadata().map_err(failed)?)?;
        Ok(file)
    }

    fn check(&self, path: &Path, found: &Metadata) -> Result<(), ShmError> {
        if identity(found) == (self.device, self.inode) && found.size() == self.bytes {
            return Ok(());
        }
        Err(ShmError::AttachOther {
            pid: self.pid,
            path: path.to_owned(),
        })
    }

    fn open_error(&self, path: &Path, source: io::Error) -> ShmError {
        let (pid, path) = (self.pid, path.to_owned());
        match source.kind() {
            io::ErrorKind::PermissionDenied => ShmError::AttachForbidden { pid, path, source },
            io::ErrorKind::NotFound => ShmError::AttachGone { pid, path, source },
            _ => ShmError::Attach { path, source },
        }
    }
}

/// What makes an object the same one.
pub(crate) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
