//! Unreliable datagram queue pairs, and the addresses that they send to.

use super::super::completion_queue::CompletionQueue;
use super::super::handles::{Handle, ProtectionDomain, check};
use super::super::queue_pair::QueuePair;
use ibverbs_sys as ffi;
use std::io;
use std::sync::Arc;

/// How many work requests it takes, and how long those with their data inside may be.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Sends that may be posted and not completed.
    pub sends: u32,
    /// Receives that may be posted.
    pub receives: u32,
    /// Bytes that a send may carry inside the request.
    pub inline_bytes: u32,
}

impl QueuePair {
    /// One for unreliable datagrams, with inline data if the device has any.
    pub fn for_datagrams(
        domain: &Arc<ProtectionDomain>,
        completions: [&Arc<CompletionQueue>; 2],
        size: Size,
    ) -> io::Result<Self> {
        let create = |max_inline_data| {
            let capacities = ffi::ibv_qp_cap {
                max_send_wr: size.sends,
                max_recv_wr: size.receives,
                // A header and registered memory.
                max_send_sge: 2,
                max_recv_sge: 1,
                max_inline_data,
            };
            let kind = ffi::ibv_qp_type::IBV_QPT_UD;
            Self::create_for(domain, completions, None, (kind, capacities))
        };
        // Some devices refuse more inline data than they have instead of giving what they can.
        create(size.inline_bytes).or_else(|_| create(0))
    }

    /// RESET to INIT, where receives may be posted; datagrams with another Q_Key are dropped.
    pub fn bind_datagrams(&self, port: u8, q_key: u32) -> io::Result<()> {
        let attributes = ffi::ibv_qp_attr {
            qkey: q_key,
            ..Default::default()
        };
        self.bind(port, attributes, ffi::ibv_qp_attr_mask::IBV_QP_QKEY)
    }

    /// INIT to RTR to RTS: datagrams come and go.
    pub fn activate_datagrams(&self) -> io::Result<()> {
        let mut attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTR,
            ..Default::default()
        };
        self.modify(attributes, ffi::ibv_qp_attr_mask::IBV_QP_STATE)?;
        attributes.qp_state = ffi::ibv_qp_state::IBV_QPS_RTS;
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE | ffi::ibv_qp_attr_mask::IBV_QP_SQ_PSN;
        self.modify(attributes, mask)
    }
}

/// A queue pair's place in a multicast group of its device.
pub struct Attachment {
    queue_pair: Arc<QueuePair>,
    mgid: ffi::ibv_gid,
    lid: u16,
}

impl Attachment {
    /// `ibv_attach_mcast`; `lid` is 0 on Ethernet.
    pub fn attach(queue_pair: &Arc<QueuePair>, mgid: [u8; 16], lid: u16) -> io::Result<Self> {
        let mgid = ffi::ibv_gid { raw: mgid };
        let raw = queue_pair.as_ptr().cast();
        // SAFETY: the queue pair is alive; the GID is read during the call.
        check(unsafe { ffi::ibv_attach_mcast(raw, &raw const mgid, lid) })?;
        let queue_pair = Arc::clone(queue_pair);
        Ok(Self {
            queue_pair,
            mgid,
            lid,
        })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let raw = self.queue_pair.as_ptr().cast();
        // SAFETY: attached by `attach`, with these.
        let detached = unsafe { ffi::ibv_detach_mcast(raw, &raw const self.mgid, self.lid) };
        if let Err(error) = check(detached) {
            tracing::warn!("ibv_detach_mcast failed: {error}");
        }
    }
}

/// Where a datagram goes.
#[derive(Debug)]
pub struct AddressHandle {
    raw: Handle<ffi::ibv_ah>,
    _domain: Arc<ProtectionDomain>,
}

impl AddressHandle {
    /// `ibv_create_ah`.
    pub fn create(
        domain: &Arc<ProtectionDomain>,
        mut attributes: ffi::ibv_ah_attr,
    ) -> io::Result<Self> {
        // SAFETY: the domain is alive; the structure is ours. Sends that use the handle are counted.
        let raw = unsafe {
            let raw = ffi::ibv_create_ah(domain.as_ptr(), &raw mut attributes);
            Handle::new(raw, "ibv_destroy_ah", ffi::ibv_destroy_ah)
        }?;
        let _domain = Arc::clone(domain);
        Ok(Self { raw, _domain })
    }

    /// For work requests.
    pub fn as_ptr(&self) -> *mut rdma_sys::ibv_ah {
        self.raw.as_ptr().cast()
    }
}
