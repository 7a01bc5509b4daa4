//! Unreliable datagram queue pairs, and the addresses that they send to.

use super::super::completion_queue::CompletionQueue;
use super::super::handles::ProtectionDomain;
use ibverbs_sys as ffi;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// Index of the default partition key.
const PARTITION_KEY_INDEX: u16 = 0;

fn status(status: i32) -> io::Result<()> {
    match status {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno.abs())),
    }
}

fn warn(verb: &str, result: io::Result<()>) {
    if let Err(error) = result {
        tracing::warn!("{verb} failed: {error}");
    }
}

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

/// An unreliable datagram queue pair.
#[derive(Debug)]
pub struct DatagramQueuePair {
    raw: NonNull<ffi::ibv_qp>,
    inline_bytes: u32,
    _domain: Arc<ProtectionDomain>,
    _sends: Arc<CompletionQueue>,
    _receives: Arc<CompletionQueue>,
}

// SAFETY: libibverbs is thread-safe; the queue pair is destroyed by its last owner.
unsafe impl Send for DatagramQueuePair {}
// SAFETY: as above.
unsafe impl Sync for DatagramQueuePair {}

impl DatagramQueuePair {
    /// `ibv_create_qp`, with inline data if the device has any.
    pub fn create(
        domain: &Arc<ProtectionDomain>,
        sends: &Arc<CompletionQueue>,
        receives: &Arc<CompletionQueue>,
        size: Size,
    ) -> io::Result<Self> {
        let create = |inline_bytes| {
            let mut attributes = ffi::ibv_qp_init_attr {
                send_cq: sends.as_ptr(),
                recv_cq: receives.as_ptr(),
                cap: ffi::ibv_qp_cap {
                    max_send_wr: size.sends,
                    max_recv_wr: size.receives,
                    // A header and registered memory.
                    max_send_sge: 2,
                    max_recv_sge: 1,
                    max_inline_data: inline_bytes,
                },
                qp_type: ffi::ibv_qp_type::IBV_QPT_UD,
                ..Default::default()
            };
            // SAFETY: domain and queues are alive; the structure is ours.
            let raw = unsafe { ffi::ibv_create_qp(domain.as_ptr(), &raw mut attributes) };
            NonNull::new(raw).ok_or_else(io::Error::last_os_error)
        };
        // Some devices refuse more inline data than they have instead of giving what they can.
        let (raw, inline_bytes) = match create(size.inline_bytes) {
            Ok(raw) => (raw, size.inline_bytes),
            Err(_) => (create(0)?, 0),
        };
        Ok(Self {
            raw,
            inline_bytes,
            _domain: Arc::clone(domain),
            _sends: Arc::clone(sends),
            _receives: Arc::clone(receives),
        })
    }

    /// Bytes that a send may carry inside the request.
    pub fn inline_bytes(&self) -> usize {
        self.inline_bytes as usize
    }

    /// The number that datagrams are sent to; 24 bits.
    pub fn number(&self) -> u32 {
        // SAFETY: the structure lives until the queue pair is destroyed.
        unsafe { (*self.raw.as_ptr()).qp_num }
    }

    /// For posting through `rdma-sys`, which has the inline verbs.
    pub fn as_ptr(&self) -> *mut rdma_sys::ibv_qp {
        self.raw.as_ptr().cast()
    }

    fn modify(
        &self,
        mut attributes: ffi::ibv_qp_attr,
        mask: ffi::ibv_qp_attr_mask,
    ) -> io::Result<()> {
        // SAFETY: the queue pair is alive and the mask names the fields that were set.
        status(unsafe { ffi::ibv_modify_qp(self.raw.as_ptr(), &raw mut attributes, mask.0 as i32) })
    }

    /// RESET to INIT, where receives may be posted; datagrams with another Q_Key are dropped.
    pub fn initialize(&self, port: u8, q_key: u32) -> io::Result<()> {
        let attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_INIT,
            pkey_index: PARTITION_KEY_INDEX,
            port_num: port,
            qkey: q_key,
            ..Default::default()
        };
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE
            | ffi::ibv_qp_attr_mask::IBV_QP_PKEY_INDEX
            | ffi::ibv_qp_attr_mask::IBV_QP_PORT
            | ffi::ibv_qp_attr_mask::IBV_QP_QKEY;
        self.modify(attributes, mask)
    }

    /// INIT to RTR to RTS: datagrams come and go.
    pub fn activate(&self) -> io::Result<()> {
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

impl Drop for DatagramQueuePair {
    fn drop(&mut self) {
        // SAFETY: created by `create`, destroyed once.
        warn(
            "ibv_destroy_qp",
            status(unsafe { ffi::ibv_destroy_qp(self.raw.as_ptr()) }),
        );
    }
}

/// A queue pair's place in a multicast group of its device.
pub struct Attachment {
    queue_pair: Arc<DatagramQueuePair>,
    mgid: ffi::ibv_gid,
    lid: u16,
}

impl Attachment {
    /// `ibv_attach_mcast`; `lid` is 0 on Ethernet.
    pub fn attach(
        queue_pair: &Arc<DatagramQueuePair>,
        mgid: [u8; 16],
        lid: u16,
    ) -> io::Result<Self> {
        let mgid = ffi::ibv_gid { raw: mgid };
        let raw = queue_pair.raw.as_ptr();
        // SAFETY: the queue pair is alive; the GID is read during the call.
        status(unsafe { ffi::ibv_attach_mcast(raw, &raw const mgid, lid) })?;
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
        let raw = self.queue_pair.raw.as_ptr();
        // SAFETY: attached by `attach`, with these.
        let detached = unsafe { ffi::ibv_detach_mcast(raw, &raw const self.mgid, self.lid) };
        warn("ibv_detach_mcast", status(detached));
    }
}

/// Where a datagram goes.
#[derive(Debug)]
pub struct AddressHandle {
    raw: NonNull<ffi::ibv_ah>,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs is thread-safe; the handle is destroyed by its only owner.
unsafe impl Send for AddressHandle {}

impl AddressHandle {
    /// `ibv_create_ah`.
    pub fn create(
        domain: &Arc<ProtectionDomain>,
        mut attributes: ffi::ibv_ah_attr,
    ) -> io::Result<Self> {
        // SAFETY: the domain is alive; the structure is ours.
        let raw = unsafe { ffi::ibv_create_ah(domain.as_ptr(), &raw mut attributes) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        let _domain = Arc::clone(domain);
        Ok(Self { raw, _domain })
    }

    /// For work requests.
    pub fn as_ptr(&self) -> *mut rdma_sys::ibv_ah {
        self.raw.as_ptr().cast()
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: created by `create`, destroyed once.
        warn(
            "ibv_destroy_ah",
            status(unsafe { ffi::ibv_destroy_ah(self.raw.as_ptr()) }),
        );
    }
}
