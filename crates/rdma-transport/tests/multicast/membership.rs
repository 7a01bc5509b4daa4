//! Who belongs to a group, and to which.

use super::{DEPTH, Seen, World, broadcast, deliver, fresh, introduce, pattern, received, send};
use ferrorail_fabric::Multicast;
use ferrorail_fabric::multicast::To;

pub fn who_left_hears_nothing_and_may_come_again<F: Multicast>(
    world: &World<'_, F>,
    seen: &mut Seen,
) {
    let id = fresh();
    let mut groups: Vec<_> = (0..3).map(|i| world.join(i, id, DEPTH)).collect();
    introduce(&mut groups);
    for round in 0..5 {
        broadcast(&mut groups, round % 3, &pattern(round, 100), seen);
        drop(groups.pop());
        let absent = pattern(1000 + round, 200);
        deliver(&mut groups, 0, To::All, &absent, &[1], seen, |_, _| {});
        groups.push(world.join(2, id, DEPTH));
        introduce(&mut groups);
        let back = pattern(2000 + round, 300);
        deliver(
            &mut groups,
            0,
            To::All,
            &back,
            &[1, 2],
            seen,
            |member, found| {
                assert!(member != 2 || found == back, "sent while it was away");
            },
        );
    }
}

/// Groups of the same members on one rail, and groups of one name on two rails.
pub fn groups_do_not_hear_each_other<F: Multicast>(world: &World<'_, F>, seen: &mut Seen) {
    let mut first = world.group(3, DEPTH);
    let mut second = world.group(3, DEPTH);
    let texts = |first: usize| (first..first + 10).map(|seed| pattern(seed, 64));
    let (ones, others): (Vec<_>, Vec<_>) = (texts(0).collect(), texts(500).collect());
    for round in 0..10 {
        let sender = round % 3;
        let heard = |own: &[Vec<u8>], found: &Vec<u8>| {
            assert!(own.contains(found), "a datagram of another group");
        };
        // Under way in one group while the other is listened to.
        send(&mut *second[1], To::All, &[], &others[round]);
        let receivers: Vec<usize> = (0..3).filter(|&member| member != sender).collect();
        let one = &ones[round];
        let check = |_, found| heard(&ones, &found);
        deliver(&mut first, sender, To::All, one, &receivers, seen, check);
        let check = |_, found| heard(&others, &found);
        deliver(
            &mut second,
            1,
            To::All,
            &others[round],
            &[0, 2],
            seen,
            check,
        );
    }
    let id = fresh();
    let rails = world.fabrics[0].multicast_rails().len() as u8;
    let mut by_rail = Vec::new();
    for rail in (0..rails).map(ferrorail_base::RailId) {
        let world = World { rail, ..*world };
        let mut groups: Vec<_> = (0..2).map(|i| world.join(i, id, DEPTH)).collect();
        introduce(&mut groups);
        by_rail.push(groups);
    }
    for round in 0..10 {
        for (rail, groups) in by_rail.iter_mut().enumerate() {
            broadcast(groups, 0, &pattern(rail * 100 + round, 128), seen);
        }
    }
}

/// Two of three members go on without the third, and with a member more under other numbers.
pub fn members_may_change<F: Multicast>(world: &World<'_, F>, seen: &mut Seen) {
    let id = fresh();
    let mut groups: Vec<_> = (0..3).map(|i| world.join(i, id, DEPTH)).collect();
    introduce(&mut groups);
    broadcast(&mut groups, 0, &pattern(1, 50), seen);
    drop(groups.remove(0));
    groups.push(world.join(3, id, DEPTH));
    groups.push(world.join(4, id, DEPTH));
    introduce(&mut groups);
    for group in &mut groups {
        received(&mut **group);
    }
    for sender in 0..4 {
        broadcast(&mut groups, sender, &pattern(10 + sender, 50), seen);
        let (target, private) = ((sender + 1) % 4, pattern(20 + sender, 60));
        let to = To::Member(target as u32);
        deliver(
            &mut groups,
            sender,
            to,
            &private,
            &[target],
            seen,
            |member, found| {
                assert!(member == target || found != private, "member {member} too");
            },
        );
    }
}
