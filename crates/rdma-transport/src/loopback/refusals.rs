//! What modelled rails refuse: registrations, as devices do beyond a limit of locked memory, and lanes,
//! where a card was pulled or a link is down.

use super::model::{Model, Rail};

/// Who is to blame.
pub(super) const FAULT: &str = "FERRORAIL_LOOPBACK_FAULTS has it refused";

impl Model {
    /// Whether the card of rail `index` was pulled.
    pub(super) fn is_gone(&self, index: usize) -> bool {
        let queue = self.rails[index].queue.lock();
        queue.faults.is_gone(queue.posted)
    }

    /// Whether a lane on rail `index` cannot be connected this time.
    pub(super) fn keeps_apart(&self, index: usize) -> bool {
        self.is_gone(index) || self.rails[index].queue.lock().faults.keep_apart()
    }

    /// Whether a rail refuses to register `bytes` bytes. If none does, [`Model::give_back`] undoes it.
    pub(super) fn refuses(&self, bytes: usize, private: bool) -> bool {
        let refuses = |rail: &Rail| rail.queue.lock().faults.refuses(bytes as u64, private);
        let refusing = self.rails.iter().position(refuses);
        for rail in &self.rails[..refusing.unwrap_or(0)] {
            rail.queue.lock().faults.give_back(bytes as u64);
        }
        refusing.is_some()
    }

    /// Takes note that `bytes` bytes are no longer registered.
    pub(super) fn give_back(&self, bytes: usize) {
        for rail in &self.rails {
            rail.queue.lock().faults.give_back(bytes as u64);
        }
    }
}
