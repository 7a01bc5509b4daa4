//! What every [`Multicast`] must do, whatever carries its datagrams.
//!
//! [`run`] takes attachments of this process, makes them members of groups on each of their rails, and
//! checks contents, addressees, membership, bounds of the queues and errors. Datagrams may be lost:
//! what does not arrive is sent again, and [`Seen`] says how often that was necessary.

mod errors;
mod membership;
mod queues;
mod transfers;

use crate::conformance::Rails;
use ferrorail_base::RailId;
use ferrorail_base::sync::{AtomicU32, Ordering, yield_now};
use ferrorail_fabric::multicast::{DatagramLimits, Payload, To};
use ferrorail_fabric::{Group, GroupId, Multicast, MulticastError};
use std::time::{Duration, Instant};

/// Longest wait for anything; an emulated device in an emulated machine is slow.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// After which a datagram counts as lost.
const LATE: Duration = Duration::from_millis(500);
/// Depth of queues, unless they are what is checked.
const DEPTH: u32 = 256;

/// What a run saw that not all transports show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Datagrams that were sent again because they seemed lost.
    pub resent: usize,
    /// Sends refused because too many were pending.
    pub would_block: usize,
    /// Datagrams that found a receive queue full, in the check that fills it.
    pub dropped: usize,
}

/// Runs the whole suite with `make(n)`, which returns `n` attachments; panics with the failed
/// property.
pub fn run<F: Rails + Multicast>(make: impl Fn(usize) -> Vec<F>) -> Seen {
    let mut seen = Seen::default();
    let fabrics = make(5);
    for rail in 0..fabrics[0].rails().len() as u8 {
        let limits = &fabrics[0].multicast_rails()[usize::from(rail)];
        let limits = *limits.as_ref().expect("a rail that carries groups");
        let world = World {
            fabrics: &fabrics,
            rail: RailId(rail),
            limits,
        };
        transfers::sizes_arrive(&world, &mut seen);
        transfers::all_hear_all_but_themselves(&world, &mut seen);
        transfers::one_member_alone_is_reached(&world, &mut seen);
        transfers::registered_memory_is_sent_and_left_alone_afterwards(&world, &mut seen);
        membership::who_left_hears_nothing_and_may_come_again(&world, &mut seen);
        membership::groups_do_not_hear_each_other(&world, &mut seen);
        membership::members_may_change(&world, &mut seen);
        queues::a_full_receive_queue_drops_and_works_on(&world, &mut seen);
        queues::a_full_send_queue_refuses_and_works_on(&world, &mut seen);
        queues::polling_takes_no_more_than_asked_for(&world, &mut seen);
        queues::an_arrival_wakes_who_sleeps(&world, &mut seen);
        errors::what_does_not_fit_is_refused(&world);
        errors::strange_addresses_change_nothing(&world, &mut seen);
    }
    seen
}

/// Attachments, and the rail that is checked.
pub struct World<'a, F> {
    pub fabrics: &'a [F],
    pub rail: RailId,
    pub limits: DatagramLimits,
}

/// A group that no other check and no other process uses.
pub fn fresh() -> GroupId {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut id = [0x3c; 16];
    id[..4].copy_from_slice(&std::process::id().to_le_bytes());
    id[4..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    GroupId(id)
}

impl<F: Multicast> World<'_, F> {
    pub fn join(&self, member: usize, id: GroupId, depth: u32) -> Box<dyn Group> {
        let joined = self.fabrics[member].join(self.rail, id, depth);
        joined.unwrap_or_else(|error| panic!("member {member}: {error}"))
    }

    /// The first `count` attachments as members of a new group.
    pub fn group(&self, count: usize, depth: u32) -> Vec<Box<dyn Group>> {
        let id = fresh();
        let mut groups: Vec<_> = (0..count).map(|i| self.join(i, id, depth)).collect();
        introduce(&mut groups);
        groups
    }
}

/// Tells all members of all.
pub fn introduce(groups: &mut [Box<dyn Group>]) {
    let addresses: Vec<Vec<u8>> = groups.iter().map(|group| group.address()).collect();
    assert!(addresses.iter().all(|address| address.len() <= 256));
    for (me, group) in (0..).zip(groups) {
        group.set_members(me, &addresses).expect("members");
    }
}

/// `bytes` bytes that differ by place and by `seed`.
pub fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005);
        state = state.wrapping_add(1);
        (state >> 33) as u8
    };
    (0..bytes).map(next).collect()
}

/// Sends a copied payload, making progress while the queue is full.
pub fn send(group: &mut dyn Group, to: To, header: &[u8], payload: &[u8]) {
    until("a place in the send queue", || {
        // SAFETY: a copied payload asks for nothing.
        match unsafe { group.send(to, header, Payload::Copied(payload)) } {
            Ok(()) => true,
            Err(MulticastError::WouldBlock) => {
                group.pending_sends().expect("pending sends");
                false
            }
            Err(error) => panic!("send: {error}"),
        }
    });
}

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(
            start.elapsed() < TIME_LIMIT,
            "{what}: nothing for {TIME_LIMIT:?}"
        );
        yield_now();
    }
}

/// All that has come, whole.
pub fn received(group: &mut dyn Group) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut each = |datagram: &[u8]| all.push(datagram.to_vec());
    let count = group.poll(usize::MAX, &mut each).expect("poll");
    assert_eq!(count, all.len());
    all
}

/// Has `sender` send `datagram` until each of `receivers` has it. They may have received others too,
/// which are given to `others` with the member's number.
pub fn deliver(
    groups: &mut [Box<dyn Group>],
    sender: usize,
    to: To,
    datagram: &[u8],
    receivers: &[usize],
    seen: &mut Seen,
    mut others: impl FnMut(usize, Vec<u8>),
) {
    let header = datagram.len().min(datagram.len() % 129);
    let (header, payload) = datagram.split_at(header);
    let mut missing = receivers.to_vec();
    send(&mut *groups[sender], to, header, payload);
    let mut sent = Instant::now();
    until("a datagram", || {
        // Before the look, or what came while this thread was held up would count as lost.
        let late = sent.elapsed() > LATE;
        for (member, group) in groups.iter_mut().enumerate() {
            group.pending_sends().expect("pending sends");
            for found in received(&mut **group) {
                match missing.iter().position(|&waiting| waiting == member) {
                    Some(at) if found == datagram => {
                        missing.swap_remove(at);
                    }
                    _ => others(member, found),
                }
            }
        }
        if late && !missing.is_empty() {
            seen.resent += 1;
            send(&mut *groups[sender], to, header, payload);
            sent = Instant::now();
        }
        missing.is_empty()
    });
}

/// [`deliver`] to all other members; anything else that arrives must be that datagram once more.
pub fn broadcast(groups: &mut [Box<dyn Group>], sender: usize, datagram: &[u8], seen: &mut Seen) {
    let receivers: Vec<usize> = (0..groups.len()).filter(|&i| i != sender).collect();
    let again = |member, found: Vec<u8>| {
        assert!(member != sender, "a sender does not hear itself");
        assert_eq!(found, datagram, "member {member}");
    };
    deliver(groups, sender, To::All, datagram, &receivers, seen, again);
}
