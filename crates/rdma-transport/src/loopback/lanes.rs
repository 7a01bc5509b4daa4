//! Lanes of the loopback rails: connected, ended and made anew.

use super::faults::Kind;
use super::model::{Model, Rail};
use super::peer::Lane;
use super::refusals::FAULT;
use super::wire::UNMADE;
use super::{Core, LoopbackTransport, set_up};
use ferrorail_base::sync::Ordering;
use ferrorail_base::{PeerId, RailId};
use ferrorail_fabric::{FabricError, LaneId, RAILS_MAX, Transition};

impl LoopbackTransport {
    pub(super) fn known(&self, lane: LaneId) -> Option<(&Lane, u8)> {
        let plane = self.core.attributes.rails.get(lane.rail.index())?.plane;
        let peer = self.core.peers.get(lane.peer.index())?;
        Some((&peer.lanes[lane.rail.index()], plane))
    }

    /// Connects the lanes to a peer whose gates let these lives through, by plane. Where some cannot be
    /// connected at present the others carry.
    pub(super) fn connect_lanes(
        &self,
        peer: PeerId,
        generations: &[u64; RAILS_MAX],
    ) -> Result<(), FabricError> {
        let core = &*self.core;
        let mut left = Vec::new();
        for (index, rail) in core.attributes.rails.iter().enumerate() {
            let generation = generations[usize::from(rail.plane)];
            core.peers[peer.index()].lanes[index].reconnect(generation);
            let apart = |model: &Model| model.keeps_apart(index);
            if generation == UNMADE {
                left.push((index, "the peer could not make its end"));
            } else if core.model.as_ref().is_some_and(apart) {
                left.push((index, FAULT));
            }
        }
        if left.len() == core.attributes.rails.len() {
            let reason = left[0].1.to_owned();
            return Err(FabricError::NoRails { reason });
        }
        for (index, why) in left {
            let rail_plane = core.attributes.rails[index].plane;
            let lane = &core.peers[peer.index()].lanes[index];
            lane.breakage.set(core.breakage(peer, why.into(), None));
            let rail = RailId(index as u8);
            self.end(LaneId { peer, rail }, lane, rail_plane);
        }
        Ok(())
    }

    fn end(&self, id: LaneId, lane: &Lane, plane: u8) {
        let ended = self.core.breakage(id.peer, "ended".into(), None);
        lane.breakage.set(ended);
        if let Some(model) = &self.core.model {
            model.forget(id);
        }
        self.core.keys.close_gate(id.peer, plane);
    }

    pub(super) fn change(&self, id: LaneId, to: Transition) -> Result<u64, FabricError> {
        let (lane, plane) = self.known(id).ok_or(FabricError::BadPeerData {
            what: "peer or rail",
        })?;
        let index = id.rail.index();
        match to {
            Transition::End => self.end(id, lane, plane),
            Transition::Reset => {
                self.refuse("making a lane", index, self.core.is_gone(index))?;
                let posted = lane.posted.load(Ordering::Relaxed);
                lane.completed.store(posted, Ordering::Release);
                return Ok(self.core.keys.generation(id.peer, plane));
            }
            Transition::Connect(token) => {
                let model = self.core.model.as_ref();
                let refuses = model.is_some_and(|model| model.keeps_apart(index));
                self.refuse("connecting a lane", index, refuses)?;
                lane.reconnect(token);
            }
        }
        Ok(0)
    }

    /// Why a lane of rail `index` cannot be made or connected.
    fn refuse(&self, verb: &'static str, index: usize, refuses: bool) -> Result<(), FabricError> {
        let name = || self.core.rail_name(index);
        (!refuses)
            .then_some(())
            .ok_or_else(|| set_up(verb, &name(), FAULT))
    }
}

impl Core {
    /// Rails, as bits, that are unplugged.
    pub(super) fn ports_down(&self) -> u8 {
        let Some(model) = &self.model else {
            return 0;
        };
        let unplugged = |rail: &Rail| rail.queue.lock().fault() == Some(Kind::Unplugged);
        let rails = model.rails.iter().enumerate();
        let down = rails.filter(|(_, rail)| unplugged(rail));
        down.fold(0, |bits, (rail, _)| bits | 1 << rail)
    }

    /// Lives of lanes that the gates for `peer` let through, by plane.
    pub(super) fn generations(&self, peer: PeerId) -> [u64; RAILS_MAX] {
        let mut generations = [0; RAILS_MAX];
        for (index, rail) in self.attributes.rails.iter().enumerate() {
            generations[usize::from(rail.plane)] = match self.is_gone(index) {
                true => UNMADE,
                false => self.keys.generation(peer, rail.plane),
            };
        }
        generations
    }
}
