//! All-gathers of many shapes, with the ranks as threads of this process.

use super::ranks::{every_algorithm, on_ranks, settings};
use ferrorail_base::config::Settings;
use ferrorail_base::sync::{AtomicU32, Ordering};
use ferrorail_coll::Collective;
use ferrorail_engine::Team;
use ferrorail_test_data::{assert_same, contents, is_filled_with};

/// One all-gather of `bytes` bytes, checked byte by byte; nothing around the result is touched.
fn check(team: &Team, op: usize, bytes: usize, in_place: bool) {
    const GUARD: usize = 64;
    let (rank, size) = (team.rank().0, team.size() as usize);
    let mine = contents(rank, 0, op, bytes);
    let mut all = vec![0xee; size * bytes + 2 * GUARD];
    let recv = &mut all[GUARD..GUARD + size * bytes];
    if in_place {
        recv[rank as usize * bytes..][..bytes].copy_from_slice(&mine);
    }
    let send = (!in_place).then_some(mine.as_ptr());
    // SAFETY: `mine` holds `bytes` bytes, `recv` that many per rank; both are this thread's.
    unsafe { team.allgather(send, recv.as_mut_ptr(), bytes) }.expect("an all-gather");
    for (from, block) in (0..).zip(recv.chunks_exact(bytes.max(1))) {
        let expected = contents(from, 0, op, bytes);
        assert_same(
            block,
            &expected,
            format_args!("of {from} at {rank}, op {op}"),
        );
    }
    let guards = [&all[..GUARD], &all[GUARD + size * bytes..]];
    assert!(guards.iter().all(|guard| is_filled_with(guard, 0xee)));
}

fn every_size(team: &Team) {
    let sizes = [0, 1, 7, 8, 56, 57, 64, 1000, 1024, 4096, 40_000, 300_000];
    for (op, bytes) in sizes.into_iter().enumerate() {
        check(team, op, bytes, op % 3 == 1);
    }
    for op in 0..50 {
        check(team, op, 1 + op * 37 % 2000, op % 2 == 0);
    }
}

#[test]
fn every_algorithm_on_many_shapes() {
    every_algorithm(Collective::Allgather, every_size);
}

#[test]
fn the_table_s_choices_on_many_shapes() {
    for (size, node_size, rails) in [(1, 4, 1), (2, 2, 1), (3, 3, 2), (4, 1, 3), (6, 4, 2)] {
        on_ranks(size, &settings(node_size, rails), every_size);
    }
}

#[test]
fn ports_differ_from_rails() {
    for ports in [1, 3, 5] {
        let settings = Settings {
            ports: Some(ports),
            ..settings(1, 2)
        };
        on_ranks(7, &settings, every_size);
    }
}

#[test]
fn zero_copy_off_moves_large_messages_in_pieces() {
    let settings = Settings {
        zero_copy: Some(false),
        ..settings(2, 2)
    };
    on_ranks(4, &settings, |team| check(team, 1, 3_000_001, false));
}

#[test]
fn late_ranks_are_waited_for() {
    on_ranks(4, &settings(2, 2), |team| {
        for op in 0..6 {
            if team.rank().0 as usize == op % 4 {
                std::thread::sleep(std::time::Duration::from_millis(30));
            }
            check(team, op, 5000, false);
        }
    });
}

#[test]
fn a_peer_that_never_comes_is_an_error_within_the_timeout() {
    let settings = Settings {
        peer_timeout_s: Some(1),
        ..settings(2, 2)
    };
    let given_up = AtomicU32::new(0);
    on_ranks(3, &settings, |team| {
        check(team, 0, 100, false);
        if team.rank().0 == 2 {
            // It is alive and keeps its memory, but does not call.
            while given_up.load(Ordering::Acquire) < 2 {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            return;
        }
        let mine = [1u8; 100];
        let mut all = [0u8; 300];
        // SAFETY: the buffers hold 100 bytes and 100 per rank.
        let outcome = unsafe { team.allgather(Some(mine.as_ptr()), all.as_mut_ptr(), 100) };
        given_up.fetch_add(1, Ordering::Release);
        let text = outcome.expect_err("rank 2 is not there").to_string();
        // The first whose time is up tells the other.
        let told = text.contains("left the communicator after an error");
        assert!(told || text.contains("FERRORAIL_PEER_TIMEOUT"), "{text}");
        // SAFETY: as above.
        let again = unsafe { team.allgather(Some(mine.as_ptr()), all.as_mut_ptr(), 100) };
        assert!(again.is_err(), "a team is unusable after an error");
    });
}

#[test]
fn calls_are_counted() {
    let context = on_ranks(4, &settings(2, 2), |team| {
        for op in 0..10 {
            check(team, op, 4096, false);
        }
    });
    let (calls, forwarded) = context.stats().rows();
    assert_eq!(calls.iter().map(|row| row.calls).sum::<u64>(), 40);
    assert_eq!(calls[0].size_class_bytes, 4096);
    assert_eq!(calls[0].bytes, 40 * 4096);
    // Each of 10 times, one round in which both leaders put once.
    assert_eq!((calls[0].rounds, calls[0].messages), (40, 20));
    assert!(calls[0].chosen_by.starts_with("rule "), "{calls:?}");
    assert!(calls[0].predicted_total_us > 40.0, "{calls:?}");
    assert!(forwarded.is_empty());
}
