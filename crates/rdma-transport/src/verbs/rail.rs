//! A rail: one port, what belongs to it on this process's side, and its traffic.

use super::choice::{Pick, State};
use super::completion_queue::CompletionQueue;
use super::device::Surveyed;
use super::error::set_up;
use super::handles::{PortAttributes, ProtectionDomain};
use super::order::{self, Landing};
use super::queue_pair::{self, Local, QueuePair, Size};
use super::reach::Here;
use super::retired::Retired;
use super::wake_events::WakeEvents;
use super::wire::RailAddress;
use ferrorail_base::config::Settings;
use ferrorail_base::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};
use ferrorail_fabric::{AtomicScope, FabricError, RailCounters, RailInfo};
use ibverbs_sys as ffi;
use std::io;
use std::sync::Arc;

/// Work requests in flight per lane; more only wait in the device, and memory grows with peers.
const WORK_REQUESTS_MAX: u32 = 256;
/// Room of a rail's completion queue. Even if every work request of every lane completes with an
/// error it does not overrun, because a rail has no more operations in flight than fit.
const COMPLETIONS_MAX: u32 = 16_384;
/// Inline bytes usually asked for: a notification and the smallest messages.
const INLINE_BYTES: u32 = 64;
/// Reads and atomics in flight per queue pair; every device has as many or says so.
const READS_MAX: i32 = 16;

/// What is used at most of what a device offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes inside a work request; devices without inline data have 0.
    pub inline_bytes: u32,
    /// Bytes of one work request.
    pub message_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            inline_bytes: INLINE_BYTES,
            message_bytes: usize::MAX,
        }
    }
}

/// What the device and port allow.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Operations in flight per lane.
    pub lane_operations: u32,
    /// Most work requests of one of them.
    pub requests_per_operation: u32,
    /// Largest write that needs no registered source, in bytes.
    pub inline_bytes: u32,
    /// Largest single work request in bytes.
    pub message_bytes: usize,
    /// Reach of remote atomics.
    pub atomics: AtomicScope,
}

/// Size of queue pairs on a device that bounds neither their number of requests nor inline data.
pub const USUAL_SIZE: Size = Size {
    work_requests: WORK_REQUESTS_MAX,
    inline_bytes: INLINE_BYTES,
};

/// Operations in flight per lane on a device that takes `max_qp_wr` requests per queue pair.
fn lane_operations(max_qp_wr: i32, requests_per_operation: u32) -> u32 {
    WORK_REQUESTS_MAX.min(max_qp_wr.max(0) as u32) / requests_per_operation
}

