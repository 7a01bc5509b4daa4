//! Registered memory for control words: six cache lines for each peer.
//!
//! ```text
//! in       a word per plane, written by the peer
//! out      a word per plane, the source of what is written to the peer
//! landing  a word per plane, where flags of the peer are read to
//! trial    a word per plane, written by the peer to try a lane, or to know whether it delivers
//! probe    a word per plane, the source of what is written there of a lane in use
//! answer   a word per plane, where the peer's trial is read to
//! ```

use ferrorail_base::config::ShmKind;
use ferrorail_base::sync::AtomicU64;
use ferrorail_fabric::{FabricError, LocalRegion, LocalSlice, RAILS_MAX, SharedBacking, Transport};
use ferrorail_shm::Segment;
use std::io;

/// Peers of one control block.
pub(super) const PEERS: usize = 64;

const FIELD_BYTES: usize = 8 * RAILS_MAX;
/// Bytes of a peer's fields.
pub(super) const PEER_BYTES: usize = 6 * FIELD_BYTES;

/// Which field of a peer's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    In = 0,
    Out = 1,
    Landing = 2,
    Trial = 3,
    Probe = 4,
    Answer = 5,
}

/// Offset of a word in a control block whose peer's fields begin at `offset_in_block`.
pub(super) fn offset(offset_in_block: usize, field: Field, plane: u8) -> usize {
    offset_in_block + field as usize * FIELD_BYTES + 8 * usize::from(plane)
}

/// Where the fields of a peer begins in its control block.
pub(super) fn peer_offset(peer: usize) -> usize {
    peer % PEERS * PEER_BYTES
}

/// Control words of up to [`PEERS`] peers.
#[derive(Debug)]
pub(super) struct ControlBlock {
    pub region: LocalRegion,
    segment: Segment,
}

impl ControlBlock {
    pub fn open(transport: &dyn Transport, kind: ShmKind) -> Result<Self, FabricError> {
        let segment =
            Segment::create(kind, PEERS * PEER_BYTES).map_err(|error| FabricError::SetUp {
                verb: "creating control words",
                object: "this process".into(),
                source: io::Error::other(error),
            })?;
        segment.unlink();
        let range = segment.range();
        let backing = SharedBacking::whole(segment.fd(), range.bytes);
        // SAFETY: the segment lives beside the region, which is given back first.
        let region = unsafe { transport.register(range.as_ptr(), range.bytes, Some(backing)) }?;
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
