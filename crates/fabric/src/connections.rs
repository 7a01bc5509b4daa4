//! Connections between processes, and what they take.

/// What connects this process with a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Planes that carry, as bits.
    pub planes: u8,
    /// Why others do not though both sides have them: a line each, with both ends and a remedy.
    pub refused: Vec<String>,
}

/// Connections of this process, and what they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Processes connected to.
    pub peers: u64,
    /// Queue pairs made for them; loopback rails have none.
    pub queue_pairs: u64,
    /// Memory for them in bytes: queues, registered words, journals, control words.
    pub bytes: u64,
}

impl Connections {
    /// Both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            peers: self.peers + other.peers,
            queue_pairs: self.queue_pairs + other.queue_pairs,
            bytes: self.bytes + other.bytes,
        }
    }

    /// So many of them.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self {
            peers: self.peers * count,
            queue_pairs: self.queue_pairs * count,
            bytes: self.bytes * count,
        }
    }
}
