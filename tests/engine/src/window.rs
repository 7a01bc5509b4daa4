//! Making windows: what they cost of the host's collectives.

use super::ranks::{on_ranks_over, settings};
use ferrorail_base::Rank;
use ferrorail_base::sync::{AtomicU32, Ordering};
use ferrorail_bootstrap::{InProcess, Oob, OobError};
use ferrorail_engine::{Memory, Window, WindowSpec};
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
