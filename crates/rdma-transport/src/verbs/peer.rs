//! A process we talk to: one lane per rail.

use super::error::reason;
use super::lane::Lane;
use super::rail::{Rail, address};
use super::route;
use super::wire::{self, ProcessAddress, RailAddress};
use ferrorail_base::sync::Mutex;
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{Connections, FabricError, LaneId, Reach};
use std::sync::OnceLock;

/// An entry of the peer table.
#[derive(Debug)]
pub struct Peer {
    id: PeerId,
    name: String,
    lanes: OnceLock<Box<[Lane]>>,
    /// What connecting came to.
    reach: OnceLock<Reach>,
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
            reach: OnceLock::new(),
            set_up: Mutex::new(()),
        }
    }

    /// The lane on the rail with that index, once there is one.
    #[inline]
    pub fn lane(&self, rail: usize) -> Option<&Lane> {
        self.lanes.get()?.get(rail)
    }

    /// The lanes, made if need be; the caller holds `set_up`. Where some cannot be made the others
    /// carry.
    fn lanes(&self, rails: &[Rail]) -> Result<&[Lane], FabricError> {
        if self.lanes.get().is_none() {
            let mut failures = Vec::new();
            let mut create = |(index, rail)| {
                let id = LaneId {
                    peer: self.id,
                    rail: RailId(index as u8),
                };
                let lane = Lane::new(rail, id, &self.name);
                if let Err(error) = lane.renew(rail) {
                    lane.fail(reason(&error), None);
                    failures.push(error);
                }
                lane
            };
            let lanes: Box<[Lane]> = rails.iter().enumerate().map(&mut create).collect();
            if failures.len() == lanes.len()
                && let Some(error) = failures.pop()
            {
                return Err(error);
            }
            self.lanes.get_or_init(|| lanes);
        }
        Ok(self.lanes.get().map_or(&[], |lanes| lanes))
    }

    /// What it takes.
    pub fn connections(&self) -> Connections {
        let lanes = self.lanes.get().map_or(&[][..], |lanes| lanes);
        let sizes = lanes.iter().filter_map(Lane::bytes);
        let none = Connections {
            peers: u64::from(self.reach.get().is_some()),
            ..Connections::default()
        };
        sizes.fold(none, |sum, bytes| Connections {
            queue_pairs: sum.queue_pairs + 1,
            bytes: sum.bytes + bytes,
            ..sum
        })
    }

    /// What the peer connects to.
    pub fn address(&self, rails: &[Rail]) -> Result<Vec<u8>, FabricError> {
        let _guard = self.set_up.lock();
        let lanes = self.lanes(rails)?.iter();
        let addresses = lanes.zip(rails).map(|(lane, rail)| lane.address(rail));
        Ok(wire::pack(&process_address(rails, addresses)))
    }

    /// Connects every plane that both sides have and that leads from one to the other. Where some
    /// cannot be connected at present the others carry.
    pub fn connect(&self, rails: &[Rail], address: &[u8]) -> Result<Reach, FabricError> {
        let theirs = wire::unpack(address)?;
        let _guard = self.set_up.lock();
        let known = self.reach.get();
        let reach = known.map_or_else(|| could_reach(rails, &theirs), Reach::clone);
        let (mut connected, mut failed) = (false, Vec::new());
        for (lane, rail) in self.lanes(rails)?.iter().zip(rails) {
            let plane = rail.info.plane;
            let remote = theirs
                .rails
                .iter()
                .find(|(remote, _)| remote.plane == plane);
            let Some((remote, name)) = remote.filter(|_| reach.planes & 1 << plane != 0) else {
                continue;
            };
            match lane.connect(remote) {
                Ok(()) => connected = true,
                Err(error) if known.is_some() => return Err(error),
                Err(error) => failed.push((lane, rail, (remote, name.as_str()), reason(&error))),
            }
        }
        if !connected {
            let lines = failed.iter().map(|(_, rail, remote, why)| {
                let remedy = "see whether these addresses reach each other";
                refusal(rail, *remote, &theirs.host, why, remedy)
            });
            let lines: Vec<String> = reach.refused.into_iter().chain(lines).collect();
            let reason = match lines.is_empty() {
                true => format!("{} has rails, but none in common with this one", self.name),
                false => lines.join("; "),
            };
            return Err(FabricError::NoRails { reason });
        }
        for (lane, rail, (remote, _), why) in failed {
            lane.leave(rail, remote, why);
        }
        Ok(self.reach.get_or_init(|| reach).clone())
    }
}

/// The addresses of `rails` as peers are told of them, given the address of each rail.
pub fn process_address(
    rails: &[Rail],
    address: impl Iterator<Item = RailAddress>,
) -> ProcessAddress {
    let named = address.zip(rails.iter().map(|rail| rail.info.name.clone()));
    ProcessAddress {
        host: ferrorail_shm::host_name(),
        rails: named.collect(),
    }
}

/// Which planes lead to `theirs`, as far as this side can tell.
pub fn could_reach(rails: &[Rail], theirs: &ProcessAddress) -> Reach {
    let mut reach = Reach::default();
    for rail in rails {
        let mut addresses = theirs.rails.iter();
        let Some((remote, name)) = addresses.find(|(remote, _)| remote.plane == rail.info.plane)
        else {
            continue;
        };
        match rail.local.here.obstacle(&remote.address, route::leads) {
            None => reach.planes |= 1 << remote.plane,
            Some(obstacle) => {
                let (why, remedy) = obstacle.words();
                let line = refusal(rail, (remote, name), &theirs.host, why, remedy);
                reach.refused.push(line);
            }
        }
    }
    reach
}

/// The line that says why a plane is not used between two addresses.
fn refusal(
    rail: &Rail,
    (remote, name): (&RailAddress, &str),
    host: &str,
    why: &str,
    remedy: &str,
) -> String {
    format!(
        "rail {} of {} ({}, {}) and rail {name} of {host} ({}, {}) are not used together: {why}; \
         {remedy}",
        rail.info.name,
        ferrorail_shm::host_name(),
        rail.local.here.address.link,
        rail.info.address,
        remote.address.link,
        address(remote.address.gid, remote.lid),
    )
}
