//! Queue pairs, and the way of reliable connected ones to "ready to send".

use super::completion_queue::CompletionQueue;
use super::error::set_up;
use super::gid::Source;
use super::handles::{Handle, ProtectionDomain, check};
use super::reach::Here;
use super::wake_events::WakeEvents;
use super::wire::RailAddress;
use ferrorail_fabric::FabricError;
use ibverbs_sys as ffi;
use std::io;
use std::sync::Arc;

/// "Receiver not ready" is answered by trying for ever; one-sided operations never cause it.
const RECEIVER_NOT_READY_RETRIES: u8 = 7;
/// Code for 0.64 ms between such tries.
const RECEIVER_NOT_READY_TIMER: u8 = 12;
/// Routers a RoCE packet may pass.
const HOPS_MAX: u8 = 64;
/// Index of the default partition key.
const PARTITION_KEY_INDEX: u16 = 0;

/// What a connected queue pair is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Work requests that may be posted and not yet reclaimed.
    pub work_requests: u32,
    /// Bytes a request may carry inline.
    pub inline_bytes: u32,
}

impl Size {
    fn capacities(self) -> ffi::ibv_qp_cap {
        ffi::ibv_qp_cap {
            max_send_wr: self.work_requests,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: self.inline_bytes,
        }
    }

    /// Memory of the queues of a pair of this size.
    pub fn bytes(self) -> u64 {
        queue_bytes(&self.capacities())
    }
}

/// Memory of the queues of a pair with these capacities: a send request is a control and an address
/// segment of 16 bytes each, then either a segment of 16 bytes per piece of data or the data with 4
/// bytes before it, in whole blocks of 64 bytes; a queue has a power of two of them. So it is with
/// mlx5, and much alike elsewhere; what the device itself keeps, some hundred bytes, is not seen.
fn queue_bytes(capacities: &ffi::ibv_qp_cap) -> u64 {
    let gathered = 16 * u64::from(capacities.max_send_sge);
    let inline = (u64::from(capacities.max_inline_data) + 4).next_multiple_of(16);
    let send = (32 + gathered.max(inline)).next_multiple_of(64);
    let receive = (16 * u64::from(capacities.max_recv_sge)).next_power_of_two();
    send * u64::from(capacities.max_send_wr).next_power_of_two()
        + receive * u64::from(capacities.max_recv_wr).next_power_of_two()
}

/// The local end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// 1-based port.
    pub port: u8,
    /// Its address, if it has one.
    pub source: Option<Source>,
    /// What peers see of it.
    pub here: Here,
    /// Largest packet, as `enum ibv_mtu`.
    pub mtu: u8,
    /// Reads and atomics the device keeps in flight per queue pair.
    pub reads_out: u8,
    /// Reads and atomics it accepts at a time.
    pub reads_in: u8,
    /// See [`timeout_code`].
    pub timeout: u8,
    /// Times a packet is sent again before the lane counts as broken.
    pub retries: u8,
}

/// The code of the time after which an unanswered packet is sent again, 4.096 us * 2^code, such
/// that a lane breaks about `limit_ms` after the first of `retries + 1` (devices may take up to
/// four times as long). Losses inside a stream are noticed sooner, through a negative
/// acknowledgement.
pub fn timeout_code(limit_ms: u64, retries: u8) -> u8 {
    let units = limit_ms.saturating_mul(1_000_000) / (u64::from(retries) + 1) / 4096;
    // Below 2 ms a busy peer would seem gone; 31 is the largest code.
    units.max(1).ilog2().clamp(9, 31) as u8
}

/// A queue pair of either kind: reliable and connected, or for unreliable datagrams.
#[derive(Debug)]
pub struct QueuePair {
    raw: Handle<ffi::ibv_qp>,
    /// What the device has made of those asked for.
    capacities: ffi::ibv_qp_cap,
    _domain: Arc<ProtectionDomain>,
    _completions: [Arc<CompletionQueue>; 2],
    _wake_events: Option<Arc<WakeEvents>>,
}

