//! The seam between algorithms and networks.
//!
//! A [`Transport`] moves bytes on one lane, the connection to one peer on one rail, and says what has
//! completed. An [`Endpoint`] is made of one: all lanes, of which some take over where others fail.
//! Algorithms are written against that and run unchanged on verbs, on loopback rails and in a simulator.
//!
//! # Order and visibility
//!
//! * Operations posted to one (peer, rail) take effect at the target in the order posted, but for
//!   plain puts ([`Kind::Put`]) on rails that keep no order between those; nothing
//!   is ordered between rails or between peers. A notification therefore follows its data on the
//!   same rail ([`Kind::Notify`]).
//! * A notification is a 64-bit store to an 8-byte-aligned word; a target that reads it with acquire
//!   ordering sees the data put before it on that rail.
//! * Under [`AtomicScope::Rail`], CPU atomics and the rails' atomics on one word do not exclude
//!   each other.
//!
//! # Local completion
//!
//! A posted operation reads its source until its [`Ticket`] is complete; what brings something back
//! has its result in place only then. Operations posted with
//! [`Tracking::Silent`] complete when a later tracked one on the same (peer, rail) does.

mod attributes;
mod clock;
mod connections;
mod endpoint;
mod error;
mod lanes;
pub mod multicast;
mod op;
mod rail;
mod region;
pub mod stripe;
mod transport;

pub use attributes::{AtomicScope, Attributes, EventSource, Events, Statistics};
pub use clock::{Clock, SystemClock};
pub use connections::{Connections, Reach};
pub use endpoint::Endpoint;
pub use error::FabricError;
pub use lanes::{Breakage, LaneId, LaneState, Transition};
pub use multicast::{Group, GroupId, Multicast, MulticastError};
pub use op::{Kind, LocalSlice, Notification, Op, Operation, RemoteSlice, Ticket, Tracking};
pub use rail::{RailCounters, RailInfo};
pub use region::{LocalRegion, RAILS_MAX, RemoteRegion, SharedBacking};
pub use transport::{Memory, Transport};
