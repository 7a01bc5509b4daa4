//! Joining through librdmacm: on InfiniBand the subnet manager makes the group, and says by which LID
//! and Q_Key it is reached; on RoCE the kernel tells switches by IGMP.

use ferrorail_delay_load::DelayLoadError;
use ibverbs_sys as ffi;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use rdma_sys::{rdma_cm_event_type, rdma_port_space};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

/// Longest wait for a subnet manager.
const TIME_LIMIT_MS: u16 = 5000;

// The two crates' views of what crosses between them.
const _: () = assert!(size_of::<ffi::ibv_ah_attr>() == size_of::<rdma_sys::ibv_ah_attr>());

/// A failed call of the library, and why it failed.
pub type Failed = (&'static str, io::Error);

/// Where events of one identifier are reported.
#[derive(Debug)]
struct Channel(NonNull<rdma_sys::rdma_event_channel>);

// SAFETY: librdmacm is thread-safe; the channel is destroyed by its only owner.
unsafe impl Send for Channel {}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: created in `join`; its identifier is gone, by the order of fields.
        unsafe { rdma_sys::rdma_destroy_event_channel(self.0.as_ptr()) };
    }
}

/// An identifier bound to a port.
#[derive(Debug)]
struct Id(NonNull<rdma_sys::rdma_cm_id>);

// SAFETY: as for `Channel`.
unsafe impl Send for Id {}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: created in `join`; all its events were acknowledged.
        if unsafe { rdma_sys::rdma_destroy_id(self.0.as_ptr()) } != 0 {
            tracing::warn!("rdma_destroy_id failed: {}", io::Error::last_os_error());
        }
    }
}

/// Membership of a port in a group; ends when dropped, also if the process dies.
#[derive(Debug)]
pub struct CmMembership {
    group: SockaddrStorage,
    id: Id,
    _channel: Channel,
}

/// A membership, and what the network says of the group.
pub struct Joined {
    /// Ends it when dropped.
    pub membership: CmMembership,
    /// The way to the group.
    pub path: ffi::ibv_ah_attr,
    /// The group's Q_Key.
    pub q_key: u32,
}

fn last(call: &'static str) -> Failed {
    (call, io::Error::last_os_error())
}

fn succeeded(call: &'static str, status: i32) -> Result<(), Failed> {
    match status {
        0 => Ok(()),
        _ => Err(last(call)),
    }
}

/// Joins `group` on the port whose interface has the address `source` and the index `interface`. An
/// IPv6 address that begins with `ff12:a01b` is taken as an InfiniBand MGID.
///
/// # Errors
/// The call that failed, with the system's reason.
pub fn join(source: IpAddr, interface: u32, group: IpAddr) -> Result<Joined, Failed> {
    ferrorail_delay_load::rdmacm().map_err(|error: DelayLoadError| {
        let words = error.to_string();
        (
            "librdmacm",
            io::Error::new(io::ErrorKind::Unsupported, words),
        )
    })?;
    // SAFETY: the library is loaded.
    let channel = unsafe { rdma_sys::rdma_create_event_channel() };
    let channel = NonNull::new(channel).ok_or_else(|| last("rdma_create_event_channel"))?;
    let channel = Channel(channel);
    let mut id = ptr::null_mut();
    let port_space = rdma_port_space::RDMA_PS_UDP;
    // SAFETY: the channel is alive; the place for the identifier is ours.
    succeeded("rdma_create_id", unsafe {
        rdma_sys::rdma_create_id(channel.0.as_ptr(), &raw mut id, ptr::null_mut(), port_space)
    })?;
    let id = Id(NonNull::new(id).ok_or_else(|| last("rdma_create_id"))?);
    let (source, group) = (socket_address(source, interface), socket_address(group, 0));
    // SAFETY: identifier and address are alive during the call.
    succeeded("rdma_bind_addr", unsafe {
        rdma_sys::rdma_bind_addr(id.0.as_ptr(), source.as_ptr().cast_mut())
    })?;
    let to = group.as_ptr().cast_mut();
    // SAFETY: as above; nothing is passed back with events.
    succeeded("rdma_join_multicast", unsafe {
        rdma_sys::rdma_join_multicast(id.0.as_ptr(), to, ptr::null_mut())
    })?;
    let membership = CmMembership {
        group,
        id,
        _channel: channel,
    };
    let (path, q_key) = membership.outcome()?;
    Ok(Joined {
        membership,
        path,
        q_key,
    })
}

fn socket_address(ip: IpAddr, interface: u32) -> SockaddrStorage {
    match ip {
        IpAddr::V4(_) => SocketAddr::new(ip, 0).into(),
        IpAddr::V6(ip) => {
            // Only link-local addresses need to say where they are.
            let scope = if ip.is_unicast_link_local() {
                interface
            } else {
                0
            };
            SocketAddrV6::new(ip, 0, 0, scope).into()
        }
    }
}

impl CmMembership {
    /// Waits for the answer to the request to join.
    fn outcome(&self) -> Result<(ffi::ibv_ah_attr, u32), Failed> {
        const CALL: &str = "rdma_join_multicast";
        let channel = self._channel.0.as_ptr();
        // SAFETY: the channel, and with it the descriptor, lives as long as `self`.
        let descriptor = unsafe { BorrowedFd::borrow_raw((*channel).fd) };
        let mut waited = [PollFd::new(descriptor, PollFlags::POLLIN)];
        let timeout = PollTimeout::from(TIME_LIMIT_MS);
        let ready = loop {
            match poll(&mut waited, timeout) {
                Err(Errno::EINTR) => {}
                other => break other.map_err(|errno| (CALL, errno.into()))?,
            }
        };
        if ready == 0 {
            let silent = format!("no answer within {TIME_LIMIT_MS} ms");
            return Err((CALL, io::Error::new(io::ErrorKind::TimedOut, silent)));
        }
        let mut event = ptr::null_mut();
        // SAFETY: the channel is alive; the place for the event is ours.
        succeeded("rdma_get_cm_event", unsafe {
            rdma_sys::rdma_get_cm_event(channel, &raw mut event)
        })?;
        // SAFETY: the call returned an event, which lives until it is acknowledged; that of a joined
        // group carries parameters of datagrams. Both crates describe the same C structure.
        let answer = unsafe {
            let found = &*event;
            match found.event {
                rdma_cm_event_type::RDMA_CM_EVENT_MULTICAST_JOIN => {
                    let parameters = &raw const found.param.ud;
                    let path = (&raw const (*parameters).ah_attr).cast::<ffi::ibv_ah_attr>();
                    Ok((path.read(), (*parameters).qkey))
                }
                kind => Err((kind, found.status)),
            }
        };
        // SAFETY: the event is acknowledged once, and not used any more.
        succeeded("rdma_ack_cm_event", unsafe {
            rdma_sys::rdma_ack_cm_event(event)
        })?;
        answer.map_err(|(kind, status)| match status {
            0 => (CALL, io::Error::other(format!("event {kind} instead"))),
            errno => (CALL, io::Error::from_raw_os_error(errno.abs())),
        })
    }
}

impl Drop for CmMembership {
    fn drop(&mut self) {
        let group = self.group.as_ptr().cast_mut();
        // SAFETY: the identifier is alive; a group that it did not join is refused.
        if unsafe { rdma_sys::rdma_leave_multicast(self.id.0.as_ptr(), group) } != 0 {
            tracing::debug!("rdma_leave_multicast: {}", io::Error::last_os_error());
        }
    }
}
