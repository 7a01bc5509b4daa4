//! What is known of a connected peer.

use ferrorail_base::PeerId;
use ferrorail_fabric::stripe::RailWeights;
use ferrorail_fabric::{RemoteRegion, RemoteSlice};

/// A connected peer on another node.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    /// The fabric's name for its process.
    pub peer: PeerId,
    /// Its node's segment, as registered by it.
    pub segment: RemoteRegion,
    /// What it had registered of that when the two connected, if that was less.
    pub front: Option<RemoteRegion>,
    /// Planes that lead to it, as bits.
    pub planes: u8,
    /// What is known of the rails to it.
    pub rail_weights: RailWeights,
}

impl Link {
    /// What begins at `offset` of its node's segment.
    #[inline]
    pub fn at(&self, offset: usize) -> RemoteSlice<'_> {
        RemoteSlice {
            region: &self.segment,
            offset,
        }
    }
}
