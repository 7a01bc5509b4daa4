//! Groups have no failover: who uses them expects losses. Each rail carries its own.

use super::Failover;
use ferrorail_base::RailId;
use ferrorail_fabric::multicast::DatagramLimits;
use ferrorail_fabric::{Group, GroupId, Lanes, Multicast, MulticastError};

impl<F: Lanes + Multicast> Multicast for Failover<F> {
    fn multicast_rails(&self) -> Vec<Result<DatagramLimits, MulticastError>> {
        self.inner.multicast_rails()
    }

    fn join(
        &self,
        rail: RailId,
        group: GroupId,
        depth: u32,
    ) -> Result<Box<dyn Group>, MulticastError> {
        self.inner.join(rail, group, depth)
    }
}
