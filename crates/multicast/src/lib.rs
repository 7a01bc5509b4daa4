//! Reliable broadcast over unreliable multicast, as a state machine without clocks, I/O or memory of messages.
//!
//! The protocol is that of LA-MPI (Yu, Sur, Panda, Aulwes, Graham: *High Performance Broadcast Support in
//! LA-MPI over Quadrics*, 2005, sections 4.1 to 4.4, 5.1 and 5.2), carried over to datagrams;
//! `docs/design/0050-reliable-multicast.md` says how and what differs.
//!
//! # Driving a session
//!
//! One [`Session`] per communicator at each *member*. All members open the same messages in the same order.
//!
//! 1. For a call: [`Session::open`], until it is not [`OpenError::Busy`]. A source copies an eager message
//!    into its [channel](Config::channel); a receiver copies out of it if [`Opened::early`] says so.
//! 2. For each datagram that came: [`wire::open`], then [`Session::receive`] or [`Session::damaged`]. The
//!    driver stores the payload where [`Store`] says and passes the datagram on as [`Forward`] says.
//! 3. [`Session::tick`] with the time; at the latest at [`Session::next_deadline`].
//! 4. [`Session::next_send`] until it returns nothing; [`wire::encode`] and the payload make the datagram.
//! 5. A call ends when [`Status::is_done`].
//!
//! Steps 2 to 4 in any order, whenever the process polls. The memory of a channel belongs to a message from
//! its first fragment until it is opened (at receivers) or until it is acknowledged (at its source), which
//! the session guarantees before the next message of that channel comes.
//!
//! # Identity: stale datagrams are never taken for new ones
//!
//! A fragment is (session, message, fragment). Sessions are 64 random bits that are never used again, so a
//! datagram of a communicator that was freed is ignored, whoever made the next one. Message numbers are 64
//! bits wide and never wrap: at a message per nanosecond that takes 584 years. A number names one message
//! only, with one source, length and content, for the life of the session: a fragment that comes late, twice
//! or by another path carries the same bytes, and is either stored once or, if its message is complete or the
//! fragment is there, dropped. Channels are used again, identities are not: what selects the memory is the
//! message's number, compared in full, and a fragment of message m is stored only while m is not complete
//! here; its channel holds nothing else then, since m is sent only when all members completed m - C.
//! Control datagrams carry counts that only rise; each is taken as a maximum, so late ones change nothing.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod config;
mod counters;
mod messages;
mod round_trip;
mod session;
mod tree;
mod watermarks;
pub mod wire;

pub use config::{Checksum, Config, ConfigError, RAILS_MAX, Time, Timers};
pub use counters::Counters;
pub use session::{
    Failure, Forward, MessageId, OpenError, Opened, Payload, Received, Send, Session, Status,
    Store, To,
};
pub use watermarks::Watermarks;
