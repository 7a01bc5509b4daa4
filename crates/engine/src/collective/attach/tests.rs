//! Teams of threads measure the ways of their own calls.

use super::*;
use crate::on_threads::on_ranks;
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
        let of_vectors = team.state().ways.of_vectors(Collective::Alltoall);
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