/// An opened rail.
#[derive(Debug)]
pub struct Rail {
    /// What users see.
    pub info: RailInfo,
    /// What the device and port allow.
    pub limits: Limits,
    /// Local end of connections.
    pub local: Local,
    /// Local identifier of an InfiniBand port.
    pub lid: u16,
    /// Owns this rail's regions and queue pairs.
    pub domain: Arc<ProtectionDomain>,
    /// Where its lanes complete.
    pub completions: Arc<CompletionQueue>,
    /// What wakes sleepers, if the device can.
    pub wake_events: Option<Arc<WakeEvents>>,
    /// Held while polling: completions of a lane are handled in order.
    pub polling: Mutex<()>,
    /// Where reads before flags land, if those keep the order of writes.
    pub landing: Option<Landing>,
    /// What its lanes have ended.
    pub retired: Retired,
    gone: AtomicBool,
    mute: AtomicBool,
    /// Lanes with an operation that there was not room for all of.
    pub unfinished: AtomicU32,
    in_flight: AtomicU32,
    in_flight_max: u32,
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Rail {
    /// Opens a surveyed port, with as much inline data as `bounds` say or none.
    pub fn open(
        surveyed: &Surveyed,
        pick: Pick,
        settings: &Settings,
        bounds: Bounds,
    ) -> Result<Self, FabricError> {
        let port = &surveyed.port;
        let name = port.name();
        let (Some(context), Some(here)) = (&surveyed.context, surveyed.here) else {
            let reason = match &port.state {
                State::Unusable(reason) => reason.clone(),
                State::Active => "it has no address".to_owned(),
            };
            return Err(set_up("opening", &name)(io::Error::other(reason)));
        };
        let device = context
            .device_attributes()
            .map_err(set_up("ibv_query_device", &name))?;
        let attributes = context
            .port_attributes(port.number)
            .map_err(set_up("ibv_query_port", &name))?;
        let domain = ProtectionDomain::allocate(context).map_err(set_up("ibv_alloc_pd", &name))?;
        let domain = Arc::new(domain);
        let room = COMPLETIONS_MAX.min(device.max_cqe.max(0) as u32);
        let completions = CompletionQueue::create(context, room);
        let completions = Arc::new(completions.map_err(set_up("ibv_create_cq", &name))?);
        let requests_per_operation = order::requests_per_operation(settings.write_order);
        let lane_operations = lane_operations(device.max_qp_wr, requests_per_operation);
        let landing = Landing::of(settings.write_order, &domain);
        let landing = landing.map_err(set_up("ibv_reg_mr", &name))?;
        let wake_events = WakeEvents::create(context, &domain)
            .inspect_err(|error| tracing::debug!("rail {name} wakes nobody: {error}"));
        let wake_events = wake_events.ok().map(Arc::new);
        let ends = (&completions, wake_events.as_ref());
        let size = Size {
            work_requests: lane_operations * requests_per_operation,
            inline_bytes: bounds.inline_bytes,
        };
        let inline_bytes =
            probe_inline(&domain, ends, size).map_err(set_up("ibv_create_qp", &name))?;

        Ok(Self {
            info: info(surveyed, pick),
            limits: Limits {
                lane_operations,
                requests_per_operation,
                inline_bytes,
                message_bytes: bounds.message_bytes.min(attributes.max_msg_sz as usize),
                atomics: match device.atomic_cap {
                    ffi::IBV_ATOMIC_NONE => AtomicScope::None,
                    ffi::IBV_ATOMIC_HCA => AtomicScope::Rail,
                    _ => AtomicScope::Global,
                },
            },
            local: local(surveyed, here, (&device, &attributes), settings),
            lid: attributes.lid,
            domain,
            completions,
            wake_events,
            polling: Mutex::new(()),
            landing,
            retired: Retired::default(),
            gone: AtomicBool::new(false),
            mute: AtomicBool::new(false),
            unfinished: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            in_flight_max: room / requests_per_operation,
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        })
    }

    /// Whether its device has been found gone. It is for good: not all memory has a key there.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Takes note that its device is gone, of which `error` tells.
    pub fn lose(&self, error: &io::Error) {
        if !self.gone.swap(true, Ordering::Relaxed) {
            tracing::warn!("rail {} is not used any more: {error}", self.info.name);
        }
    }

    /// Whether its completions could not be polled, and are not asked for any more.
    #[inline]
    pub fn is_mute(&self) -> bool {
        self.mute.load(Ordering::Relaxed)
    }

    /// Takes note that its completions cannot be polled, of which `error` tells: it is lost as well.
    pub fn mute(&self, error: &io::Error) {
        self.mute.store(true, Ordering::Relaxed);
        self.lose(error);
    }

    /// Its end of a connection whose queue pair is not made yet.
    pub fn own_address(&self) -> RailAddress {
        RailAddress {
            plane: self.info.plane,
            mtu: self.local.mtu,
            reads_in: self.local.reads_in,
            lid: self.lid,
            queue_pair: 0,
            packet_sequence: 0,
            address: self.local.here.address,
        }
    }

    /// Size of its queue pairs.
    pub fn queue_pair_size(&self) -> Size {
        Size {
            work_requests: self.limits.lane_operations * self.limits.requests_per_operation,
            inline_bytes: self.limits.inline_bytes,
        }
    }

    /// Takes room for an operation in the completion queue, if there is.
    pub fn reserve(&self) -> bool {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if before < self.in_flight_max {
            return true;
        }
        self.release(1);
        false
    }

    /// Gives room back.
    pub fn release(&self, operations: u32) {
        self.in_flight.fetch_sub(operations, Ordering::Relaxed);
    }

    /// Whether silent operations should be signalled too, so that the room that lanes hold without
    /// a completion on its way never exceeds a part of the whole.
    pub fn is_crowded(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > self.in_flight_max / 4
    }

    /// Counts a posted message.
    pub fn count(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Messages and bytes so far.
    pub fn counters(&self) -> RailCounters {
        RailCounters {
            messages: self.messages.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            ..RailCounters::default()
        }
    }
}

/// Makes a queue pair as lanes will have it, and destroys it: no attribute tells how many inline
/// bytes a device takes, and some refuse to make one when asked for too many.
fn probe_inline(
    domain: &Arc<ProtectionDomain>,
    (completions, wake_events): (&Arc<CompletionQueue>, Option<&Arc<WakeEvents>>),
    size: Size,
) -> io::Result<u32> {
    let create = |inline_bytes| {
        let size = Size {
            inline_bytes,
            ..size
        };
        QueuePair::create(domain, completions, wake_events, size).map(|_| inline_bytes)
    };
    create(size.inline_bytes).or_else(|_| create(0))
}

/// This end of a port's connections.
fn local(
    surveyed: &Surveyed,
    here: Here,
    (device, attributes): (&ffi::ibv_device_attr, &PortAttributes),
    settings: &Settings,
) -> Local {
    Local {
        port: surveyed.port.number,
        source: surveyed.source,
        here,
        mtu: attributes.active_mtu as u8,
        reads_out: device.max_qp_init_rd_atom.clamp(1, READS_MAX) as u8,
        reads_in: device.max_qp_rd_atom.clamp(1, READS_MAX) as u8,
        timeout: queue_pair::timeout_code(settings.rail_timeout_ms, settings.rail_retries),
        retries: settings.rail_retries,
    }
}

fn info(surveyed: &Surveyed, pick: Pick) -> RailInfo {
    let port = &surveyed.port;
    RailInfo {
        name: port.name(),
        device: port.device.clone(),
        port: port.number,
        plane: pick.plane,
        address: address(
            port.address
                .map_or([0; 16], |port_address| port_address.gid),
            port.lid,
        ),
        bandwidth_mb_s: pick.bandwidth_mb_s,
        mtu_bytes: port.mtu_bytes,
        numa_node: port.numa_node,
    }
}

/// An address for people: the GID, or the LID where there is none.
pub fn address(gid: [u8; 16], lid: u16) -> String {
    if gid == [0; 16] {
        return format!("lid {lid}");
    }
    std::net::Ipv6Addr::from(gid).to_string()
}

/// Opens what was picked; `refused` gains a line for each port that cannot be opened.
pub fn open_all(
    surveyed: &[Surveyed],
    picks: &[Pick],
    settings: &Settings,
    bounds: Bounds,
    refused: &mut Vec<String>,
) -> Vec<Rail> {
    let mut rails = Vec::with_capacity(picks.len());
    for &pick in picks {
        let port = &surveyed[pick.port];
        match Rail::open(port, pick, settings, bounds) {
            Ok(rail) => {
                let info = &rail.info;
                tracing::debug!("rail {} from {}", info.name, info.address);
                rails.push(rail);
            }
            Err(error) => refused.push(format!("rail {} is not used: {error}", port.port.name())),
        }
    }
    rails
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_base::config::WriteOrder;

    #[test]
    fn the_reads_before_flags_take_room_in_queues() {
        let operations = |max_qp_wr, order| {
            let per_operation = order::requests_per_operation(order);
            let operations = lane_operations(max_qp_wr, per_operation);
            assert!(operations * per_operation <= max_qp_wr as u32);
            operations
        };
        assert_eq!(operations(1 << 15, WriteOrder::Device), 128);
        assert_eq!(operations(1 << 15, WriteOrder::Read), 85);
        assert_eq!(operations(100, WriteOrder::Device), 50);
        assert_eq!(operations(100, WriteOrder::Read), 33);
    }
}
