//! Operations with the keys of one rail.

use ferrorail_fabric::RemoteSlice;

/// Memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct LocalPart {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub bytes: usize,
    /// Its key on the rail.
    pub lkey: u32,
}

/// Memory of the peer.
#[derive(Clone, Copy, Debug)]
pub struct RemotePart {
    /// First byte in the peer's address space.
    pub address: u64,
    /// Its key on the rail.
    pub rkey: u32,
}

impl RemotePart {
    /// `bytes` bytes of `slice`, by way of `plane`.
    pub fn of(slice: &RemoteSlice<'_>, bytes: usize, plane: usize) -> Self {
        debug_assert!(
            slice.offset as u64 + bytes as u64 <= slice.region.bytes,
            "{bytes} bytes at offset {} leave a region of {}",
            slice.offset,
            slice.region.bytes
        );
        Self {
            address: slice.region.address + slice.offset as u64,
            rkey: slice.region.rkeys[plane],
        }
    }
}

/// An operation, or one work request, by way of a rail.
pub type Request = ferrorail_fabric::Operation<LocalPart, RemotePart>;

/// The same on the first `bytes` bytes, and on the others.
#[inline]
pub fn split(request: &Request, bytes: usize) -> (Request, Request) {
    let Request { local, remote, .. } = *request;
    let first = Request {
        local: LocalPart { bytes, ..local },
        ..*request
    };
    let rest = Request {
        local: LocalPart {
            address: local.address + bytes as u64,
            bytes: local.bytes - bytes,
            ..local
        },
        remote: RemotePart {
            address: remote.address + bytes as u64,
            ..remote
        },
        ..*request
    };
    (first, rest)
}
