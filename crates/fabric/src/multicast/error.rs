//! Errors of multicast. Each names the act that failed.

use std::io;

/// Why a group cannot be joined or used, in words a user can act on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MulticastError {
    /// Too many sends are pending; look at those and try again. Never reaches users.
    #[error("the multicast send queue is full")]
    WouldBlock,
    /// The rail carries no groups.
    #[error("rail {rail} carries no multicast: {reason}")]
    Unsupported {
        /// Name of the rail.
        rail: String,
        /// Why, e.g. that its device has no multicast groups.
        reason: String,
    },
    /// The network did not let this process join.
    #[error("joining multicast group {group} on rail {rail} failed: {verb}: {source}")]
    Join {
        /// The group's address on the network.
        group: String,
        /// Name of the rail.
        rail: String,
        /// The failed verb or system call, e.g. `rdma_join_multicast`.
        verb: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The device, or the system in its place, failed.
    #[error("multicast on rail {rail}: {verb} failed: {source}")]
    Device {
        /// Name of the rail.
        rail: String,
        /// The failed verb or system call, e.g. `ibv_post_send`.
        verb: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A member sent something that is no address of this group.
    #[error("member {member} of a multicast group sent an unusable address")]
    BadAddress {
        /// Its number.
        member: u32,
    },
    /// A datagram is longer than the rail carries.
    #[error("a multicast datagram of {bytes} bytes does not fit the limit of {bytes_max}")]
    TooLong {
        /// Its length, or that of its header.
        bytes: usize,
        /// The limit that it breaks.
        bytes_max: usize,
    },
    /// There is no such member, or the members are not known yet.
    #[error("a multicast group has no member {member}")]
    NoMember {
        /// The number asked for.
        member: u32,
    },
}
