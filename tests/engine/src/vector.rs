//! The vector forms on many shapes, ranks being threads: lengths from nothing to more than scratch
//! holds, blocks in any order with gaps between, with and without zero-copy.

use super::ranks::{self, SHAPES, on_few_ranks, on_ranks, settings};
use ferrorail_base::Rank;
use ferrorail_base::config::Settings;
use ferrorail_coll::Collective;
use ferrorail_engine::{Block, Team};

const GAP: usize = 24;

/// Length of what `from` has for `to` in operation `op`: mostly small, some empty, some large.
fn length(from: u32, to: u32, op: usize) -> usize {
    let draw = ((from as usize * 7 + to as usize * 13 + op * 31) * 2_654_435_761) >> 7;
    [0, 1, 8, 57, 0, 1000, 40_000, 3, 70_001, 33_000, 300_000, 64][draw % (5 + op % 8)]
}

fn contents(from: u32, to: u32, op: usize) -> Vec<u8> {
    ferrorail_test_data::contents(from, to, op, length(from, to, op))
}

/// A buffer of blocks that lie in another order than their ranks, with gaps.
struct Buffer {
    memory: Vec<u8>,
    blocks: Vec<Block>,
}

impl Buffer {
    fn new(lengths: impl Iterator<Item = usize>) -> Self {
        let mut blocks: Vec<Block> = lengths.map(|bytes| Block { offset: 0, bytes }).collect();
        let mut next = GAP;
        for block in blocks.iter_mut().rev() {
            block.offset = next as isize;
            next += block.bytes + GAP;
        }
        let memory = vec![0xee; next];
        Self { memory, blocks }
    }

