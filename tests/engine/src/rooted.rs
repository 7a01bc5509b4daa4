//! Barrier, broadcast, gather, scatter and all-to-all of many shapes, ranks being threads.

use super::ranks::{
    SHAPES, allgather, every_algorithm, forced, on_few_ranks, on_ranks, settings, settings_of,
};
use ferrorail_base::Rank;
use ferrorail_base::config::Settings;
use ferrorail_base::random::SplitMix64;
use ferrorail_base::sync::{AtomicU32, Ordering};
use ferrorail_coll::{Collective, algorithms};
use ferrorail_engine::Team;
use ferrorail_test_data::{assert_same, contents, row};

const SIZES: [usize; 9] = [1, 8, 57, 1000, 1024, 5000, 40_000, 70_001, 300_000];

fn bcast(team: &Team, op: usize, bytes: usize, root: u32) {
    let mut buffer = match team.rank().0 == root {
        true => contents(root, 0, op, bytes),
        false => vec![0xee; bytes],
    };
    // SAFETY: the buffer holds `bytes` bytes and is this thread's.
    unsafe { team.bcast(buffer.as_mut_ptr(), bytes, Rank(root)) }.expect("a broadcast");
    let expected = contents(root, 0, op, bytes);
    assert_same(&buffer, &expected, format_args!("bcast {op} from {root}"));
}

fn gather(team: &Team, op: usize, bytes: usize, root: u32, in_place: bool) {
    let (rank, size) = (team.rank().0, team.size());
    let mine = contents(rank, root, op, bytes);
    let blocks = if rank == root { size as usize } else { 0 };
    let mut all = vec![0xee; blocks * bytes];
    let in_place = in_place && rank == root;
    if in_place {
        all[rank as usize * bytes..][..bytes].copy_from_slice(&mine);
    }
    let send = (!in_place).then_some(mine.as_ptr());
    // SAFETY: the buffers hold what their lengths say and are this thread's.
    unsafe { team.gather(send, all.as_mut_ptr(), bytes, Rank(root)) }.expect("a gather");
    for (from, found) in (0..).zip(all.chunks_exact(bytes)) {
        let expected = contents(from, root, op, bytes);
        let what = format_args!("gather {op} from {from} to {root}");
        assert_same(found, &expected, what);
    }
}

fn scatter(team: &Team, op: usize, bytes: usize, root: u32, in_place: bool) {
    let (rank, size) = (team.rank().0, team.size());
    let all = match rank == root {
        true => row(size, |to| contents(root, to, op, bytes)),
        false => Vec::new(),
    };
    let mut mine = vec![0xee; bytes];
    let in_place = in_place && rank == root;
    let recv = (!in_place).then_some(mine.as_mut_ptr());
    // SAFETY: the buffers hold what their lengths say and are this thread's.
    unsafe { team.scatter(all.as_ptr(), recv, bytes, Rank(root)) }.expect("a scatter");
    let expected = match in_place {
        true => vec![0xee; bytes],
        false => contents(root, rank, op, bytes),
    };
    assert_same(&mine, &expected, format_args!("scatter {op} from {root}"));
}

fn alltoall(team: &Team, op: usize, bytes: usize) {
    let (rank, size) = (team.rank().0, team.size());
    let send = row(size, |to| contents(rank, to, op, bytes));
    let mut recv = vec![0xee; send.len()];
    // SAFETY: the buffers hold a block per rank and are this thread's.
    unsafe { team.alltoall(send.as_ptr(), recv.as_mut_ptr(), bytes) }.expect("an all-to-all");
    for (from, found) in (0..).zip(recv.chunks_exact(bytes)) {
        let expected = contents(from, rank, op, bytes);
        assert_same(
            found,
            &expected,
            format_args!("all-to-all {op} from {from}"),
        );
    }
}

fn every_root(team: &Team, body: impl Fn(usize, usize, u32)) {
    for (op, bytes) in SIZES.into_iter().enumerate() {
        body(op, bytes, op as u32 % team.size());
    }
    for root in 0..team.size() {
        for op in 0..4 {
            body(op, 100 + 300 * op, root);
        }
    }
}

#[test]
fn few_ranks_go_straight_or_through_the_segment() {
    on_few_ranks(|team| {
        for _ in 0..4 {
            every_root(team, |op, bytes, root| {
                bcast(team, op, bytes, root);
                gather(team, op, bytes, root, op % 3 == 1);
                scatter(team, op, bytes, root, op % 3 == 2);
                alltoall(team, op, bytes);
                assert!(allgather(team, op, bytes).expect("an all-gather"));
            });
        }
    });
}

