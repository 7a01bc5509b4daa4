//! One rank of a window as seen from another.

use super::WindowError;
use super::shape::Shape;
use ferrorail_base::runs::Piece;
use ferrorail_base::{PeerId, Rank};
use ferrorail_fabric::{RemoteRegion, RemoteSlice};
use ferrorail_shm::Cma;

/// A rank that is reached over rails.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The fabric's name for its process.
    pub peer: PeerId,
    /// The segment of its node, as registered by it.
    pub segment: RemoteRegion,
    /// Offset of its control block there.
    pub control: usize,
    /// Offset of its operand buffers there (see [`layout`](super::layout)).
    pub operand_buffers: usize,
}

impl Link {
    /// What begins at `offset` of its control block.
    pub(super) const fn control(&self, offset: usize) -> RemoteSlice<'_> {
        RemoteSlice {
            region: &self.segment,
            offset: self.control + offset,
        }
    }
}

/// How a target's memory is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// It is mapped here, at this address.
    Mapped(usize),
    /// Private memory of a process of this host, at this address there.
    Attach {
        /// The process.
        process: Cma,
        /// First byte in its address space.
        address: u64,
    },
    /// Registered memory of a rank on another node.
    Rails {
        /// What holds it.
        region: RemoteRegion,
        /// First byte, relative to the region.
        offset: usize,
    },
    /// Whatever a rank on another node has attached.
    Attached,
}

/// What is known of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Length of its memory in bytes.
    pub bytes: u64,
    /// Bytes by which its displacements count.
    pub unit: u64,
    /// Its memory.
    pub memory: Memory,
    /// Offset of its control block in this node's segment, if it is of this node.
    pub control: Option<usize>,
    /// How it is reached over rails, if atomics on its words go there.
    pub link: Option<Link>,
    /// Offset of its memory in the segment of its node, if elements of eight bytes are accumulated one
    /// at a time. At all ranks or none; of no use without rails.
    pub elements: Option<usize>,
}

impl Target {
    /// First byte, from the window's base, of what is `displacement` units from there, if `shape`
    /// lies inside from that on.
    ///
    /// # Errors
    /// [`WindowError::Displacement`], [`WindowError::Range`].
    #[inline]
    pub(super) fn place(
        &self,
        rank: Rank,
        displacement: i64,
        shape: &Shape<'_>,
    ) -> Result<isize, WindowError> {
        let Ok(units) = u64::try_from(displacement) else {
            return Err(WindowError::Displacement(displacement));
        };
        if let Shape::Dense(Piece { offset: 0, bytes }) = *shape
            && let Some(base) = units.checked_mul(self.unit)
            && let Some(left) = self.bytes.checked_sub(base)
            && bytes as u64 <= left
        {
            return Ok(base as isize);
        }
        let base = i128::from(units) * i128::from(self.unit);
        let Some((low, high)) = shape.bounds() else {
            return Ok(0);
        };
        let (low, high) = (base + low, base + high);
        if low < 0 || high > i128::from(self.bytes) {
            return Err(WindowError::Range {
                rank: rank.0,
                low,
                high,
                bytes: self.bytes,
            });
        }
        // Bounds lie inside, though the base itself may not.
        Ok(base as isize)
    }
}
