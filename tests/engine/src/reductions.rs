//! The reductions of many shapes, ranks being threads: kernels, and operations that do not commute
//! on elements of odd sizes.

use super::ranks::{self, SHAPES, on_ranks, settings};
use ferrorail_base::Rank;
use ferrorail_base::random::SplitMix64;
use ferrorail_coll::Collective;
use ferrorail_engine::{Block, Combine, EngineError, LocalReduction, Order, Reducer, Team};
use ferrorail_reduce::{Number, Operator, kernel};
use ferrorail_test_data::is_filled_with;
use ferrorail_test_data::maps::{self, MAP_BYTES, reduced, vector};
use std::slice;

struct Composition;

impl LocalReduction for Composition {
    unsafe fn combine(
        &self,
        from: *const u8,
        into: *mut u8,
        elements: usize,
        order: Order,
    ) -> Result<(), EngineError> {
        let bytes = elements * MAP_BYTES;
        // SAFETY: the caller has so many elements on both sides, which do not overlap.
        let (from, into) = unsafe {
            (
                slice::from_raw_parts(from, bytes),
                slice::from_raw_parts_mut(into, bytes),
            )
        };
        maps::combine(from, into, order == Order::FromFirst);
        Ok(())
    }
}

const COMPOSE: Reducer<'static> = Reducer {
    element_bytes: MAP_BYTES,
    commutes: false,
    combine: Combine::Call(&Composition),
};

fn sum(number: Number) -> Reducer<'static> {
    Reducer {
        element_bytes: number.bytes(),
        commutes: true,
        combine: Combine::Kernel(kernel(Operator::Sum, number).expect("sums")),
    }
}

/// Lengths in elements of five bytes; the longest exceed scratch.
const COUNTS: [usize; 10] = [1, 2, 7, 11, 12, 100, 819, 3000, 13_200, 40_001];

/// One operation into memory of which only `written` bytes may change.
struct Buffers {
    send: Vec<u8>,
    recv: Vec<u8>,
    in_place: bool,
}

impl Buffers {
    fn new(mine: Vec<u8>, received: usize, in_place: bool) -> Self {
        let mut recv = vec![0xee; mine.len().max(received) + 3];
        if in_place {
            recv[..mine.len()].copy_from_slice(&mine);
        }
        Self {
            send: mine,
            recv,
            in_place,
        }
    }

    fn send(&self) -> Option<*const u8> {
        (!self.in_place).then_some(self.send.as_ptr())
    }

    fn verify(&self, expected: &[u8], what: &str) {
        assert!(self.recv[..expected.len()] == *expected, "{what}");
        let rest = &self.recv[expected.len()..];
        let (kept, beyond) = rest.split_at(match self.in_place {
            true => self.send.len().saturating_sub(expected.len()),
            false => 0,
        });
        assert!(kept.is_empty() || expected.is_empty() || kept.len() < self.send.len());
        assert!(is_filled_with(beyond, 0xee), "{what}: too much written");
    }
}

/// Elements of each rank's block; of a whole vector, as if rank 0 had it.
fn lengths(collective: Collective, size: u32, op: usize, elements: usize) -> Vec<usize> {
    let of = |rank: usize| match collective {
        Collective::ReduceScatterBlock => elements,
        Collective::ReduceScatter => elements * ((rank + op) % 3) / 2 + (rank + op) % 2,
        _ if rank == 0 => elements,
        _ => 0,
    };
    (0..size as usize).map(of).collect()
}

fn one(team: &Team, collective: Collective, op: usize, elements: usize, root: u32, in_place: bool) {
    let (rank, size) = (team.rank().0, team.size());
    let what = format!("{collective} {op} of {elements}, root {root}, in place {in_place}");
    let lengths = lengths(collective, size, op, elements);
    let total: usize = lengths.iter().sum();
    let skip = lengths[..rank as usize].iter().sum();
    let elements = match collective {
        Collective::ReduceScatterBlock | Collective::ReduceScatter => lengths[rank as usize],
        _ => elements,
    };
    let table: Vec<Block> = (0..size as usize)
        .map(|peer| Block {
            offset: (lengths[..peer].iter().sum::<usize>() * MAP_BYTES) as isize,
            bytes: lengths[peer] * MAP_BYTES,
        })
        .collect();
    let in_place = in_place && (collective != Collective::Reduce || rank == root);
    let mine = vector(rank, op, total);
    let mut buffers = Buffers::new(mine, elements * MAP_BYTES, in_place);
    let (send, recv) = (buffers.send(), buffers.recv.as_mut_ptr());
    // SAFETY: the buffers hold a vector and are this thread's.
    let (outcome, expected) = unsafe {
        match collective {
            Collective::Allreduce => (
                team.allreduce(send, recv, elements, &COMPOSE),
                reduced(size, op, 0, elements),
            ),
            Collective::Reduce => (
                team.reduce(send, recv, elements, Rank(root), &COMPOSE),
                match rank == root {
                    true => reduced(size, op, 0, elements),
                    false => Vec::new(),
                },
            ),
            Collective::ReduceScatterBlock => (
                team.reduce_scatter_block(send, recv, elements, &COMPOSE),
                reduced(size, op, skip, elements),
            ),
            Collective::ReduceScatter => (
                team.reduce_scatter(send, recv, &table, &COMPOSE),
                reduced(size, op, skip, elements),
            ),
            Collective::Scan => (
                team.scan(send, recv, elements, &COMPOSE),
                reduced(rank + 1, op, 0, elements),
            ),
            _ => (
                team.exscan(send, recv, elements, &COMPOSE),
                match rank {
                    0 => buffers.recv[..if in_place { elements * MAP_BYTES } else { 0 }].to_vec(),
                    _ => reduced(rank, op, 0, elements),
                },
            ),
        }
    };
    outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
    buffers.verify(&expected, &what);
}

