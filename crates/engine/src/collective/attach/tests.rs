//! Teams of threads measure the ways of their own calls.

use super::*;
use crate::Team;
use crate::on_threads::on_ranks;
use crate::run::Block;
use crate::ways::OF_VECTORS;
use ferrorail_base::config::Settings;
use ferrorail_coll::Collective;

const CLASS: Class = (Collective::Alltoall, OF_VECTORS);

#[test]
fn all_ranks_come_to_the_same_time_of_their_own_calls() {
    const BYTES: usize = 100 << 10;
    let percents = Mutex::new(Vec::new());
    on_ranks(3, &Settings::default(), |team| {
        let sent = vec![team.map.rank.0 as u8; 3 * BYTES];
        let mut received = vec![0u8; 3 * BYTES];
        for call in 0..200 {
            received.fill(call);
            // SAFETY: three blocks each, which nobody else uses.
            let outcome = unsafe { team.alltoall(sent.as_ptr(), received.as_mut_ptr(), BYTES) };
            outcome.expect("an all-to-all");
            for (from, block) in received.chunks(BYTES).enumerate() {
                assert!(block.iter().all(|&byte| byte == from as u8), "call {call}");
            }
        }
        let of_vectors = team.state().ways.of_vectors(Collective::Alltoallv);
        percents.lock().push(of_vectors);
    });
    let percents = percents.lock();
    assert!(percents.len() == 3 && percents[0] > 0, "{percents:?}");
    assert!(percents[0] < NOT_MEASURED, "{percents:?}");
    let alike = |&percent: &u32| percent == percents[0];
    assert!(percents.iter().all(alike), "{percents:?}");
}

#[test]
fn times_are_of_teams_with_as_much_scratch() {
    let of = |scratch_bytes| Settings {
        scratch_bytes,
        ..Settings::default()
    };
    on_ranks(2, &of(Some(8 << 10)), |team| keep(&team.map, CLASS, 77));
    on_ranks(2, &of(Some(8 << 10)), |team| {
        assert_eq!(recent(&team.map, CLASS), Some(77));
        assert_eq!(recent(&team.map, (Collective::Alltoall, 18)), None);
    });
    on_ranks(2, &of(Some(16 << 10)), |team| {
        assert_eq!(recent(&team.map, CLASS), None);
    });
}

const RANKS: usize = 4;
const LONG: usize = 60 << 10;

/// An all-to-all with lengths in which rank 0 neither sends nor receives long blocks, checked.
fn exchange_but_with_rank_0(team: &Team, call: usize) {
    let me = team.map.rank.index();
    let sent: Vec<u8> = (0..RANKS * LONG)
        .map(|at| (call + 5 * me + at / LONG) as u8)
        .collect();
    let mut received = vec![0; RANKS * LONG];
    let blocks: [Block; RANKS] = std::array::from_fn(|peer| Block {
        offset: (peer * LONG) as isize,
        bytes: match me == 0 || peer == 0 {
            true => 64,
            false => LONG - 1000 * (call % 9),
        },
    });
    let (from, to) = (sent.as_ptr(), received.as_mut_ptr());
    // SAFETY: four blocks each, which nobody else uses.
    let outcome = unsafe { team.alltoallv(from, &blocks, to, &blocks) };
    outcome.expect("an all-to-all with lengths");
    for (peer, block) in received.chunks(LONG).enumerate() {
        let (own, rest) = block.split_at(blocks[peer].bytes);
        let expected = (call + 5 * peer + me) as u8;
        assert!(own.iter().all(|&byte| byte == expected), "call {call}");
        assert!(rest.iter().all(|&byte| byte == 0), "call {call}");
    }
}

/// An all-to-all through the segment, checked.
fn exchange_with_all(team: &Team, call: usize) {
    let (me, bytes) = (team.map.rank.index(), 20_000 + 977 * (call % 12));
    let sent: Vec<u8> = (0..RANKS * bytes)
        .map(|at| (call + 5 * me + at / bytes) as u8)
        .collect();
    let mut received = vec![0; RANKS * bytes];
    let (from, to) = (sent.as_ptr(), received.as_mut_ptr());
    // SAFETY: four blocks each, which nobody else uses.
    let outcome = unsafe { team.alltoall(from, to, bytes) };
    outcome.expect("an all-to-all");
    for (peer, block) in received.chunks(bytes).enumerate() {
        let expected = (call + 5 * peer + me) as u8;
        assert!(block.iter().all(|&byte| byte == expected), "call {call}");
    }
}

/// What a call takes of rotating scratch depends on the times, and the next one begins where it ends.
#[test]
fn a_rank_without_long_blocks_goes_by_the_same_times() {
    for percent in [150, 50] {
        on_ranks(RANKS as u32, &Settings::default(), |team| {
            {
                let (mut state, class) = (team.state(), (Collective::Alltoall, 16));
                state.ways.next(class, (LONG, LONG), || true);
                decide(&team.map, &mut state, class, percent);
            }
            for call in 0..100 {
                exchange_but_with_rank_0(team, call);
                exchange_with_all(team, call);
            }
        });
    }
}

#[test]
fn vector_forms_are_timed_of_which_no_rank_knows_all_lengths() {
    let percents = Mutex::new(Vec::new());
    on_ranks(RANKS as u32, &Settings::default(), |team| {
        for call in 0..500 {
            exchange_but_with_rank_0(team, call);
            if call % 7 == 0 {
                exchange_with_all(team, call);
            }
        }
        let of_vectors = team.state().ways.of_vectors(Collective::Alltoallv);
        percents.lock().push(of_vectors);
    });
    let percents = percents.lock();
    assert!(percents.len() == RANKS && percents[0] > 0, "{percents:?}");
    assert!(percents[0] < ATTACH_SLOWEST, "{percents:?}");
    let alike = |&percent: &u32| percent == percents[0];
    assert!(percents.iter().all(alike), "{percents:?}");
}

#[test]
fn vector_forms_without_long_blocks_are_not_timed() {
    on_ranks(3, &Settings::default(), |team| {
        let blocks: [Block; 3] = std::array::from_fn(|peer| Block {
            offset: 200 * peer as isize,
            bytes: 100,
        });
        let (sent, mut received) = ([7u8; 600], [0u8; 600]);
        for _ in 0..2000 {
            let (from, to) = (sent.as_ptr(), received.as_mut_ptr());
            // SAFETY: three blocks each, which nobody else uses.
            let outcome = unsafe { team.alltoallv(from, &blocks, to, &blocks) };
            outcome.expect("an all-to-all with lengths");
        }
        let of_vectors = team.state().ways.of_vectors(Collective::Alltoallv);
        assert_eq!(of_vectors, NOT_MEASURED);
    });
}