impl QueuePair {
    /// A reliable connected one; `completions` receives what is signalled, `wake_events` what peers wake with.
    pub fn create(
        domain: &Arc<ProtectionDomain>,
        completions: &Arc<CompletionQueue>,
        wake_events: Option<&Arc<WakeEvents>>,
        size: Size,
    ) -> io::Result<Self> {
        let receives = wake_events.map_or(completions, |wake_events| wake_events.completions());
        let kind = ffi::ibv_qp_type::IBV_QPT_RC;
        Self::create_for(
            domain,
            [completions, receives],
            wake_events,
            (kind, size.capacities()),
        )
    }

    /// `ibv_create_qp`; completions of sends and of receives go to `completions`.
    pub fn create_for(
        domain: &Arc<ProtectionDomain>,
        completions: [&Arc<CompletionQueue>; 2],
        wake_events: Option<&Arc<WakeEvents>>,
        (qp_type, cap): (ffi::ibv_qp_type::Type, ffi::ibv_qp_cap),
    ) -> io::Result<Self> {
        let mut attributes = ffi::ibv_qp_init_attr {
            send_cq: completions[0].as_ptr(),
            recv_cq: completions[1].as_ptr(),
            srq: wake_events.map_or(std::ptr::null_mut(), |wake_events| wake_events.requests()),
            cap,
            qp_type,
            ..Default::default()
        };
        // SAFETY: domain and queues are alive, and outlive the queue pair; the structure is ours.
        let raw = unsafe {
            let raw = ffi::ibv_create_qp(domain.as_ptr(), &raw mut attributes);
            Handle::new(raw, "ibv_destroy_qp", ffi::ibv_destroy_qp)
        }?;
        Ok(Self {
            raw,
            capacities: attributes.cap,
            _domain: Arc::clone(domain),
            _completions: completions.map(Arc::clone),
            _wake_events: wake_events.cloned(),
        })
    }

    /// Bytes a request may carry inline: what was asked for, or more.
    pub fn inline_bytes(&self) -> u32 {
        self.capacities.max_inline_data
    }

    /// Memory of its queues, from the sizes that the device has made of those asked for.
    pub fn bytes(&self) -> u64 {
        queue_bytes(&self.capacities)
    }

    /// The number peers send to; 24 bits.
    pub fn number(&self) -> u32 {
        // SAFETY: the structure lives until the queue pair is destroyed.
        unsafe { (*self.raw.as_ptr()).qp_num }
    }

    /// For posting through `rdma-sys`, which has the inline verbs.
    pub fn as_ptr(&self) -> *mut rdma_sys::ibv_qp {
        self.raw.as_ptr().cast()
    }

    /// `ibv_modify_qp`; `mask` names the attributes that are set.
    pub fn modify(
        &self,
        mut attributes: ffi::ibv_qp_attr,
        mask: ffi::ibv_qp_attr_mask,
    ) -> io::Result<()> {
        // SAFETY: the queue pair is alive and the mask names the fields that were set.
        check(unsafe { ffi::ibv_modify_qp(self.raw.as_ptr(), &raw mut attributes, mask.0 as i32) })
    }

