//! Registered memory, here and at a peer.

use ferrorail_base::memory::MemoryRange;

/// Most rails one process uses.
pub const RAILS_MAX: usize = 8;

/// The shared object behind some memory: file descriptor `fd` of process `pid` on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBacking {
    /// Process that holds the descriptor open for as long as the memory is registered.
    pub pid: u32,
    /// Its descriptor number.
    pub fd: i32,
    /// Offset of the memory's first byte in the object; page aligned.
    pub offset: u64,
    /// Length of the whole object in bytes.
    pub object_bytes: u64,
}

impl SharedBacking {
    /// All of an object of `bytes` bytes that this process has open as `fd`.
    #[must_use]
    pub fn whole(fd: i32, bytes: usize) -> Self {
        Self {
            pid: std::process::id(),
            fd,
            offset: 0,
            object_bytes: bytes as u64,
        }
    }
}

/// Memory of this process, registered on every rail that works. Not `Clone`: it is given back exactly once.
#[derive(Debug, PartialEq, Eq)]
pub struct LocalRegion {
    /// The memory.
    pub range: MemoryRange,
    /// Key for local use, per rail; 0 where it is not registered.
    pub lkeys: [u32; RAILS_MAX],
    /// Key for peers, per rail; 0 where it is not registered.
    pub rkeys: [u32; RAILS_MAX],
    /// Shared object behind it, if any.
    pub backing: Option<SharedBacking>,
    /// The transport's own handle.
    pub handle: u64,
    /// What peers need to import it, for the set-up exchange.
    pub description: Vec<u8>,
}

/// Memory of a peer. Plain data: an announcement in scratch carries it as [`RemoteRegion::to_wire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRegion {
    /// First byte in the peer's address space.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Key per rail.
    pub rkeys: [u32; RAILS_MAX],
    /// Where this process has mapped it, 0 if it has not. Never travels.
    pub mapping: usize,
}

impl RemoteRegion {
    /// Bytes of [`RemoteRegion::to_wire`].
    pub const WIRE_BYTES: usize = 16 + 4 * RAILS_MAX;

    /// How the owner announces memory it registered.
    pub fn of(region: &LocalRegion) -> Self {
        Self {
            address: region.range.address as u64,
            bytes: region.range.bytes as u64,
            rkeys: region.rkeys,
            mapping: 0,
        }
    }

    /// Little-endian form, without the mapping.
    pub fn to_wire(&self) -> [u8; Self::WIRE_BYTES] {
        let mut wire = [0; Self::WIRE_BYTES];
        wire[..8].copy_from_slice(&self.address.to_le_bytes());
        wire[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        for (bytes, key) in wire[16..].chunks_exact_mut(4).zip(self.rkeys) {
            bytes.copy_from_slice(&key.to_le_bytes());
        }
        wire
    }

    /// Inverse of [`RemoteRegion::to_wire`].
    pub fn from_wire(wire: &[u8; Self::WIRE_BYTES]) -> Self {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&wire[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let mut rkeys = [0; RAILS_MAX];
        for (key, bytes) in rkeys.iter_mut().zip(wire[16..].chunks_exact(4)) {
            *key = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Self {
            address: word(0),
            bytes: word(8),
            rkeys,
            mapping: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_survive_the_wire() {
        let region = RemoteRegion {
            address: 0x7f00_1234_5678,
            bytes: 1 << 33,
            rkeys: [1, 2, 3, 4, 5, 6, 7, u32::MAX],
            mapping: 0,
        };
        assert_eq!(RemoteRegion::from_wire(&region.to_wire()), region);
    }
}
