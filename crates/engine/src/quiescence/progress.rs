//! How far a leader is with what is to be known finished.

use ferrorail_fabric::Ticket;
use std::collections::VecDeque;

/// What is under way, at a leader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quiescence {
    /// Operations to be known finished, the one under way first.
    pub(super) requested: VecDeque<u64>,
    /// Of that one.
    pub(super) round: u32,
    /// Whether this round's word is sent.
    pub(super) sent: bool,
    /// By round: the word sent last, unless it is known to have arrived.
    pub(super) arriving: Vec<Option<Ticket>>,
}
