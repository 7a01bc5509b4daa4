//! Unreliable datagrams to groups of processes: what a broadcast over multicast needs of a network.
//!
//! A [`Multicast`] lies beside a [`Transport`](crate::Transport), on the same rails. Its datagrams may be
//! lost, doubled and overtaken, and nothing tells the sender. Each is delivered whole or not at all;
//! a device checks its own packets, but what happens between the device and the program is for the
//! caller to check.
//!
//! # Order of set-up
//!
//! All members [join](Multicast::join) and exchange their [addresses](Group::address), then each
//! calls [`Group::set_members`]. What is sent before every member has done so may or may not arrive.
//! A process that leaves and joins again is a new member with a new address, of which all others
//! must be told; it receives nothing that was sent while it was away.
//!
//! # Receive queue
//!
//! Each membership has a queue of a fixed number of datagrams. One that finds it full is dropped
//! without a trace, as devices do; later ones arrive once [`Group::poll`] has made room. Whoever
//! must not lose datagrams has to bound how many are on their way.

mod error;
pub mod faults;

pub use error::MulticastError;

use crate::LocalSlice;
use ferrorail_base::RailId;
use std::os::fd::RawFd;

/// Largest header of a datagram in bytes.
pub const HEADER_BYTES_MAX: usize = 128;

/// Names a group; the same at all its members, and different for groups that exist at the same time
/// on one network. The transport makes the network's address of it, which may have fewer bits: a
/// datagram of another group, or of an earlier one, can arrive, and the caller's header must tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub [u8; 16]);

/// What a rail or a membership bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramLimits {
    /// Largest datagram in bytes, header included.
    pub bytes: usize,
    /// Datagrams that the receive queue holds: the most that can be asked for, or what there is.
    pub depth: u32,
    /// Sends that may be pending before [`Group::send`] refuses.
    pub sends: u32,
}

impl DatagramLimits {
    /// Whether a datagram is within them.
    ///
    /// # Errors
    /// [`MulticastError::TooLong`] if its header is longer than [`HEADER_BYTES_MAX`] or all of it is
    /// longer than [`DatagramLimits::bytes`].
    pub fn check(&self, header: &[u8], payload: &Payload<'_>) -> Result<(), MulticastError> {
        let (bytes, bytes_max) = match header.len() > HEADER_BYTES_MAX {
            true => (header.len(), HEADER_BYTES_MAX),
            false => (header.len() + payload.bytes(), self.bytes),
        };
        match bytes > bytes_max {
            true => Err(MulticastError::TooLong { bytes, bytes_max }),
            false => Ok(()),
        }
    }
}

/// Who gets a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// All members but the sender.
    All,
    /// One other member, by its number in [`Group::set_members`].
    Member(u32),
}

/// What follows the header of a datagram.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Copied before [`Group::send`] returns.
    Copied(&'a [u8]),
    /// Memory registered with the fabric of the same rails, read by the device until the send is no
    /// longer [pending](Group::pending_sends).
    Registered(LocalSlice<'a>),
}

impl Payload<'_> {
    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Copied(bytes) => bytes.len(),
            Self::Registered(slice) => slice.bytes,
        }
    }
}

/// Rails that can carry datagrams to groups.
pub trait Multicast: Send + Sync + 'static {
    /// What each rail bears, or why it carries no groups: entry `i` is rail `i` of the fabric.
    fn multicast_rails(&self) -> Vec<Result<DatagramLimits, MulticastError>>;

    /// Joins `group` on `rail` with a receive queue of `depth` datagrams, or as many as the rail
    /// bears. May take as long as the network needs to learn of it. Dropping the membership leaves.
    ///
    /// # Errors
    /// [`MulticastError::Unsupported`] if the rail carries no groups, [`MulticastError::Join`] if
    /// the network refuses, [`MulticastError::Device`] if the device does.
    fn join(
        &self,
        rail: RailId,
        group: GroupId,
        depth: u32,
    ) -> Result<Box<dyn Group>, MulticastError>;
}

impl<M: Multicast + ?Sized> Multicast for std::sync::Arc<M> {
    fn multicast_rails(&self) -> Vec<Result<DatagramLimits, MulticastError>> {
        (**self).multicast_rails()
    }

    fn join(
        &self,
        rail: RailId,
        group: GroupId,
        depth: u32,
    ) -> Result<Box<dyn Group>, MulticastError> {
        (**self).join(rail, group, depth)
    }
}

/// A membership of one process in one group on one rail.
pub trait Group: Send {
    /// What this membership bears.
    fn limits(&self) -> DatagramLimits;

    /// What the other members need in [`Group::set_members`]; at most 256 bytes.
    fn address(&self) -> Vec<u8>;

    /// Takes all members' addresses by member number, replacing those given before; this process is
    /// number `me`, whose entry is ignored. What has arrived and was not polled may be dropped.
    ///
    /// # Errors
    /// [`MulticastError::BadAddress`] if an entry is none of this group and kind of rail,
    /// [`MulticastError::Unsupported`] if a member's network has the group elsewhere,
    /// [`MulticastError::Device`] if a member cannot be reached. The members are then unchanged.
    fn set_members(&mut self, me: u32, addresses: &[Vec<u8>]) -> Result<(), MulticastError>;

    /// Sends one datagram: `header`, then `payload`. Returns at once.
    ///
    /// # Errors
    /// [`MulticastError::WouldBlock`] if too many sends are pending: call
    /// [`Group::pending_sends`], try again. [`MulticastError::TooLong`] beyond
    /// [`DatagramLimits::bytes`] or [`HEADER_BYTES_MAX`]; [`MulticastError::NoMember`] if there is
    /// no such other member. [`MulticastError::Device`] if the device refuses.
    ///
    /// # Safety
    /// A [`Payload::Registered`] stays registered and unwritten until the send is not pending any
    /// more, or the group was dropped.
    unsafe fn send(
        &mut self,
        to: To,
        header: &[u8],
        payload: Payload<'_>,
    ) -> Result<(), MulticastError>;

    /// Sends whose memory the device may still read, after looking at what has completed. They
    /// complete in the order sent: of `n` sends, the first `n - pending` are done.
    ///
    /// # Errors
    /// [`MulticastError::Device`] if a send failed, e.g. because the device is gone; that and all
    /// others are then not pending any more.
    fn pending_sends(&mut self) -> Result<usize, MulticastError>;

    /// Hands each datagram that has come, `limit` at most, to `each` and gives its place in the
    /// queue back; how many there were. The bytes may be read during the call only.
    ///
    /// # Errors
    /// [`MulticastError::Device`] if the device failed; nothing arrives any more.
    fn poll(&mut self, limit: usize, each: &mut dyn FnMut(&[u8])) -> Result<usize, MulticastError>;

    /// A descriptor for `poll(2)` that becomes readable when a datagram comes after this call; it is open as
    /// long as the membership. Of what came before nothing may be told: [`poll`](Group::poll) once more
    /// before sleeping. `None` if the rail has no such events.
    ///
    /// # Errors
    /// [`MulticastError::Device`] if the device refuses.
    fn arm(&mut self) -> Result<Option<RawFd>, MulticastError> {
        Ok(None)
    }

    /// Whether the device said last that the port of the rail is down: what is sent there gets nowhere.
    fn is_port_down(&self) -> bool {
        false
    }
}
