//! Index newtypes. All are 0-based.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The index as `usize`, for use with slices.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

index! {
    /// A process's index in its communicator (MPI's rank).
    Rank(u32)
}
index! {
    /// A (virtual) node: the ranks that share one segment.
    NodeId(u32)
}
index! {
    /// A rank's index within its node; the leader has 0.
    NodeRank(u32)
}
index! {
    /// A rail: the same (device, port) plane on every node.
    RailId(u8)
}
index! {
    /// A remote process in a fabric's peer table; local to one process.
    PeerId(u32)
}

/// Identifies a process for as long as it lives, on all hosts of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Hash of the host's boot identity.
    pub host: u64,
    /// Process number on that host.
    pub pid: u32,
    /// Start time in clock ticks since boot, which tells a reused pid apart.
    pub started: u64,
}

impl ProcessId {
    /// Bytes of [`ProcessId::to_wire`].
    pub const WIRE_BYTES: usize = 20;

    /// Little-endian form for out-of-band exchange.
    pub fn to_wire(self) -> [u8; Self::WIRE_BYTES] {
        let mut wire = [0; Self::WIRE_BYTES];
        wire[..8].copy_from_slice(&self.host.to_le_bytes());
        wire[8..12].copy_from_slice(&self.pid.to_le_bytes());
        wire[12..].copy_from_slice(&self.started.to_le_bytes());
        wire
    }

    /// Inverse of [`ProcessId::to_wire`]; `None` if the length is wrong.
    pub fn from_wire(wire: &[u8]) -> Option<Self> {
        if wire.len() != Self::WIRE_BYTES {
            return None;
        }
        Some(Self {
            host: u64::from_le_bytes(wire[..8].try_into().ok()?),
            pid: u32::from_le_bytes(wire[8..12].try_into().ok()?),
            started: u64::from_le_bytes(wire[12..].try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_id_survives_the_wire() {
        let id = ProcessId {
            host: u64::MAX - 3,
            pid: 77,
            started: 123_456_789_012,
        };
        assert_eq!(ProcessId::from_wire(&id.to_wire()), Some(id));
        assert_eq!(ProcessId::from_wire(&[0; 19]), None);
    }
}
