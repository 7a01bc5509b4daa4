//! What multicasts came to, for the statistics.

use crate::rows::add_fields;
use ferrorail_multicast::{Counters, RAILS_MAX};
use serde::{Deserialize, Serialize};

/// Multicasts between nodes: sums over all leaders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MulticastRow {
    /// Communicators that have multicasts, counted by each of their leaders.
    pub communicators: u64,
    /// Communicators that wanted them, and whose nodes cannot send each other any; counted by each rank.
    pub refused: u64,
    /// Messages sent.
    pub messages: u64,
    /// Datagrams sent, of all kinds.
    pub datagrams: u64,
    /// Bytes of messages in them, repetitions included.
    pub bytes: u64,
    /// The same by rail, in the order of the rails that carry groups.
    pub rail_bytes: [u64; RAILS_MAX],
    /// Requests for what was missing.
    pub nacks: u64,
    /// Datagrams sent again to all.
    pub multicast_retransmissions: u64,
    /// Datagrams sent again to one node.
    pub unicast_retransmissions: u64,
    /// Datagrams that came again.
    pub duplicates: u64,
    /// Datagrams whose checksum was wrong.
    pub damaged: u64,
    /// Synchronisations that freed channels.
    pub synchronisations: u64,
    /// Times that a root sent along a tree instead, as multicasts did not arrive.
    pub failovers: u64,
    /// Times that it went back to multicast.
    pub returns: u64,
    /// Times that a rail was left out, as its multicasts did not arrive.
    pub rails_lost: u64,
    /// Times that such a rail was used again.
    pub rails_returned: u64,
}

impl MulticastRow {
    /// Adds the counts of others.
    pub(crate) fn add(&mut self, other: &Self) {
        add_fields!(self, other, communicators refused messages datagrams bytes nacks);
        add_fields!(self, other, multicast_retransmissions unicast_retransmissions duplicates damaged);
        add_fields!(self, other, synchronisations failovers returns rails_lost rails_returned);
        for (sum, bytes) in self.rail_bytes.iter_mut().zip(other.rail_bytes) {
            *sum += bytes;
        }
    }

    /// What a session has counted since it had counted `before`.
    pub(super) fn since(before: &Counters, now: &Counters) -> Self {
        let rail_bytes = std::array::from_fn(|rail| now.bytes_sent[rail] - before.bytes_sent[rail]);
        Self {
            messages: now.messages_sent - before.messages_sent,
            datagrams: now.datagrams_sent - before.datagrams_sent,
            bytes: rail_bytes.iter().sum(),
            rail_bytes,
            nacks: now.nacks_sent - before.nacks_sent,
            multicast_retransmissions: now.multicast_retransmissions
                - before.multicast_retransmissions,
            unicast_retransmissions: now.unicast_retransmissions - before.unicast_retransmissions,
            duplicates: now.duplicates - before.duplicates,
            damaged: now.damaged - before.damaged,
            synchronisations: now.synchronisations - before.synchronisations,
            failovers: now.failovers - before.failovers,
            returns: now.returns - before.returns,
            rails_lost: now.rails_lost - before.rails_lost,
            rails_returned: now.rails_returned - before.rails_returned,
            ..Self::default()
        }
    }
}
