//! Flags of the ranks of a node: each written by its owner, read by everybody.
//!
//! Values only rise, so nothing is ever reset and "at least" is the only question asked.

use ferrorail_base::NodeRank;
use ferrorail_base::sync::{AtomicU64, Ordering};
use std::mem;

/// One word that shares its cache line with nothing that another rank writes, so that its writer disturbs nobody
/// else's polling; a status cell of two words beside it, which is written and read by those only who have waited long, or
/// do nothing; and what the rank was in, which is read by those only who are behind it.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Flag {
    value: AtomicU64,
    status: AtomicU64,
    left: AtomicU64,
    recent: [AtomicU64; RECENT],
}

impl Default for Flag {
    fn default() -> Self {
        Self {
            value: AtomicU64::new(0),
            status: AtomicU64::new(0),
            left: AtomicU64::new(0),
            recent: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// How many operations a rank is remembered to have been in: more than it may be ahead of others, which is as many
/// as there are channels, with much and with little scratch; in whole lines.
const RECENT: usize = 157;

/// Where in a [`Flag`] its status cell is.
pub(crate) const STATUS: usize = mem::offset_of!(Flag, status);

/// A status cell as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What its rank has shown last; 0 before.
    pub shown: u64,
    /// The last operation that its rank had to do, if that has said so: what it has shown stands.
    pub left_after: Option<u64>,
}

impl Status {
    /// Bytes of a status cell.
    pub const BYTES: usize = 16;

    /// The cell in `words`.
    pub(crate) fn read([shown, left]: [&AtomicU64; 2]) -> Self {
        Self {
            shown: shown.load(Ordering::Acquire),
            left_after: left.load(Ordering::Acquire).checked_sub(1),
        }
    }
}

/// An arrival flag: raised by the sender of a message, or the rail that brought it, and read by who awaits it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a>(&'a AtomicU64);

impl<'a> Arrival<'a> {
    /// The flag in `word`.
    #[inline]
    pub fn new(word: &'a AtomicU64) -> Self {
        Self(word)
    }

    /// Raises it to `value`: whoever sees that sees all that the caller wrote before.
    #[inline]
    pub fn raise(self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// What it was raised to last; what was written before that is visible.
    #[inline]
    pub fn value(self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The flags of all ranks of a node, by node rank.
#[derive(Clone, Copy, Debug)]
pub struct NodeFlags<'a> {
    flags: &'a [Flag],
}

impl<'a> NodeFlags<'a> {
    /// A view of one flag per rank.
    #[inline]
    pub fn new(flags: &'a [Flag]) -> Self {
        Self { flags }
    }

    /// Raises `rank`'s flag to `value`: whoever sees it sees all that `rank` wrote before. Only
    /// `rank` itself may call this, and values must not fall.
    #[inline]
    pub fn signal(&self, rank: NodeRank, value: u64) {
        self.flags[rank.index()]
            .value
            .store(value, Ordering::Release);
    }

    /// Whether `rank` has signalled at least `value`; if so, its writes from before are visible.
    #[inline]
    pub fn reached(&self, rank: NodeRank, value: u64) -> bool {
        self.flags[rank.index()].value.load(Ordering::Acquire) >= value
    }

    /// Whether every rank has signalled at least `value`; if so, their writes are visible.
    #[inline]
    pub fn all_reached(&self, value: u64) -> bool {
        self.flags
            .iter()
            .all(|flag| flag.value.load(Ordering::Acquire) >= value)
    }

    /// What `rank` has signalled; its writes from before are visible.
    #[inline]
    pub fn value(&self, rank: NodeRank) -> u64 {
        self.flags[rank.index()].value.load(Ordering::Acquire)
    }

    /// Notes what operation number `op` is for `rank`, before it signals in it.
    #[inline]
    pub fn note(&self, rank: NodeRank, op: u64, what: u64) {
        // The signal publishes it.
        self.flags[rank.index()].recent[op as usize % RECENT].store(what, Ordering::Relaxed);
    }

    /// What operation number `op` was for `rank`, or a later one that took its place.
    #[inline]
    pub fn noted(&self, rank: NodeRank, op: u64) -> u64 {
        self.flags[rank.index()].recent[op as usize % RECENT].load(Ordering::Relaxed)
    }

    /// Shows `status` in the cell of `rank`, which only itself may do.
    pub fn show(&self, rank: NodeRank, status: u64) {
        self.flags[rank.index()]
            .status
            .store(status, Ordering::Release);
    }

    /// Says in the status cell of `rank`, which only itself may do, that operation `last` was its last.
    pub fn leave(&self, rank: NodeRank, last: u64) {
        self.flags[rank.index()]
            .left
            .store(last + 1, Ordering::Release);
    }

    /// The status cell of `rank`.
    pub fn status(&self, rank: NodeRank) -> Status {
        let flag = &self.flags[rank.index()];
        Status::read([&flag.status, &flag.left])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_flag_fills_its_lines() {
        assert_eq!((size_of::<Flag>() % 64, align_of::<Flag>()), (0, 64));
    }

    #[test]
    fn who_leaves_leaves_what_it_has_shown() {
        assert_eq!(mem::offset_of!(Flag, left), STATUS + 8);
        let memory = [Flag::default()];
        let (flags, rank) = (NodeFlags::new(&memory), NodeRank(0));
        let status = |shown, left_after| Status { shown, left_after };
        assert_eq!(flags.status(rank), status(0, None));
        flags.show(rank, 5);
        flags.leave(rank, 0);
        assert_eq!(flags.status(rank), status(5, Some(0)));
    }

    #[test]
    fn signals_are_waited_for_one_by_one_or_all() {
        let lines = [Flag::default(), Flag::default(), Flag::default()];
        let flags = NodeFlags::new(&lines);
        flags.signal(NodeRank(0), 5);
        flags.signal(NodeRank(2), 7);
        assert!(flags.reached(NodeRank(2), 6) && !flags.reached(NodeRank(0), 6));
        assert!(!flags.all_reached(5));
        flags.signal(NodeRank(1), 5);
        assert!(flags.all_reached(5) && !flags.all_reached(6));
    }

    /// As many operations as a rank is remembered in, at numbers that no counter of 8, 16 or 32 bits holds.
    #[test]
    fn what_operations_were_is_remembered_at_any_number() {
        let memory = [Flag::default()];
        let (flags, rank) = (NodeFlags::new(&memory), NodeRank(0));
        for wraps in [8, 16, 32, 44] {
            let numbers = (1u64 << wraps) - RECENT as u64 / 2..(1 << wraps) + RECENT as u64 / 2;
            for op in numbers.clone() {
                flags.note(rank, op, op.wrapping_mul(7));
            }
            for op in numbers {
                let what = flags.noted(rank, op);
                assert_eq!(what, op.wrapping_mul(7), "operation {op}");
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Two ranks write plain memory, signal, and a third reads it all after `all_reached`.
    #[test]
    fn loom_signals_publish_data() {
        loom::model(|| {
            let flags = Arc::new([Flag::default(), Flag::default()]);
            let data = Arc::new([
                loom::cell::UnsafeCell::new(0u64),
                loom::cell::UnsafeCell::new(0u64),
            ]);
            let writers: Vec<_> = (0..2)
                .map(|rank| {
                    let (flags, data) = (flags.clone(), data.clone());
                    thread::spawn(move || {
                        // SAFETY: loom reports an error if another thread reads it meanwhile.
                        data[rank].with_mut(|cell| unsafe { *cell = 40 + rank as u64 });
                        NodeFlags::new(&*flags).signal(NodeRank(rank as u32), 3);
                    })
                })
                .collect();
            let view = NodeFlags::new(&*flags);
            while !view.all_reached(3) {
                thread::yield_now();
            }
            for (rank, cell) in data.iter().enumerate() {
                // SAFETY: its writer has signalled; loom checks that this orders the accesses.
                cell.with(|cell| assert_eq!(unsafe { *cell }, 40 + rank as u64));
            }
            for writer in writers {
                writer.join().unwrap();
            }
        });
    }

    /// What an operation waits by: the `value`, with the writer's data and its note before it.
    #[test]
    fn loom_a_value_publishes_data_and_note() {
        loom::model(|| {
            let shared = Arc::new(([Flag::default()], loom::cell::UnsafeCell::new(0u64)));
            let (rank, own) = (NodeRank(0), shared.clone());
            let writer = thread::spawn(move || {
                let flags = NodeFlags::new(&own.0);
                // SAFETY: loom reports an error if the reader overlaps this.
                own.1.with_mut(|cell| unsafe { *cell = 40 });
                flags.note(rank, 5, 9);
                flags.signal(rank, 5);
            });
            let flags = NodeFlags::new(&shared.0);
            while flags.value(rank) < 5 {
                thread::yield_now();
            }
            assert_eq!(flags.noted(rank, 5), 9);
            // SAFETY: the writer has signalled; loom checks that this orders the accesses.
            shared.1.with(|cell| assert_eq!(unsafe { *cell }, 40));
            writer.join().unwrap();
        });
    }

    /// A message is whole for who sees its arrival flag raised.
    #[test]
    fn loom_an_arrival_publishes_the_message() {
        loom::model(|| {
            let shared = Arc::new((AtomicU64::new(0), loom::cell::UnsafeCell::new(0u64)));
            let own = shared.clone();
            let sender = thread::spawn(move || {
                // SAFETY: loom reports an error if the reader overlaps this.
                own.1.with_mut(|cell| unsafe { *cell = 40 });
                Arrival::new(&own.0).raise(7);
            });
            while Arrival::new(&shared.0).value() != 7 {
                thread::yield_now();
            }
            // SAFETY: the message has arrived; loom checks that this orders the accesses.
            shared.1.with(|cell| assert_eq!(unsafe { *cell }, 40));
            sender.join().unwrap();
        });
    }

    /// `reached` alone orders a hand-over there and back on the same memory.
    #[test]
    fn loom_flags_hand_memory_back_and_forth() {
        loom::model(|| {
            let flags = Arc::new([Flag::default(), Flag::default()]);
            let data = Arc::new(loom::cell::UnsafeCell::new(0u64));
            let (flags2, data2) = (flags.clone(), data.clone());
            let peer = thread::spawn(move || {
                let view = NodeFlags::new(&*flags2);
                while !view.reached(NodeRank(0), 1) {
                    thread::yield_now();
                }
                // SAFETY: rank 0 signalled and does not touch it until rank 1 has.
                data2.with_mut(|cell| unsafe { *cell += 1 });
                view.signal(NodeRank(1), 1);
            });
            let view = NodeFlags::new(&*flags);
            // SAFETY: rank 1 waits for the signal below.
            data.with_mut(|cell| unsafe { *cell = 10 });
            view.signal(NodeRank(0), 1);
            while !view.reached(NodeRank(1), 1) {
                thread::yield_now();
            }
            // SAFETY: rank 1 signalled and is done with it.
            data.with(|cell| assert_eq!(unsafe { *cell }, 11));
            peer.join().unwrap();
        });
    }
}