    /// Any state to RESET: the device is then done with everything posted to it, and drops what arrives for it.
    pub fn reset(&self) -> io::Result<()> {
        let attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RESET,
            ..Default::default()
        };
        self.modify(attributes, ffi::ibv_qp_attr_mask::IBV_QP_STATE)
    }

    /// RESET to INIT: bound to a port, with the further `attributes` that `mask` names.
    pub fn bind(
        &self,
        port: u8,
        attributes: ffi::ibv_qp_attr,
        mask: ffi::ibv_qp_attr_mask,
    ) -> io::Result<()> {
        let attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_INIT,
            pkey_index: PARTITION_KEY_INDEX,
            port_num: port,
            ..attributes
        };
        let mask = mask
            | ffi::ibv_qp_attr_mask::IBV_QP_STATE
            | ffi::ibv_qp_attr_mask::IBV_QP_PKEY_INDEX
            | ffi::ibv_qp_attr_mask::IBV_QP_PORT;
        self.modify(attributes, mask)
    }

    /// [`QueuePair::bind`] of a connected one, open to the peer's writes, reads and atomics.
    pub fn initialize(&self, port: u8, object: &str) -> Result<(), FabricError> {
        let attributes = ffi::ibv_qp_attr {
            qp_access_flags: remote_access().0,
            ..Default::default()
        };
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS;
        self.bind(port, attributes, mask)
            .map_err(set_up("ibv_modify_qp(INIT)", object))
    }

    /// INIT to RTR to RTS: connected to `peer`, with the number `first` of the first packet that it sends.
    pub fn connect(
        &self,
        (local, first): (&Local, u32),
        peer: &RailAddress,
        object: &str,
    ) -> Result<(), FabricError> {
        self.ready_to_receive(local, peer)
            .map_err(set_up("ibv_modify_qp(RTR)", object))?;
        self.ready_to_send((local, first), peer)
            .map_err(set_up("ibv_modify_qp(RTS)", object))
    }

    fn ready_to_receive(&self, local: &Local, peer: &RailAddress) -> io::Result<()> {
        let attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTR,
            path_mtu: u32::from(local.mtu.min(peer.mtu)),
            dest_qp_num: peer.queue_pair,
            rq_psn: peer.packet_sequence,
            max_dest_rd_atomic: local.reads_in,
            min_rnr_timer: RECEIVER_NOT_READY_TIMER,
            ah_attr: path(local, peer.address.gid, peer.lid),
            ..Default::default()
        };
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE
            | ffi::ibv_qp_attr_mask::IBV_QP_AV
            | ffi::ibv_qp_attr_mask::IBV_QP_PATH_MTU
            | ffi::ibv_qp_attr_mask::IBV_QP_DEST_QPN
            | ffi::ibv_qp_attr_mask::IBV_QP_RQ_PSN
            | ffi::ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | ffi::ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER;
        self.modify(attributes, mask)
    }

    fn ready_to_send(&self, (local, first): (&Local, u32), peer: &RailAddress) -> io::Result<()> {
        let attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTS,
            sq_psn: first,
            max_rd_atomic: local.reads_out.min(peer.reads_in),
            timeout: local.timeout,
            retry_cnt: local.retries,
            rnr_retry: RECEIVER_NOT_READY_RETRIES,
            ..Default::default()
        };
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE
            | ffi::ibv_qp_attr_mask::IBV_QP_SQ_PSN
            | ffi::ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC
            | ffi::ibv_qp_attr_mask::IBV_QP_TIMEOUT
            | ffi::ibv_qp_attr_mask::IBV_QP_RETRY_CNT
            | ffi::ibv_qp_attr_mask::IBV_QP_RNR_RETRY;
        self.modify(attributes, mask)
    }
}

/// What peers may do with registered memory, and by way of a connected queue pair.
pub fn remote_access() -> ffi::ibv_access_flags {
    ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
        | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
        | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_READ
        | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC
}

/// The way to a peer, or a group: by GID on Ethernet, by LID inside an InfiniBand fabric; routers between
/// fabrics are not supported.
pub fn path(local: &Local, gid: [u8; 16], lid: u16) -> ffi::ibv_ah_attr {
    let mut attributes = ffi::ibv_ah_attr {
        dlid: lid,
        port_num: local.port,
        ..Default::default()
    };
    if let Some(source) = local.source
        && local.here.address.link.is_ethernet()
    {
        attributes.is_global = 1;
        attributes.grh.dgid = ffi::ibv_gid { raw: gid };
        attributes.grh.sgid_index = source.index;
        attributes.grh.hop_limit = HOPS_MAX;
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_as_large_as_their_requests() {
        let size = |work_requests, inline_bytes| Size {
            work_requests,
            inline_bytes,
        };
        assert_eq!(size(256, 64).bytes(), 256 * 128 + 16);
        assert_eq!(size(200, 0).bytes(), 256 * 64 + 16, "a power of two");
    }

    #[test]
    fn timeouts_are_near_the_limit() {
        assert_eq!(timeout_code(4000, 6), 17, "0.5 s, seven times");
        assert_eq!(timeout_code(10, 6), 9);
        assert_eq!(timeout_code(u64::MAX, 1), 31);
    }
}
