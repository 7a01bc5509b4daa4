//! Multicasts between the leaders of a team's nodes: the reliable broadcast of Yu et al. 2005.
//!
//! [`ferrorail_multicast::Session`] is the protocol, without clocks or I/O; [`fabric::Multicast`]
//! moves datagrams that may get lost. This joins the two:
//!
//! * [`open`] sets a team up when an algorithm first wants it. The path is tried; where it does not work
//!   all ranks know, and trees serve.
//! * [`Leader`] is the protocol's end at one leader, and knows where messages lie. Whoever waits on the
//!   team drives it.
//! * [`Service`] is a thread that drives all leaders of a process now and then. A root may have left the
//!   broadcast, and wait in the host MPI for a rank that lacks a datagram of it.
//!
//! [`fabric::Multicast`]: ferrorail_fabric::Multicast

mod counts;
mod leader;
mod memory;
mod open;
mod protocol;
mod service;
mod sleep;
mod trial;

pub use counts::MulticastRow;
pub(crate) use ferrorail_multicast::MessageId;
pub(crate) use leader::Leader;
pub(crate) use open::{Multicasts, open};
pub(crate) use service::{Service, Waker};
