//! How an epoch's operations lie in packets.

use super::locks::Mode;
use std::ptr;

/// Length of a packet.
pub const PACKET_BYTES: usize = 16 << 10;
/// Longest data that travels in a packet.
const INLINE_BYTES: usize = 1024;
/// Head of a packet: sender, number of operations, whether another packet follows, its length, what else
/// it is for.
const HEAD_BYTES: usize = 40;
/// What comes before each operation's data: sort, length, offset.
const OPERATION_BYTES: usize = 24;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Writes.
    Put,
    /// Reads.
    Get,
    /// Adds integers of 32 bits.
    Add,
    /// Adds one to a word, and reads what it was.
    FetchAdd,
}

const SORTS: [Sort; 4] = [Sort::Put, Sort::Get, Sort::Add, Sort::FetchAdd];
/// Bytes of the word of [`Sort::FetchAdd`].
pub const WORD_BYTES: usize = size_of::<u64>();

/// What a packet is for beside its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// They belong to an epoch in which the target takes part.
    Active,
    /// Its lock is wanted.
    Ask(Mode),
    /// The origin goes on with what it has locked.
    Flush,
    /// The origin gives the lock back.
    Release,
}

const ACTS: [Act; 5] = [
    Act::Active,
    Act::Ask(Mode::Shared),
    Act::Ask(Mode::Exclusive),
    Act::Flush,
    Act::Release,
];

/// An operation.
#[derive(Clone, Copy)]
pub struct Queued {
    pub sort: Sort,
    pub here: *mut u8,
    pub bytes: usize,
    pub at: usize,
}

impl Queued {
    /// Whether its data travels in the packet.
    pub fn is_inline(&self) -> bool {
        !self.is_answered() && self.bytes <= INLINE_BYTES
    }

    /// Whether something comes back.
    pub fn is_answered(&self) -> bool {
        matches!(self.sort, Sort::Get | Sort::FetchAdd)
    }

    /// # Safety
    /// `memory` is the window's of this rank; the buffer is valid.
    pub unsafe fn apply_here(&self, memory: *mut u8) {
        let there = memory.wrapping_add(self.at);
        // SAFETY: the caller's contract.
        unsafe {
            match self.sort {
                Sort::Put => ptr::copy(self.here, there, self.bytes),
                Sort::Get => ptr::copy(there, self.here, self.bytes),
                Sort::Add => add(self.here, there, self.bytes),
                Sort::FetchAdd => {
                    let word = there.cast::<u64>();
                    let before = word.read_unaligned();
                    word.write_unaligned(before.wrapping_add(1));
                    self.here.cast::<u64>().write_unaligned(before);
                }
            }
        }
    }
}

/// # Safety
/// Both have `bytes` bytes, `into` writable.
unsafe fn add(from: *const u8, into: *mut u8, bytes: usize) {
    for at in 0..bytes / 4 {
        let (from, into) = (
            from.cast::<i32>().wrapping_add(at),
            into.cast::<i32>().wrapping_add(at),
        );
        // SAFETY: inside the caller's ranges.
        unsafe {
            let sum = from.read_unaligned().wrapping_add(into.read_unaligned());
            into.write_unaligned(sum);
        }
    }
}

/// A packet as it arrived.
pub struct Packet {
    pub from: u32,
    pub act: Act,
    pub more: bool,
    operations: usize,
    bytes: Vec<u8>,
}

