//! What one process tells another so that it can attach.

use super::descriptors::above_standard;
use super::{ShmError, posix};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use zerocopy::{FromBytes, Immutable, IntoBytes};

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

/// What of a handle is as long in all of them.
#[derive(FromBytes, Immutable, IntoBytes)]
#[repr(C)]
struct Fixed {
    pid: u32,
    fd: i32,
    device: u64,
    inode: u64,
    bytes: u64,
}

impl SegmentHandle {
    /// Whether its pages are taken when they are written, and not at once.
    pub fn is_memfd(&self) -> bool {
        self.posix_name.is_none()
    }

    /// Form for out-of-band exchange inside a host.
    pub fn to_wire(&self) -> Vec<u8> {
        let fixed = Fixed {
            pid: self.pid,
            fd: self.fd,
            device: self.device,
            inode: self.inode,
            bytes: self.bytes,
        };
        let name = self.posix_name.as_deref().unwrap_or_default();
        [fixed.as_bytes(), name.as_bytes()].concat()
    }

    /// Inverse of [`SegmentHandle::to_wire`]; `None` if it is not one, in particular if the name
    /// is none of ours.
    pub fn from_wire(wire: &[u8]) -> Option<Self> {
        let (fixed, name) = Fixed::read_from_prefix(wire).ok()?;
        let posix_name = match std::str::from_utf8(name).ok()? {
            "" => None,
            name if posix::creator_of(name.strip_prefix('/')?).is_some() => Some(name.to_owned()),
            _ => return None,
        };
        Some(Self {
            pid: fixed.pid,
            fd: fixed.fd,
            device: fixed.device,
            inode: fixed.inode,
            bytes: fixed.bytes,
            posix_name,
        })
    }

    /// Opens `path`, making sure that it is this segment.
    pub(super) fn open(&self, path: &Path) -> Result<File, ShmError> {
        let is_it = |found: &Metadata| {
            identity(found) == [self.device, self.inode] && found.size() == self.bytes
        };
        let file = open_known(path, OpenOptions::new().read(true).write(true), is_it)
            .map_err(|source| self.open_error(path, source))?;
        file.ok_or_else(|| ShmError::AttachOther {
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

/// What makes an object the same one: its device and inode.
pub(crate) fn identity(metadata: &Metadata) -> [u64; 2] {
    [metadata.dev(), metadata.ino()]
}

/// Opens `path` if that is the object meant. It is looked at before and after: opening whatever a stranger has
/// behind that path could block or have effects.
pub(crate) fn open_known(
    path: &Path,
    options: &mut OpenOptions,
    is_it: impl Fn(&Metadata) -> bool,
) -> io::Result<Option<File>> {
    if !is_it(&std::fs::metadata(path)?) {
        return Ok(None);
    }
    let options = options.custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK);
    let file = above_standard(|| options.open(path))?;
    Ok(is_it(&file.metadata()?).then_some(file))
}