fn every_algorithm(collective: Collective) {
    ranks::every_algorithm(collective, |team| {
        let size = team.size();
        for (op, elements) in COUNTS.into_iter().enumerate() {
            let root = op as u32 % size;
            one(team, collective, op, elements, root, false);
            one(team, collective, op, elements / 3 + 1, root, true);
        }
        for root in 0..size {
            for op in 0..24 {
                one(team, collective, op, 1 + op * op, root, op % 5 == 1);
            }
        }
    });
}

#[test]
fn all_reductions_by_every_algorithm() {
    every_algorithm(Collective::Allreduce);
}

#[test]
fn reductions_by_every_algorithm() {
    every_algorithm(Collective::Reduce);
}

#[test]
fn scattered_reductions_by_every_algorithm() {
    every_algorithm(Collective::ReduceScatterBlock);
    every_algorithm(Collective::ReduceScatter);
}

#[test]
fn scans_by_every_algorithm() {
    every_algorithm(Collective::Scan);
    every_algorithm(Collective::Exscan);
}

/// Floating-point sums depend on their bracketing, which must be the same on all ranks.
#[test]
fn sums_are_the_same_to_the_bit_everywhere() {
    ranks::every_algorithm(Collective::Allreduce, |team| {
        let size = team.size();
        for elements in [1usize, 5, 7, 100, 20_000] {
            let element = |i: usize| 1.0 / (3.0 + i as f64 + 1000.0 * f64::from(team.rank().0));
            let mine: Vec<f64> = (0..elements).map(element).collect();
            let mut total = vec![0f64; elements];
            let mut all = vec![0f64; elements * size as usize];
            let (from, into) = (mine.as_ptr().cast(), total.as_mut_ptr().cast());
            // SAFETY: the buffers hold vectors of that length and are this thread's.
            unsafe {
                team.allreduce(Some(from), into, elements, &sum(Number::F64))
                    .expect("an all-reduce");
                let (from, into) = (total.as_ptr().cast(), all.as_mut_ptr().cast());
                team.allgather(Some(from), into, 8 * elements)
                    .expect("an all-gather");
            }
            for theirs in all.chunks_exact(elements) {
                assert!(theirs == total, "{elements} elements");
            }
            let exact: f64 = (0..size)
                .map(|rank| 1.0 / (3.0 + 1000.0 * f64::from(rank)))
                .sum();
            assert!((total[0] - exact).abs() < 1e-14, "{} {exact}", total[0]);
        }
    });
}

/// Rooted and other reductions, and all-gathers, in the same slots and channels, somebody being
/// late now and then.
#[test]
fn small_operations_mix() {
    for (size, node_size) in SHAPES {
        on_ranks(size, &settings(node_size, 2), |team| {
            let mut random = SplitMix64(99);
            for op in 0..4000 {
                let state = random.draw();
                let (kind, elements) = (state >> 33, 1 + (state >> 40) as usize % 12);
                let root = (state >> 20) as u32 % size;
                if state >> 50 & 0xff == u64::from(team.rank().0) {
                    std::thread::sleep(std::time::Duration::from_micros(300));
                }
                let in_place = op % 3 == 0;
                match kind % 7 {
                    0..=2 => one(team, Collective::Reduce, op, elements, root, in_place),
                    3 => one(team, Collective::Allreduce, op, elements, 0, in_place),
                    4 => one(team, Collective::ReduceScatterBlock, op, 1, 0, in_place),
                    5 => one(team, Collective::Exscan, op, elements, 0, in_place),
                    _ => assert!(ranks::allgather(team, op, 8).expect("a result")),
                }
            }
        });
    }
}

/// An element that has no room in scratch is refused by all ranks, and the team goes on.
#[test]
fn too_large_an_element_is_refused_at_once() {
    let mut settings = settings(1, 1);
    settings.scratch_bytes = Some(4096);
    on_ranks(3, &settings, |team| {
        let mine = vec![1u8; 40_000];
        let mut result = vec![0u8; 40_000];
        let huge = Reducer {
            element_bytes: 40_000,
            ..COMPOSE
        };
        let (from, into) = (mine.as_ptr(), result.as_mut_ptr());
        // SAFETY: one element on either side.
        let outcome = unsafe { team.allreduce(Some(from), into, 1, &huge) };
        assert!(matches!(
            outcome,
            Err(EngineError::ElementTooLarge { bytes: 40_000 })
        ));
        one(team, Collective::Allreduce, 1, 100, 0, false);
    });
}
