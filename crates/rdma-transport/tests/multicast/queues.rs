//! Queues that are full.

use super::{DEPTH, Seen, World, broadcast, pattern, received, send, until};
use ferrorail_fabric::multicast::{Payload, To};
use ferrorail_fabric::{Group, Multicast, MulticastError};
use nix::poll::{PollFd, PollFlags, ppoll};
use std::os::fd::{BorrowedFd, RawFd};
use std::time::{Duration, Instant};

/// For what is on its way to arrive, or not.
const QUIET: Duration = Duration::from_millis(200);

fn settle(groups: &mut [Box<dyn Group>]) {
    let start = Instant::now();
    until("sends to complete", || {
        let pending = groups.iter_mut().map(|group| group.pending_sends());
        pending
            .map(|pending| pending.expect("sends"))
            .sum::<usize>()
            == 0
    });
    std::thread::sleep(QUIET.saturating_sub(start.elapsed()));
}

pub fn a_full_receive_queue_drops_and_works_on<F: Multicast>(
    world: &World<'_, F>,
    seen: &mut Seen,
) {
    let mut groups = world.group(3, 16);
    let depth = groups[0].limits().depth as usize;
    assert_eq!(depth, 16, "every rail bears a queue of 16");
    let sent: Vec<Vec<u8>> = (0..10 * depth).map(|i| pattern(i, 8 + i)).collect();
    for round in 0..5 {
        for datagram in &sent {
            send(&mut *groups[0], To::All, &[], datagram);
        }
        settle(&mut groups);
        for group in &mut groups[1..] {
            let heard = received(&mut **group);
            assert!(heard.iter().all(|datagram| sent.contains(datagram)));
            // A loss on top of that is not this check's concern.
            assert!(!heard.is_empty(), "what fits stays");
            assert!(
                heard.len() <= depth,
                "{} in a queue of {depth}",
                heard.len()
            );
            seen.dropped += sent.len() - heard.len();
        }
        broadcast(&mut groups, round % 3, &pattern(9999, 500), seen);
        // As many as fit at a time, many times over.
        for datagram in sent.iter().take(3 * depth) {
            broadcast(&mut groups, 1, datagram, seen);
        }
    }
}

pub fn a_full_send_queue_refuses_and_works_on<F: Multicast>(world: &World<'_, F>, seen: &mut Seen) {
    let mut groups = world.group(2, DEPTH);
    let sends = groups[0].limits().sends as usize;
    let payload = pattern(7, groups[0].limits().bytes);
    for _ in 0..3 {
        let mut accepted = 0;
        while accepted < 4 * sends {
            // SAFETY: a copied payload asks for nothing.
            match unsafe { groups[0].send(To::All, &[], Payload::Copied(&payload)) } {
                Ok(()) => accepted += 1,
                Err(MulticastError::WouldBlock) => break,
                Err(error) => panic!("send: {error}"),
            }
        }
        if accepted < 4 * sends {
            assert!(accepted >= sends, "{accepted} of {sends} sends");
            seen.would_block += 1;
        }
        until("sends to complete", || {
            let pending = groups[0].pending_sends().expect("sends");
            assert!(pending <= sends.max(accepted));
            pending == 0
        });
        settle(&mut groups);
        received(&mut *groups[1]);
        broadcast(&mut groups, 0, &pattern(8, 99), seen);
    }
}

/// Where the rail tells of datagrams at all: not before one comes, and each time that it is asked to.
pub fn an_arrival_wakes_who_sleeps<F: Multicast>(world: &World<'_, F>, seen: &mut Seen) {
    let mut groups = world.group(2, DEPTH);
    for round in 0..3 {
        received(&mut *groups[1]);
        let Some(descriptor) = groups[1].arm().expect("arm") else {
            return;
        };
        assert!(received(&mut *groups[1]).is_empty());
        assert!(!is_readable(descriptor, QUIET), "nothing was sent");
        let mut sent = 1;
        send(&mut *groups[0], To::All, &[round; 8], &[]);
        while !is_readable(descriptor, QUIET) {
            sent += 1;
            assert!(sent < 100, "nothing wakes the receiver");
            send(&mut *groups[0], To::All, &[round; 8], &[]);
        }
        seen.resent += sent - 1;
        assert!(!received(&mut *groups[1]).is_empty());
    }
}

fn is_readable(descriptor: RawFd, limit: Duration) -> bool {
    // SAFETY: it is the group's, which lives on.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let mut wanted = [PollFd::new(descriptor, PollFlags::POLLIN)];
    ppoll(&mut wanted, Some(limit.into()), None).expect("poll") == 1
}

pub fn polling_takes_no_more_than_asked_for<F: Multicast>(world: &World<'_, F>, seen: &mut Seen) {
    let mut groups = world.group(2, DEPTH);
    for number in 0..40 {
        send(&mut *groups[0], To::All, &[number; 8], &[]);
    }
    settle(&mut groups);
    let mut heard = Vec::new();
    assert_eq!(groups[1].poll(0, &mut |_| panic!("none")).expect("poll"), 0);
    loop {
        let before = heard.len();
        let taken = groups[1].poll(7, &mut |datagram| heard.push(datagram.to_vec()));
        let taken = taken.expect("poll");
        assert_eq!(heard.len() - before, taken);
        assert!(taken <= 7);
        if taken == 0 {
            break;
        }
    }
    seen.resent += 40 - heard.len().min(40);
    assert!(
        heard
            .iter()
            .all(|found| (0..40).any(|number| *found == [number; 8]))
    );
}
