//! Contents and addressees.

use super::{DEPTH, Seen, World, broadcast, deliver, pattern, received, until};
use crate::conformance::Rails;
use crate::conformance::memory::Memory;
use ferrorail_base::sync::yield_now;
use ferrorail_fabric::multicast::{Payload, To};
use ferrorail_fabric::{Multicast, MulticastError};
use std::collections::HashSet;

/// Every short size and every one near the longest; of those between every seventh, as each is a round trip of
/// emulated devices.
pub fn sizes_arrive<F: Multicast>(world: &World<'_, F>, seen: &mut Seen) {
    let mut groups = world.group(3, DEPTH);
    let bytes_max = groups[0].limits().bytes;
    assert_eq!(bytes_max, world.limits.bytes);
    assert!(bytes_max >= 256, "the smallest packet of any device");
    let (short, long) = (256, bytes_max - 16);
    for bytes in (0..short)
        .chain((short..long).step_by(7))
        .chain(long..=bytes_max)
    {
        broadcast(&mut groups, bytes % 3, &pattern(bytes, bytes), seen);
    }
}

/// Several datagrams of every member are under way at a time.
pub fn all_hear_all_but_themselves<F: Multicast>(world: &World<'_, F>, seen: &mut Seen) {
    const EACH: usize = 20;
    for members in 2..=5 {
        let mut groups = world.group(members, DEPTH);
        let datagram = |member: usize, number: usize| {
            let bytes = 8 + (member * 131 + number * 67) % 1000;
            pattern(member * 1000 + number, bytes)
        };
        for number in 0..EACH {
            for (member, group) in groups.iter_mut().enumerate() {
                super::send(&mut **group, To::All, &[], &datagram(member, number));
            }
        }
        let mut heard: Vec<HashSet<Vec<u8>>> = vec![HashSet::new(); members];
        for sender in 0..members {
            for number in 0..EACH {
                let wanted = datagram(sender, number);
                let lacks = |&member: &usize| member != sender && !heard[member].contains(&wanted);
                let lacking: Vec<usize> = (0..members).filter(lacks).collect();
                if !lacking.is_empty() {
                    wait_for(&mut groups, &mut heard, &lacking, &wanted);
                }
                let lost: Vec<usize> = (0..members)
                    .filter(|&member| member != sender && !heard[member].contains(&wanted))
                    .collect();
                if !lost.is_empty() {
                    let keep = |member: usize, found| {
                        heard[member].insert(found);
                    };
                    seen.resent += 1;
                    deliver(&mut groups, sender, To::All, &wanted, &lost, seen, keep);
                }
            }
        }
        for (member, heard) in heard.iter().enumerate() {
            for number in 0..EACH {
                let own = datagram(member, number);
                assert!(!heard.contains(&own), "a sender does not hear itself");
            }
        }
    }
}

/// Receives for as long as a datagram may take.
fn wait_for(
    groups: &mut [Box<dyn ferrorail_fabric::Group>],
    heard: &mut [HashSet<Vec<u8>>],
    lacking: &[usize],
    wanted: &Vec<u8>,
) {
    let start = std::time::Instant::now();
    let mut late = false;
    while !late {
        late = start.elapsed() > super::LATE;
        for (group, heard) in groups.iter_mut().zip(heard.iter_mut()) {
            heard.extend(received(&mut **group));
        }
        if lacking.iter().all(|&member| heard[member].contains(wanted)) {
            return;
        }
        yield_now();
    }
}

pub fn one_member_alone_is_reached<F: Multicast>(world: &World<'_, F>, seen: &mut Seen) {
    let mut groups = world.group(4, DEPTH);
    for sender in 0..4 {
        for target in (0..4).filter(|&target| target != sender) {
            let private = pattern(100 + 10 * sender + target, 700);
            let to = To::Member(target as u32);
            let check = |member: usize, found: Vec<u8>| {
                assert!(found != private || member == target, "member {member} too");
            };
            deliver(&mut groups, sender, to, &private, &[target], seen, check);
            // What went astray would arrive before this.
            let all = pattern(200 + 10 * sender + target, 700);
            let others: Vec<usize> = (0..4).filter(|&member| member != sender).collect();
            deliver(&mut groups, sender, To::All, &all, &others, seen, check);
        }
    }
}

/// What is changed after a send is no longer pending does not change what arrives.
pub fn registered_memory_is_sent_and_left_alone_afterwards<F: Rails + Multicast>(
    world: &World<'_, F>,
    seen: &mut Seen,
) {
    let mut groups = world.group(3, DEPTH);
    let bytes_max = groups[0].limits().bytes;
    let mut memory = Memory::private(&world.fabrics[0], 3 * bytes_max);
    for (round, header) in [0, 1, 64, 128].into_iter().enumerate() {
        for bytes in [0, 1, 33, bytes_max - header] {
            let offset = 1 + 7 * round;
            memory.fill_pattern((round * 10_000 + bytes) as u64 + 1);
            let head = pattern(bytes, header);
            let wanted = [&head[..], &memory.read(offset, bytes)].concat();
            let slice = memory.slice(offset, bytes);
            for to in [To::All, To::Member(2)] {
                // SAFETY: the memory is written only after the send is complete.
                let sent = unsafe { groups[0].send(to, &head, Payload::Registered(slice)) };
                assert!(
                    !matches!(sent, Err(MulticastError::WouldBlock)),
                    "an empty queue"
                );
                sent.expect("send");
            }
            until("completion", || {
                groups[0].pending_sends().expect("sends") == 0
            });
            memory.fill(0xff);
            for member in [1, 2] {
                arrives(&mut groups, member, &wanted, seen);
            }
        }
    }
    // Before the memory.
    drop(groups);
}

/// Waits for `wanted` at `member`; has it sent again, copied, if it does not come.
fn arrives(
    groups: &mut [Box<dyn ferrorail_fabric::Group>],
    member: usize,
    wanted: &[u8],
    seen: &mut Seen,
) {
    let start = std::time::Instant::now();
    let mut late = false;
    while !late {
        late = start.elapsed() > super::LATE;
        for found in received(&mut *groups[member]) {
            if found == wanted {
                return;
            }
            assert!(found.len() != wanted.len(), "a datagram that nobody sent");
        }
        yield_now();
    }
    seen.resent += 1;
    let to = To::Member(member as u32);
    deliver(groups, 0, to, wanted, &[member], seen, |_, _| {});
}