#[test]
fn broadcasts_by_every_algorithm() {
    every_algorithm(Collective::Bcast, |team| {
        every_root(team, |op, bytes, root| bcast(team, op, bytes, root));
    });
}

#[test]
fn gathers_by_every_algorithm() {
    every_algorithm(Collective::Gather, |team| {
        every_root(team, |op, bytes, root| {
            gather(team, op, bytes, root, op % 3 == 1)
        });
    });
}

/// A node passes its blocks on to the root in scratch, at whose end the root lays out what it tells other nodes.
#[test]
fn blocks_that_fill_scratch_stay_whole_beside_ready_to_receive_messages() {
    for algorithm in algorithms(Collective::Gather) {
        let scratch = 64 << 10;
        let settings = Settings {
            zero_copy: Some(true),
            scratch_bytes: Some(scratch),
            ..forced(settings(2, 2), "gather", algorithm.name)
        };
        let filling = scratch as usize / 2;
        on_ranks(4, &settings, |team| {
            for (op, bytes) in [filling - 32, filling, filling - 100]
                .into_iter()
                .enumerate()
            {
                if team.rank().0 == 2 {
                    std::thread::sleep(std::time::Duration::from_millis(30));
                }
                gather(team, op, bytes, 2, false);
            }
        });
    }
}

#[test]
fn scatters_by_every_algorithm() {
    every_algorithm(Collective::Scatter, |team| {
        every_root(team, |op, bytes, root| {
            scatter(team, op, bytes, root, op % 3 == 1)
        });
    });
}

#[test]
fn exchanges_by_every_algorithm() {
    every_algorithm(Collective::Alltoall, |team| {
        for (op, bytes) in SIZES.into_iter().enumerate() {
            alltoall(team, op, bytes);
        }
    });
}

#[test]
fn nobody_leaves_a_barrier_early() {
    for (size, settings) in settings_of(Collective::Barrier) {
        let entered = AtomicU32::new(0);
        on_ranks(size, &settings, |team| {
            for round in 1..=30 {
                entered.fetch_add(1, Ordering::Relaxed);
                team.barrier().expect("a barrier");
                assert!(entered.load(Ordering::Relaxed) >= round * size);
            }
        });
    }
}

/// A root far ahead of the others neither overwrites what they have not read nor runs out.
#[test]
fn ten_thousand_broadcasts_to_a_slow_receiver() {
    for (size, node_size) in [(3, 3), (4, 2), (3, 1)] {
        on_ranks(size, &settings(node_size, 2), |team| {
            for op in 0..10_000 {
                if team.rank().0 == size - 1 && op % 2000 == 7 {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                bcast(team, op, 8, 0);
            }
        });
    }
}

#[test]
fn collectives_mix() {
    for (size, node_size) in SHAPES {
        on_ranks(size, &settings(node_size, 2), |team| {
            let mut random = SplitMix64(12345);
            for op in 0..300 {
                let state = random.draw();
                let (kind, bytes) = (state >> 33, 1 + (state >> 40) as usize % 3000);
                let root = (state >> 20) as u32 % team.size();
                match kind % 6 {
                    0 => bcast(team, op, bytes, root),
                    1 => gather(team, op, bytes, root, op % 2 == 0),
                    2 => scatter(team, op, bytes, root, op % 2 == 0),
                    3 => alltoall(team, op, bytes),
                    4 => team.barrier().expect("a barrier"),
                    _ => assert!(allgather(team, op, 8).expect("a result")),
                }
            }
        });
    }
}

/// Operations of all widths in one row of channels, and some of no bytes, which take none: nobody waits
/// for the end of one that no rank says it has finished.
#[test]
fn wide_and_empty_operations_alternate() {
    for (size, node_size) in [(4, 2), (7, 3), (3, 1), (8, 8)] {
        let settings = Settings {
            zero_copy: Some(false),
            scratch_bytes: Some(4096),
            ..settings(node_size, 2)
        };
        on_ranks(size, &settings, |team| {
            let mut seed = 7u32;
            for op in 0..150 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let bytes = [1, 600, 3000, 9000, 16_000, 30_000][(seed >> 24) as usize % 6];
                match seed >> 16 & 3 {
                    0 => bcast(team, op, bytes, seed >> 8 & 1),
                    1 => gather(team, op, bytes, seed >> 8 & 1, false),
                    _ => alltoall(team, op, bytes),
                }
                if seed >> 20 & 1 == 0 {
                    // SAFETY: of no bytes.
                    unsafe { team.bcast(std::ptr::null_mut(), 0, Rank(0)) }.expect("nothing");
                }
            }
        });
    }
}
