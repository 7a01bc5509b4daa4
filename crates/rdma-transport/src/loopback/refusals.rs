//! Registrations that modelled rails refuse, as devices do beyond a limit of locked memory.

use super::model::{Model, Rail};

impl Model {
    /// Whether a rail refuses to register `bytes` bytes. If none does, [`Model::give_back`] undoes it.
    pub(super) fn refuses(&self, bytes: usize, private: bool) -> bool {
        let refuses = |rail: &Rail| rail.lock().faults.refuses(bytes as u64, private);
        let refusing = self.rails.iter().position(refuses);
        for rail in &self.rails[..refusing.unwrap_or(0)] {
            rail.lock().faults.give_back(bytes as u64);
        }
        refusing.is_some()
    }

    /// Takes note that `bytes` bytes are no longer registered.
    pub(super) fn give_back(&self, bytes: usize) {
        for rail in &self.rails {
            rail.lock().faults.give_back(bytes as u64);
        }
    }
}
