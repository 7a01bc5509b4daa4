//! Teams of threads measure the ways of their own calls.

use super::*;
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

/// What a call takes of rotating scratch depends on the times, and the next one begins where it ends.
#[test]
fn a_rank_without_long_blocks_goes_by_the_same_times() {
    const RANKS: usize = 4;
    const LONG: usize = 60 << 10;
    for percent in [150, 50] {
        on_ranks(RANKS as u32, &Settings::default(), |team| {
            let me = team.map.rank.index();
            {
                let (mut state, class) = (team.state(), (Collective::Alltoall, 16));
                state.ways.next(class, (LONG, LONG), || true);
                decide(&team.map, &mut state, class, percent);
            }
            let mut received = vec![0; RANKS * LONG];
            for call in 0..100 {
                let sent: Vec<u8> = (0..RANKS * LONG)
                    .map(|at| (call + 5 * me + at / LONG) as u8)
                    .collect();
                let blocks: [Block; RANKS] = std::array::from_fn(|peer| Block {
                    offset: (peer * LONG) as isize,
                    bytes: if me == 0 || peer == 0 {
                        64
                    } else {
                        LONG - 1000 * (call % 9)
                    },
                });
                received.fill(0);
                let (from, to) = (sent.as_ptr(), received.as_mut_ptr());
                // SAFETY: four blocks each, which nobody else uses.
                let outcome = unsafe { team.alltoallv(from, &blocks, to, &blocks) };
                outcome.expect("an all-to-all with lengths");
                let expected = |peer: usize| (call + 5 * peer + me) as u8;
                for (peer, block) in received.chunks(LONG).enumerate() {
                    let (own, rest) = block.split_at(blocks[peer].bytes);
                    assert!(
                        own.iter().all(|&byte| byte == expected(peer)),
                        "call {call}"
                    );
                    assert!(rest.iter().all(|&byte| byte == 0), "call {call}");
                }
                let bytes = 20_000 + 977 * (call % 12);
                let (from, to) = (sent.as_ptr(), received.as_mut_ptr());
                // SAFETY: four blocks each, which nobody else uses.
                let outcome = unsafe { team.alltoall(from, to, bytes) };
                outcome.expect("an all-to-all");
                for (at, &byte) in received[..RANKS * bytes].iter().enumerate() {
                    let (peer, place) = (at / bytes, me * bytes + at % bytes);
                    assert_eq!(byte, (call + 5 * peer + place / LONG) as u8, "call {call}");
                }
            }
        });
    }
}
