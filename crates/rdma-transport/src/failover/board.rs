//! Registered memory for control words: four cache lines for each peer.
//!
//! ```text
//! in       a word per plane, written by the peer
//! out      a word per plane, the source of what is written to the peer
//! landing  a word per plane, where flags of the peer are read to
//! trial    a word per plane, written by the peer to try a lane
//! ```

use ferrorail_base::config::ShmKind;
use ferrorail_base::sync::AtomicU64;
use ferrorail_fabric::{Fabric, FabricError, LocalRegion, LocalSlice, RAILS_MAX, SharedBacking};
use ferrorail_shm::Segment;
use std::io;

/// Peers of one board.
pub(super) const PEERS: usize = 64;

const LINE: usize = 8 * RAILS_MAX;
/// Bytes of a peer's cell.
pub(super) const CELL: usize = 4 * LINE;

/// Which line of a peer's cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    In = 0,
    Out = 1,
    Landing = 2,
    Trial = 3,
}

/// Offset of a word in a board whose peer's cell begins at `cell`.
pub(super) fn offset(cell: usize, line: Line, plane: u8) -> usize {
    cell + line as usize * LINE + 8 * usize::from(plane)
}

/// Where the cell of a peer begins in its board.
pub(super) fn cell(peer: usize) -> usize {
    peer % PEERS * CELL
}

/// Control words of up to [`PEERS`] peers.
#[derive(Debug)]
pub(super) struct Board {
    pub region: LocalRegion,
    segment: Segment,
}

impl Board {
    pub fn open<F: Fabric>(fabric: &F, kind: ShmKind) -> Result<Self, FabricError> {
        let segment = Segment::create(kind, PEERS * CELL).map_err(|error| FabricError::SetUp {
            verb: "creating control words",
            object: "this process".into(),
            source: io::Error::other(error),
        })?;
        segment.unlink();
        let range = segment.range();
        let backing = SharedBacking::whole(segment.fd(), range.bytes);
        // SAFETY: the segment lives beside the region, which is given back first.
        let region = unsafe { fabric.register(range.as_ptr(), range.bytes, Some(backing)) }?;
        Ok(Self { region, segment })
    }

    pub fn word(&self, offset: usize) -> &AtomicU64 {
        self.segment.word(offset)
    }

    /// `bytes` bytes from `offset`, as a source or destination.
    pub fn slice(&self, offset: usize, bytes: usize) -> LocalSlice<'_> {
        LocalSlice {
            region: &self.region,
            offset,
            bytes,
        }
    }
}
