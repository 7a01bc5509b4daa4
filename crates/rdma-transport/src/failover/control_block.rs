//! Registered memory for control words: some cache lines for each peer, of a word per plane each.
//!
//! ```text
//! in       written by the peer
//! out      the source of what is written to the peer
//! trial    written by the peer to try a lane, or to know whether it delivers
//! probe    the source of what is written there of a lane in use
//! answer   where the peer's trial is read to
//! landing  (of these several) where flags of the peer are read to
//! ```

use ferrorail_base::config::ShmKind;
use ferrorail_base::sync::AtomicU64;
use ferrorail_fabric::{FabricError, LocalRegion, LocalSlice, RAILS_MAX, SharedBacking, Transport};
use ferrorail_shm::Segment;
use std::io;

/// Peers of one control block.
pub(super) const PEERS: usize = 64;

const FIELD_BYTES: usize = 8 * RAILS_MAX;
/// Flags of a peer that are read at a time.
pub(super) const LANDINGS: usize = 8;
/// Bytes of a peer's fields.
pub(super) const PEER_BYTES: usize = (5 + LANDINGS) * FIELD_BYTES;

/// Which field of a peer's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    In,
    Out,
    Trial,
    Probe,
    Answer,
    /// Below [`LANDINGS`].
    Landing(usize),
}

/// Offset of a word in a control block whose peer's fields begin at `offset_in_block`.
pub(super) fn offset(offset_in_block: usize, field: Field, plane: u8) -> usize {
    let line = match field {
        Field::In => 0,
        Field::Out => 1,
        Field::Trial => 2,
        Field::Probe => 3,
        Field::Answer => 4,
        Field::Landing(index) => 5 + index,
    };
    offset_in_block + line * FIELD_BYTES + 8 * usize::from(plane)
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
