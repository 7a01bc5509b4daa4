//! Teams of freed communicators that serve others.

use super::ranks::{SHAPES, on_ranks, on_worlds, settings};
use ferrorail_base::Rank;
use ferrorail_base::sync::Mutex;
use ferrorail_bootstrap::Oob;
use ferrorail_engine::{Context, NoHost, Team};

const SIZE: u32 = 3;

/// Broadcasts of changing roots, which may be ahead of who receives, and what depends on all ranks.
fn use_it(team: &Team, seed: u64) {
    for round in 0..100 {
        let root = Rank((round % u64::from(SIZE)) as u32);
        let mut value = match root == team.rank() {
            true => seed + round,
            false => 0,
        };
        // SAFETY: the value is live, and as long as it says.
        unsafe { team.bcast((&raw mut value).cast(), 8, root) }.expect("a broadcast");
        assert_eq!(value, seed + round);
    }
    team.barrier().expect("a barrier");
}

#[test]
fn a_parked_team_serves_other_communicators() {
    let context = Context::new(settings(SIZE, 1), Box::new(NoHost));
    let identities = Mutex::new(Vec::new());
    // The first communicator's messages, then those of the others.
    on_worlds(SIZE, 4, |mut oobs| {
        let first = oobs.remove(0);
        let team = Team::create(&context, context.settings(), Box::new(first));
        let team = team.expect("a team");
        use_it(&team, 1);
        for (number, oob) in oobs.into_iter().enumerate() {
            let identity = team.park().expect("intact, on one node");
            assert_eq!(team.park(), None, "nobody uses it");
            assert!(team.barrier().is_err(), "nobody uses it");
            identities.lock().push((number, identity));
            team.adopt(Box::new(oob));
            use_it(&team, 1000 * number as u64);
            assert!(team.any(team.rank() == Rank(2)).expect("an exchange"));
        }
        team.free();
    });
    let identities = identities.lock().clone();
    assert_eq!(identities.len(), 3 * SIZE as usize);
    for number in 0..3 {
        let mut same = identities.iter().filter(|(of, _)| *of == number);
        let (_, first) = same.next().expect("one of each rank");
        assert!(same.all(|(_, identity)| identity == first), "{number}");
    }
}

/// Who has counted otherwise must not meet the others on a communicator that has just been made.
#[test]
fn a_rank_that_is_out_of_step_does_not_find_the_parked_team_of_the_others() {
    let context = Context::new(settings(SIZE, 1), Box::new(NoHost));
    let identities = Mutex::new(Vec::new());
    on_worlds(SIZE, 1, |mut oobs| {
        let team = Team::create(&context, context.settings(), Box::new(oobs.remove(0)));
        let team = team.expect("a team");
        let mut value = 0u64;
        // Rank 1 is the root of another broadcast, which waits for nobody.
        for _ in 0..if team.rank() == Rank(1) { 2 } else { 1 } {
            let address = (&raw mut value).cast();
            // SAFETY: the value is live, and as long as it says.
            unsafe { team.bcast(address, 8, Rank(1)) }.expect("a broadcast");
        }
        let identity = team.park().expect("intact, on one node");
        identities.lock().push((team.rank(), identity));
    });
    let identities = identities.lock();
    let of = |rank: u32| identities.iter().find(|(of, _)| *of == Rank(rank));
    let of = |rank: u32| of(rank).expect("one of each rank").1;
    assert_eq!(of(0), of(2));
    assert_ne!(of(0), of(1));
}

#[test]
fn teams_of_one_node_are_parked() {
    for (size, node_size) in SHAPES {
        on_ranks(size, &settings(node_size, 1), |team| {
            team.barrier().expect("a barrier");
            let parked = team.park().is_some();
            assert_eq!(parked, size > 1 && size == node_size, "{size}");
            assert_eq!(team.barrier().is_err(), parked, "others go on");
        });
    }
}

#[test]
fn teams_made_beside_another_do_not_touch_each_other() {
    let context = Context::new(settings(SIZE, 1), Box::new(NoHost));
    on_worlds(SIZE, 4, |mut oobs| {
        let first = Box::new(oobs.remove(0));
        // The leader decides.
        let wanted = if first.rank() == Rank(0) { 3 } else { 9 };
        let made = Team::create_with_spares(&context, context.settings(), first, wanted);
        let (first, spares) = made.expect("a team");
        assert_eq!(spares.len(), 3);
        let mut identities: Vec<_> = spares.iter().map(Team::identity).collect();
        identities.extend([first.identity(), None]);
        let count = identities.len();
        identities.sort_unstable();
        identities.dedup();
        assert_eq!(identities.len(), count, "{identities:?}");
        for (team, oob) in spares.iter().zip(oobs) {
            assert_eq!(team.node_bytes(), 0, "never used");
            assert!(team.barrier().is_err(), "nobody uses it");
            assert_eq!(team.park(), None, "it is");
            team.adopt(Box::new(oob));
        }
        // Each keeps its own count of operations.
        for round in 1..4 {
            for (number, team) in spares.iter().chain([&*first]).enumerate().skip(round % 2) {
                use_it(team, 1000 * number as u64);
            }
        }
        assert!(spares.iter().all(|team| team.node_bytes() > 0));
        // The memory lives as long as any of them.
        first.free();
        drop(first);
        spares.iter().for_each(|team| use_it(team, 7));
        spares.iter().for_each(Team::free);
    });
}