impl Packet {
    /// A packet of `rank` for `act` with as many operations as fit, and how many those are.
    ///
    /// # Safety
    /// Their buffers are valid.
    pub unsafe fn write(rank: u32, act: Act, queue: &[Queued]) -> (Vec<u8>, usize) {
        let mut packet = vec![0; HEAD_BYTES];
        let mut taken = 0;
        for operation in queue {
            let inline = if operation.is_inline() {
                operation.bytes
            } else {
                0
            };
            if packet.len() + OPERATION_BYTES + inline > PACKET_BYTES {
                break;
            }
            let words = [
                operation.sort as u64,
                operation.bytes as u64,
                operation.at as u64,
            ];
            words
                .iter()
                .for_each(|word| packet.extend(word.to_ne_bytes()));
            // SAFETY: the buffer has so many bytes.
            packet.extend(unsafe { std::slice::from_raw_parts(operation.here, inline) });
            taken += 1;
        }
        let more = u64::from(taken < queue.len());
        let act = ACTS.iter().position(|&other| other == act);
        let act = act.expect("an act of the table") as u64;
        let head = [
            u64::from(rank),
            taken as u64,
            more,
            packet.len() as u64,
            act,
        ];
        for (at, word) in head.into_iter().enumerate() {
            packet[8 * at..8 * at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        (packet, taken)
    }

    /// Whether it has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations == 0
    }

    /// What it asks for, with the data that came along.
    pub fn operations(&self) -> Vec<Queued> {
        let mut next = HEAD_BYTES;
        let read = |_| {
            let operation = Queued {
                sort: SORTS[word(&self.bytes, next) as usize],
                bytes: word(&self.bytes, next + 8) as usize,
                at: word(&self.bytes, next + 16) as usize,
                here: self.bytes[next + OPERATION_BYTES..].as_ptr().cast_mut(),
            };
            next += OPERATION_BYTES;
            if operation.is_inline() {
                next += operation.bytes;
            }
            operation
        };
        (0..self.operations).map(read).collect()
    }

    /// What `bytes` begin with.
    pub fn read(bytes: &[u8]) -> Self {
        Self {
            from: word(bytes, 0) as u32,
            act: ACTS[word(bytes, 32) as usize],
            operations: word(bytes, 8) as usize,
            more: word(bytes, 16) != 0,
            bytes: bytes[..word(bytes, 24) as usize].to_vec(),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..at + 8].try_into();
    u64::from_ne_bytes(bytes.expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_hold_what_fits_and_say_when_more_follow() {
        let mut data = [7u8; 2000];
        let mut operation = |sort, bytes, at| Queued {
            sort,
            here: data.as_mut_ptr(),
            bytes,
            at,
        };
        let queue: Vec<Queued> = [
            operation(Sort::Put, 5, 100),
            operation(Sort::Get, 2000, 8),
            operation(Sort::Add, 1001, 3),
        ]
        .into_iter()
        .chain(vec![operation(Sort::Put, 1000, 0); 20])
        .collect();
        // SAFETY: the data is longer than each operation.
        let (bytes, taken) = unsafe { Packet::write(3, Act::Flush, &queue) };
        assert!(taken > 3 && taken < queue.len() && bytes.len() <= PACKET_BYTES);
        let packet = Packet::read(&[&bytes[..], &[0; 64]].concat());
        assert_eq!(
            (packet.from, packet.act, packet.more, packet.is_empty()),
            (3, Act::Flush, true, false)
        );
        let found = packet.operations();
        assert_eq!(found.len(), taken);
        for (found, sent) in found.iter().zip(&queue) {
            assert_eq!(
                (found.sort, found.bytes, found.at),
                (sent.sort, sent.bytes, sent.at)
            );
        }
        let mut memory = [0u8; 128];
        // SAFETY: inside the memory; the data came in the packet.
        unsafe { found[0].apply_here(memory.as_mut_ptr()) };
        assert_eq!(memory[99..106], [0, 7, 7, 7, 7, 7, 0]);
        // SAFETY: as above.
        let (bytes, taken) = unsafe { Packet::write(3, Act::Active, &queue[..2]) };
        assert!(taken == 2 && !Packet::read(&bytes).more);
        for act in ACTS {
            // SAFETY: there is no buffer.
            let (bytes, _) = unsafe { Packet::write(0, act, &[]) };
            let packet = Packet::read(&bytes);
            assert!(packet.act == act && packet.is_empty());
        }
    }

    #[test]
    fn words_are_read_and_incremented() {
        let (mut memory, mut before) = ([5u64, 9], 0u64);
        let operation = Queued {
            sort: Sort::FetchAdd,
            here: (&raw mut before).cast(),
            bytes: WORD_BYTES,
            at: 8,
        };
        assert!(operation.is_answered() && !operation.is_inline());
        // SAFETY: both words are live.
        unsafe { operation.apply_here(memory.as_mut_ptr().cast()) };
        assert_eq!((before, memory), (9, [5, 10]));
    }
}
