//! What a session has done.

use crate::config::RAILS_MAX;

/// Counts since the session was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams given to the driver, all kinds.
    pub datagrams_sent: u64,
    /// Datagrams taken from the driver, all kinds.
    pub datagrams_received: u64,
    /// Bytes of payload sent, repetitions included, by rail.
    pub bytes_sent: [u64; RAILS_MAX],
    /// Bytes of payload that were new here.
    pub bytes_received: u64,
    /// Messages opened as source.
    pub messages_sent: u64,
    /// Requests for missing fragments sent, forwarded ones included.
    pub nacks_sent: u64,
    /// Requests for missing fragments received.
    pub nacks_received: u64,
    /// Fragments sent again to all.
    pub multicast_retransmissions: u64,
    /// Fragments sent again to one member.
    pub unicast_retransmissions: u64,
    /// Fragments that came again.
    pub duplicates: u64,
    /// Datagrams whose checksum was wrong.
    pub damaged: u64,
    /// Datagrams of other sessions or with impossible contents.
    pub ignored: u64,
    /// Acknowledgments sent.
    pub acks_sent: u64,
    /// Acknowledgments and progress reports that were repeated.
    pub repeats: u64,
    /// Synchronisations that the manager finished, or of which this member learned.
    pub synchronisations: u64,
    /// Times this member gave up multicast for the tree.
    pub failovers: u64,
    /// Times it returned to multicast.
    pub returns: u64,
    /// Rails that left the striping.
    pub rails_lost: u64,
    /// Rails that came back.
    pub rails_returned: u64,
    /// Datagrams forwarded for others along their trees.
    pub forwarded: u64,
}
