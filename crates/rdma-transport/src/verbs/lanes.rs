//! [`Lanes`] of the verbs fabric: queue pairs destroyed and made anew.

use super::fabric::VerbsFabric;
use ferrorail_fabric::{Breakage, FabricError, LaneId, Lanes};
use std::os::fd::BorrowedFd;

impl Lanes for VerbsFabric {
    fn is_immediate(&self) -> bool {
        false
    }

    fn completed(&self, lane: LaneId) -> u64 {
        self.lane(lane.peer, lane.rail)
            .map_or(0, |(_, lane)| lane.completed())
    }

    fn breakage(&self, lane: LaneId) -> Option<Breakage> {
        let (_, lane) = self.lane(lane.peer, lane.rail).ok()?;
        lane.breakage()
    }

    fn end_lane(&self, lane: LaneId) {
        if let Ok((rail, lane)) = self.lane(lane.peer, lane.rail) {
            lane.end(rail);
        }
    }

    fn reset_lane(&self, lane: LaneId) -> Result<u64, FabricError> {
        let (rail, lane) = self.lane(lane.peer, lane.rail)?;
        lane.renew(rail)
    }

    fn reconnect_lane(&self, lane: LaneId, token: u64) -> Result<(), FabricError> {
        let (_, lane) = self.lane(lane.peer, lane.rail)?;
        lane.reconnect(token)
    }

    fn event_descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.events().descriptors()
    }

    fn ports_down(&self) -> u8 {
        self.events().down()
    }
}
