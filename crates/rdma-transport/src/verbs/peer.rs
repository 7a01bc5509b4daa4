//! A process we talk to: one lane per rail.

use super::lane::Lane;
use super::rail::Rail;
use super::wire::{self, RailAddress};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{FabricError, LaneId};
use std::sync::{Mutex, OnceLock, PoisonError};

/// An entry of the peer table.
#[derive(Debug)]
pub struct Peer {
    id: PeerId,
    name: String,
    lanes: OnceLock<Box<[Lane]>>,
    /// Held while lanes are made or connected.
    set_up: Mutex<()>,
}

impl Peer {
    /// An entry without lanes.
    pub fn new(id: PeerId, process: ProcessId) -> Self {
        Self {
            id,
            name: format!("process {} on host {:016x}", process.pid, process.host),
            lanes: OnceLock::new(),
            set_up: Mutex::new(()),
        }
    }

    /// The lane on the rail with that index, once there is one.
    #[inline]
    pub fn lane(&self, rail: usize) -> Option<&Lane> {
        self.lanes.get()?.get(rail)
    }

    /// The lanes, made if need be; the caller holds `set_up`.
    fn lanes(&self, rails: &[Rail]) -> Result<&[Lane], FabricError> {
        if self.lanes.get().is_none() {
            let create = |(index, rail)| {
                let lane = LaneId {
                    peer: self.id,
                    rail: RailId(index as u8),
                };
                Lane::create(rail, lane, &self.name)
            };
            let lanes = rails.iter().enumerate().map(create);
            let lanes = lanes.collect::<Result<_, _>>()?;
            self.lanes.get_or_init(|| lanes);
        }
        Ok(self.lanes.get().map_or(&[], |lanes| lanes))
    }

    /// What the peer connects to.
    pub fn address(&self, rails: &[Rail]) -> Result<Vec<u8>, FabricError> {
        let _guard = self.set_up.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes = self.lanes(rails)?.iter().zip(rails);
        let addresses: Vec<RailAddress> = lanes
            .map(|(lane, rail)| lane.address(rail.info.plane))
            .collect();
        Ok(wire::pack(&addresses))
    }

    /// Connects every plane that both sides have.
    pub fn connect(&self, rails: &[Rail], address: &[u8]) -> Result<(), FabricError> {
        let addresses = wire::unpack(address)?;
        let _guard = self.set_up.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connected = 0;
        for (lane, rail) in self.lanes(rails)?.iter().zip(rails) {
            let plane = rail.info.plane;
            if let Some(theirs) = addresses.iter().find(|theirs| theirs.plane == plane) {
                lane.connect(theirs)?;
                connected += 1;
            }
        }
        if connected == 0 {
            let reason = format!("{} has rails, but none in common with this one", self.name);
            return Err(FabricError::NoRails { reason });
        }
        Ok(())
    }
}
