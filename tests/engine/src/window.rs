//! Making windows: what they cost of the host's collectives. And what ranks that wait do for origins.

use super::ranks::{on_ranks_over, on_worlds, settings};
use ferrorail_base::Rank;
use ferrorail_base::config::Scattered;
use ferrorail_base::runs::Runs;
use ferrorail_base::sync::{AtomicU32, AtomicU64, Ordering};
use ferrorail_bootstrap::{InProcess, Oob, OobError};
use ferrorail_engine::{Context, LockMode, Memory, NoHost, Shape, Team, Window, WindowSpec};
use std::sync::Arc;

/// An exchange that counts what is collective.
struct Counted(InProcess, Arc<AtomicU32>);

impl Oob for Counted {
    fn rank(&self) -> Rank {
        self.0.rank()
    }
    fn size(&self) -> u32 {
        self.0.size()
    }
    fn host_key(&self) -> u64 {
        self.0.host_key()
    }
    fn allgather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, OobError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.allgather(mine)
    }
    fn exchange(&mut self, peers: &[Rank], out: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, OobError> {
        self.0.exchange(peers, out)
    }
    fn exchange_while(
        &mut self,
        peers: &[Rank],
        outgoing: &[Vec<u8>],
        keep_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Vec<u8>>, OobError> {
        self.0.exchange_while(peers, outgoing, keep_on)
    }
    fn barrier(&mut self) -> Result<(), OobError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.barrier()
    }
}

/// Most collectives that a rank takes part in for a window of each kind.
fn collectives(size: u32, node_size: u32) -> [u32; 4] {
    let counts = [(); 4].map(|()| AtomicU32::new(0));
    let calls: Vec<_> = (0..size).map(|_| Arc::new(AtomicU32::new(0))).collect();
    let counted = |oob: InProcess| {
        let calls = calls[oob.rank().index()].clone();
        Counted(oob, calls)
    };
    on_ranks_over(size, &settings(node_size, 1), counted, |team| {
        let calls = || calls[team.rank().index()].load(Ordering::Relaxed);
        let memory = [0u8; 64];
        let address = memory.as_ptr() as usize;
        let kinds = [
            Memory::Create { address },
            Memory::Allocate,
            Memory::Shared { apart: false },
            Memory::Dynamic,
        ];
        for (count, memory) in counts.iter().zip(kinds) {
            let bytes = if memory == Memory::Dynamic { 0 } else { 64 };
            let before = calls();
            // SAFETY: the memory outlives the window.
            let window = unsafe { Window::create(team, WindowSpec::new(memory, bytes, 1)) };
            let window = window.expect("a window");
            count.fetch_max(calls() - before, Ordering::Relaxed);
            window.close().expect("no epoch is open");
        }
    });
    counts.map(|count| count.into_inner())
}

#[test]
fn a_window_takes_few_collectives() {
    // Sizes; creating and attaching the segment; then whether memory is reached.
    assert_eq!(collectives(3, 3), [4, 3, 3, 4]);
    // Over rails ranks connect, which one of them may fail to, and import what others registered.
    assert_eq!(collectives(3, 1), [5, 5, 3, 5]);
    assert_eq!(collectives(1, 1), [3, 3, 3, 3]);
}

const ROWS: usize = 40;
const COLUMNS: usize = 10;

/// Rank 0 puts a column into memory of rank 1's under a lock.
fn put_column(window: &Window) {
    let target = Rank(1);
    let runs = Runs::dense(8).repeated(ROWS, 8 * COLUMNS as isize);
    let runs = runs.expect("regular");
    let there = Shape::Runs {
        runs: &runs,
        count: 1,
        extent: 0,
    };
    let dense = Shape::bytes_at(0, 8 * ROWS);
    let numbers: Vec<u64> = (1..=ROWS as u64).collect();
    let origin = window.onesided();
    origin
        .lock(target, LockMode::Shared, false)
        .expect("in order");
    // SAFETY: the numbers live until the put is complete.
    let put = unsafe { origin.put(numbers.as_ptr().cast(), &dense, target, 0, &there) };
    put.expect("in order");
    origin.unlock(target).expect("in order");
}

#[test]
fn a_rank_in_a_barrier_carries_out_what_is_offered_to_it() {
    let mut settings = settings(2, 1);
    settings.windows.scattered = Scattered::Target;
    on_worlds(2, 1, |mut oobs| {
        // Each is a process of its own in this.
        let context = Context::new(settings.clone(), Box::new(NoHost));
        let team = Team::create(&context, context.settings(), Box::new(oobs.remove(0)));
        let team = team.expect("a team");
        let memory = [const { AtomicU64::new(0) }; ROWS * COLUMNS];
        let address = memory.as_ptr().expose_provenance();
        let bytes = size_of_val(&memory) as u64;
        let spec = WindowSpec::new(Memory::Create { address }, bytes, 1);
        // SAFETY: the memory outlives the window.
        let window = unsafe { Window::create(&team, spec) }.expect("a window");
        if team.rank() == Rank(0) {
            put_column(&window);
        }
        team.barrier().expect("both come");
        let counters = window.onesided().counters();
        if team.rank() == Rank(0) {
            assert_eq!(counters.by_target.load(Ordering::Relaxed), 1);
        } else {
            assert_eq!(counters.for_origins.load(Ordering::Relaxed), 1);
            let column = memory.iter().step_by(COLUMNS);
            assert!(
                column
                    .map(|number| number.load(Ordering::Relaxed))
                    .eq(1..=ROWS as u64)
            );
        }
        window.close().expect("no epoch is open");
        team.free();
    });
}
