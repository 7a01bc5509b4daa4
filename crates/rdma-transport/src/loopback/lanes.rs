//! [`Lanes`] of the loopback rails.

use super::LoopbackFabric;
use super::peer::{Failure, Lane};
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::{Breakage, FabricError, LaneId, Lanes};

impl LoopbackFabric {
    fn lane(&self, lane: LaneId) -> Option<(&Lane, u8)> {
        let plane = self.core.rails.get(lane.rail.index())?.plane;
        let peer = self.core.peers.get(lane.peer.index())?;
        Some((&peer.lanes[lane.rail.index()], plane))
    }
}

impl Lanes for LoopbackFabric {
    fn is_immediate(&self) -> bool {
        self.core.model.is_none()
    }

    fn completed(&self, id: LaneId) -> u64 {
        let Some((lane, _)) = self.lane(id) else {
            return 0;
        };
        match self.core.model {
            None => lane.posted.load(Ordering::Acquire),
            Some(_) => lane.completed.load(Ordering::Acquire),
        }
    }

    fn breakage(&self, id: LaneId) -> Option<Breakage> {
        let failure = self.lane(id)?.0.failure()?;
        Some(Breakage {
            refused: (!failure.of_path).then_some(failure.sequence),
            status: failure.status,
        })
    }

    fn end_lane(&self, id: LaneId) {
        let Some((lane, plane)) = self.lane(id) else {
            return;
        };
        lane.fail(Failure {
            sequence: 0,
            status: "ended".into(),
            of_path: true,
        });
        if let Some(model) = &self.core.model {
            model.forget(id);
        }
        self.core.keys.close_gate(id.peer, plane);
    }

    fn renew_lane(&self, id: LaneId) -> Result<u64, FabricError> {
        let (lane, plane) = self.lane(id).ok_or(FabricError::BadPeerData {
            what: "peer or rail",
        })?;
        let posted = lane.posted.load(Ordering::Relaxed);
        lane.completed.store(posted, Ordering::Release);
        Ok(self.core.keys.life(id.peer, plane))
    }

    fn resume_lane(&self, id: LaneId, token: u64) -> Result<(), FabricError> {
        let (lane, _) = self.lane(id).ok_or(FabricError::BadPeerData {
            what: "peer or rail",
        })?;
        lane.resume(token);
        Ok(())
    }
}