    fn fill(&mut self, index: u32, bytes: &[u8]) {
        let offset = self.blocks[index as usize].offset as usize;
        self.memory[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

fn allgatherv(team: &Team, op: usize, in_place: bool) {
    let rank = team.rank().0;
    let mut recv = Buffer::new((0..team.size()).map(|from| length(from, 0, op)));
    let mut wanted = Buffer::new((0..team.size()).map(|from| length(from, 0, op)));
    for from in 0..team.size() {
        wanted.fill(from, &contents(from, 0, op));
    }
    let mine = contents(rank, 0, op);
    if in_place {
        recv.fill(rank, &mine);
    }
    let send = (!in_place).then_some(mine.as_ptr());
    let base = recv.memory.as_mut_ptr();
    // SAFETY: the blocks lie in this thread's buffers.
    unsafe { team.allgatherv(send, base, &recv.blocks) }.expect("an all-gather");
    assert!(recv.memory == wanted.memory, "allgatherv {op}");
}

fn gatherv(team: &Team, op: usize, root: u32, in_place: bool) {
    let (rank, lengths) = (team.rank().0, |from| length(from, root, op));
    let count = if rank == root { team.size() } else { 0 };
    let mut recv = Buffer::new((0..count).map(lengths));
    let mut wanted = Buffer::new((0..count).map(lengths));
    for from in 0..count {
        wanted.fill(from, &contents(from, root, op));
    }
    let mine = contents(rank, root, op);
    let in_place = in_place && rank == root;
    if in_place {
        recv.fill(rank, &mine);
    }
    let send = (!in_place).then_some(mine.as_ptr());
    let base = recv.memory.as_mut_ptr();
    // SAFETY: as above.
    unsafe { team.gatherv(send, mine.len(), base, &recv.blocks, Rank(root)) }.expect("a gather");
    assert!(recv.memory == wanted.memory, "gatherv {op} to {root}");
}

fn scatterv(team: &Team, op: usize, root: u32, in_place: bool) {
    let rank = team.rank().0;
    let count = if rank == root { team.size() } else { 0 };
    let mut send = Buffer::new((0..count).map(|to| length(root, to, op)));
    for to in 0..count {
        send.fill(to, &contents(root, to, op));
    }
    let bytes = length(root, rank, op);
    let mut mine = vec![0xee; bytes];
    let in_place = in_place && rank == root;
    let recv = (!in_place).then_some(mine.as_mut_ptr());
    let base = send.memory.as_ptr();
    // SAFETY: as above.
    unsafe { team.scatterv(base, &send.blocks, recv, bytes, Rank(root)) }.expect("a scatter");
    let wanted = match in_place {
        true => vec![0xee; bytes],
        false => contents(root, rank, op),
    };
    assert!(mine == wanted, "scatterv {op} from {root}");
}

fn alltoallv(team: &Team, op: usize) {
    let rank = team.rank().0;
    let mut send = Buffer::new((0..team.size()).map(|to| length(rank, to, op)));
    let mut recv = Buffer::new((0..team.size()).map(|from| length(from, rank, op)));
    let mut wanted = Buffer::new((0..team.size()).map(|from| length(from, rank, op)));
    for peer in 0..team.size() {
        send.fill(peer, &contents(rank, peer, op));
        wanted.fill(peer, &contents(peer, rank, op));
    }
    let (from, into) = (send.memory.as_ptr(), recv.memory.as_mut_ptr());
    // SAFETY: as above.
    unsafe { team.alltoallv(from, &send.blocks, into, &recv.blocks) }.expect("an all-to-all");
    assert!(recv.memory == wanted.memory, "alltoallv {op}");
}

/// All forms, more of them in a row than there are channels.
fn everything(team: &Team) {
    for op in 0..24 {
        let root = op as u32 % team.size();
        gatherv(team, op, root, op % 3 == 1);
        scatterv(team, op, root, op % 3 == 2);
        alltoallv(team, op);
        allgatherv(team, op, op % 2 == 1);
    }
    for op in 0..30 {
        gatherv(team, op, 0, false);
    }
}

#[test]
fn straight_into_user_memory() {
    for (size, node_size) in SHAPES {
        on_ranks(size, &settings(node_size, 2), everything);
    }
}

#[test]
fn few_ranks_go_straight_or_through_the_segment() {
    on_few_ranks(everything);
}

/// A rail that lets 16 MB be registered, half of which four segments take, never refuses any.
#[test]
fn what_an_operation_registers_it_gives_back() {
    let settings = Settings {
        zero_copy: Some(true),
        loopback_faults: "loop0:limit:bytes=16000000".into(),
        ..settings(1, 1)
    };
    let context = on_ranks(4, &settings, |team| {
        for _ in 0..3 {
            everything(team);
        }
    });
    let counts = context.stats().zero_copy();
    assert!(counts.registered > 1000, "{counts:?}");
    assert_eq!(counts.refused, 0, "{counts:?}");
}

/// A rank that mostly has nothing to say is rings of slots ahead of a slow root, and overwrites nothing
/// that was not read when it says something again.
#[test]
fn who_has_nothing_to_say_goes_ahead() {
    on_ranks(3, &settings(3, 2), |team| {
        let rank = team.rank().0;
        for op in 0..2000usize {
            let speaks = [true, op % 3 == 0, op % 300 >= 298];
            let bytes = |from: u32| if speaks[from as usize] { 8 } else { 0 };
            let word = |from: u32| (op * 3 + from as usize).to_le_bytes();
            if rank == 0 && op % 250 == 7 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let mut recv = Buffer::new((0..3).map(bytes));
            let mut wanted = Buffer::new((0..3).map(bytes));
            (0..3).for_each(|from| wanted.fill(from, &word(from)[..bytes(from)]));
            let (send, base) = (word(rank), recv.memory.as_mut_ptr());
            let own = bytes(rank);
            // SAFETY: as above.
            unsafe { team.gatherv(Some(send.as_ptr()), own, base, &recv.blocks, Rank(0)) }
                .expect("a gather");
            assert!(rank != 0 || recv.memory == wanted.memory, "gatherv {op}");
        }
    });
}

#[test]
fn in_pieces_where_user_memory_is_out_of_reach() {
    for (size, node_size) in SHAPES {
        let mut settings = settings(node_size, 2);
        settings.zero_copy = Some(false);
        on_ranks(size, &settings, everything);
    }
}

#[test]
fn all_gathers_by_every_algorithm() {
    ranks::every_algorithm(Collective::Allgatherv, |team| {
        (0..12).for_each(|op| allgatherv(team, op, op % 2 == 0));
    });
}
