//! Eager slots: a flag and up to 2104 bytes of payload behind it, the first 56 on its cache line.
//!
//! A small contribution and the news that it is there travel together, so the reader of a tiny one
//! misses its cache once. The payload is held in atomic words: with the operation protocol below no
//! word is ever read while it is written, but a reader that polls must not make that a data race.
//!
//! Protocol: operations use a rank's slots in turn, and a slot is written again only after all ranks
//! finished reading what it held.

mod group;
mod words;

pub use group::{EagerGroup, GroupValues};

use crate::prefetch;
use ferrorail_base::sync::{AtomicU64, Ordering};
use words::{for_words, load_short, store_short};

/// What most short payloads are: one number.
const WORD: usize = size_of::<u64>();

/// Words of 33 cache lines but for the flag.
const WORDS: usize = 33 * 8 - 1;

/// Longest payload for which lines are asked for ahead. Those of longer ones follow one another fast enough, and
/// many requests at once hold up what the caller writes next.
const ASKED_BYTES_MAX: usize = 120;

/// Payload from which on `memcpy` is faster than a loop over words.
const LONG: usize = 256;

/// One slot of a rank.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct EagerSlot {
    value: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Default for EagerSlot {
    fn default() -> Self {
        Self {
            value: AtomicU64::default(),
            words: std::array::from_fn(|_| AtomicU64::default()),
        }
    }
}

impl EagerSlot {
    /// Most payload bytes.
    pub const PAYLOAD_BYTES: usize = 8 * WORDS;

    /// Where a part of the payload may begin: at multiples of this.
    pub const PART_ALIGNMENT: usize = 8;

    /// Publishes `payload` under the operation number `value` (not 0, ever rising).
    ///
    /// # Panics
    /// If the payload is longer than [`EagerSlot::PAYLOAD_BYTES`].
    #[inline]
    pub fn publish(&self, value: u64, payload: &[u8]) {
        // SAFETY: a slice is readable for its length.
        unsafe { self.write(0, payload.as_ptr(), payload.len()) };
        self.announce(value);
    }

    /// Writes the part of the payload that begins at byte `at`; nobody reads it before
    /// [`EagerSlot::announce`].
    ///
    /// # Safety
    /// `bytes` bytes at `payload` are readable.
    ///
    /// # Panics
    /// If the part begins between words, or reaches past the payload.
    #[inline(always)]
    pub unsafe fn write(&self, at: usize, payload: *const u8, bytes: usize) {
        match bytes {
            0 => {}
            WORD => {
                // SAFETY: readable by the caller's word.
                let bits = unsafe { payload.cast::<u64>().read_unaligned() };
                self.write_word(at, bits);
            }
            // SAFETY: the caller's contract.
            _ => unsafe { self.write_any(at, payload, bytes) },
        }
    }

    /// # Safety
    /// As [`EagerSlot::write`].
    unsafe fn write_any(&self, at: usize, payload: *const u8, bytes: usize) {
        let words = self.part(at, bytes);
        if let Some(room) = long(words, bytes) {
            // SAFETY: readable by the caller's word; the words have room, and nobody reads them before
            // they are published.
            unsafe { room.copy_from_nonoverlapping(payload, bytes) };
            return;
        }
        let whole = bytes / 8;
        for_words(&words[..whole], |index, word| {
            // SAFETY: `8 * index + 8 <= bytes`, readable by the caller's word.
            let bits = unsafe { payload.add(8 * index).cast::<u64>().read_unaligned() };
            word.store(bits, Ordering::Relaxed);
        });
        let rest = bytes % 8;
        if rest != 0 {
            // SAFETY: `rest` bytes follow the whole words.
            let bits = unsafe { load_short(payload.add(8 * whole), rest) };
            words[whole].store(bits, Ordering::Relaxed);
        }
    }

    /// Writes a word of the payload, at byte `at`, as [`EagerSlot::write`] does.
    ///
    /// # Panics
    /// As [`EagerSlot::write`].
    #[inline(always)]
    pub fn write_word(&self, at: usize, value: u64) {
        self.part(at, WORD)[0].store(value, Ordering::Relaxed);
    }

    /// The word of the payload at byte `at`; of an operation that has been published.
    ///
    /// # Panics
    /// As [`EagerSlot::write`].
    #[inline(always)]
    pub fn read_word(&self, at: usize) -> u64 {
        self.part(at, WORD)[0].load(Ordering::Relaxed)
    }

    /// Publishes what was written, under the operation number `value` (not 0, ever rising).
    #[inline]
    pub fn announce(&self, value: u64) {
        self.value.store(value, Ordering::Release);
    }

    /// Says that the caller will soon publish some `bytes` bytes here: who has read what was there before has the
    /// lines in its cache, and the first store would wait for them.
    #[inline]
    pub fn prepare(&self, bytes: usize) {
        if bytes <= ASKED_BYTES_MAX && cfg!(not(loom)) {
            let flag = size_of::<AtomicU64>();
            prefetch::to_write((&raw const *self).cast(), flag + bytes);
        }
    }

    /// If `value` has been published, copies `out.len()` bytes of its payload; else leaves `out`.
    ///
    /// # Panics
    /// If `out` is longer than [`EagerSlot::PAYLOAD_BYTES`].
    #[inline]
    pub fn try_read(&self, value: u64, out: &mut [u8]) -> bool {
        let published = self.value() == value;
        if published {
            // SAFETY: a mutable slice is writable for its length.
            unsafe { self.read(0, out.as_mut_ptr(), out.len()) };
        }
        published
    }

    /// Copies the part of the payload that begins at byte `at`, of what [`EagerSlot::value`] has said to be published, into
    /// memory that must not become a reference.
    ///
    /// # Safety
    /// `bytes` bytes at `out` are writable and nobody else touches them meanwhile.
    ///
    /// # Panics
    /// As [`EagerSlot::write`].
    #[inline(always)]
    pub unsafe fn read(&self, at: usize, out: *mut u8, bytes: usize) {
        match bytes {
            0 => {}
            // SAFETY: writable by the caller's word.
            WORD => unsafe { out.cast::<u64>().write_unaligned(self.read_word(at)) },
            // SAFETY: the caller's contract.
            _ => unsafe { self.read_any(at, out, bytes) },
        }
    }

    /// # Safety
    /// As [`EagerSlot::read`].
    unsafe fn read_any(&self, at: usize, out: *mut u8, bytes: usize) {
        let words = self.part(at, bytes);
        if let Some(room) = long(words, bytes) {
            // SAFETY: writable by the caller's word; the words were written before the value, and are not again
            // before this rank has finished.
            unsafe { out.copy_from_nonoverlapping(room, bytes) };
            return;
        }
        let whole = bytes / 8;
        for_words(&words[..whole], |index, word| {
            let bits = word.load(Ordering::Relaxed);
            // SAFETY: `8 * index + 8 <= bytes`, writable by the caller's word.
            unsafe { out.add(8 * index).cast::<u64>().write_unaligned(bits) };
        });
        let rest = bytes % 8;
        if rest != 0 {
            let bits = words[whole].load(Ordering::Relaxed);
            // SAFETY: `rest` bytes follow the whole words.
            unsafe { store_short(out.add(8 * whole), rest, bits) };
        }
    }

    /// The words of a part of the payload.
    #[inline(always)]
    #[track_caller]
    fn part(&self, at: usize, bytes: usize) -> &[AtomicU64] {
        assert!(
            at.is_multiple_of(Self::PART_ALIGNMENT) && at + bytes <= Self::PAYLOAD_BYTES,
            "{bytes} bytes at {at} do not fit an eager slot"
        );
        &self.words[at / 8..]
    }

    /// What was published last, whatever it is.
    #[inline]
    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Acquire)
    }
}

/// `words` as plain memory, where `bytes` of them are worth a call of `memcpy`. A model of the protocol sees words.
#[inline]
fn long(words: &[AtomicU64], bytes: usize) -> Option<*mut u8> {
    (bytes >= LONG && cfg!(not(loom))).then(|| words.as_ptr().cast_mut().cast())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_length_survives() {
        assert_eq!(
            (size_of::<EagerSlot>(), align_of::<EagerSlot>()),
            (2112, 64)
        );
        let slot = EagerSlot::default();
        for bytes in 0..=EagerSlot::PAYLOAD_BYTES {
            let value = 1 + bytes as u64;
            let sent: Vec<u8> = (0..bytes).map(|i| (i * 37 + bytes) as u8 | 1).collect();
            let mut out = vec![0u8; bytes + 2];
            assert!(!slot.try_read(value, &mut out[1..=bytes]));
            assert!(slot.value() != value);
            assert!(
                out.iter().all(|&byte| byte == 0),
                "nothing is written early"
            );
            slot.publish(value, &sent);
            assert!(slot.value() == value);
            assert!(slot.try_read(value, &mut out[1..=bytes]));
            assert_eq!(out[1..=bytes], sent, "{bytes} bytes");
            assert_eq!((out[0], out[bytes + 1]), (0, 0), "bytes around it are kept");
            assert!(!slot.try_read(value + 1, &mut out[1..=bytes]));
        }
    }

    #[test]
    fn too_long_a_payload_is_refused() {
        let slot = EagerSlot::default();
        assert!(
            std::panic::catch_unwind(|| slot.publish(1, &[0; EagerSlot::PAYLOAD_BYTES + 1]))
                .is_err()
        );
        assert!(slot.value() != 1);
    }

    #[test]
    fn parts_are_apart() {
        let slot = EagerSlot::default();
        let parts = [[1u8; 13], [2; 13], [3; 13]];
        for (index, part) in parts.iter().enumerate() {
            // SAFETY: an array is readable for its length.
            unsafe { slot.write(16 * index, part.as_ptr(), part.len()) };
        }
        assert!(slot.value() != 1);
        slot.announce(1);
        for (index, part) in parts.iter().enumerate() {
            let mut out = [0; 13];
            // SAFETY: an array is writable for its length.
            unsafe { slot.read(16 * index, out.as_mut_ptr(), out.len()) };
            assert!(slot.value() == 1 && out == *part);
        }
        let between = || slot.part(4, 4).len();
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(between)).is_err());
    }

    #[test]
    fn threads_exchange_without_tearing() {
        use ferrorail_base::sync::yield_now;
        const RANKS: usize = 3;
        let slots: [[EagerSlot; 2]; RANKS] = Default::default();
        std::thread::scope(|scope| {
            for me in 0..RANKS {
                let slots = &slots;
                scope.spawn(move || {
                    for operation in 1..=2000u64 {
                        let parity = (operation % 2) as usize;
                        let payload = [(operation as u8).wrapping_mul(3) ^ me as u8; 21];
                        slots[me][parity].publish(operation, &payload);
                        for (rank, slot) in slots.iter().enumerate() {
                            let mut out = [0; 21];
                            while !slot[parity].try_read(operation, &mut out) {
                                yield_now();
                            }
                            assert_eq!(out, [(operation as u8).wrapping_mul(3) ^ rank as u8; 21]);
                        }
                    }
                });
            }
        });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn payload(rank: usize, operation: u64) -> [u8; 12] {
        [(operation * 16) as u8 + rank as u8; 12]
    }

    fn read(slot: &EagerSlot, rank: usize, operation: u64) {
        let mut out = [0; 12];
        while !slot.try_read(operation, &mut out) {
            assert_eq!(out, [0; 12]);
            thread::yield_now();
        }
        assert_eq!(out, payload(rank, operation));
    }

    /// Two ranks exchange two words per operation, as an all-gather does. Operations 3 and 4 reuse
    /// the slots of 1 and 2, protected by nothing but the protocol.
    #[test]
    fn loom_two_parities_suffice() {
        fn rank(me: usize, slots: &[[EagerSlot; 2]; 2]) {
            for operation in 1..=4 {
                let parity = (operation % 2) as usize;
                slots[me][parity].publish(operation, &payload(me, operation));
                read(&slots[1 - me][parity], 1 - me, operation);
            }
        }
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let slots: Arc<[[EagerSlot; 2]; 2]> = Arc::default();
            let peer = {
                let slots = slots.clone();
                thread::spawn(move || rank(1, &slots))
            };
            rank(0, &slots);
            peer.join().unwrap();
        });
    }

    #[test]
    fn loom_every_publisher_is_read_whole() {
        loom::model(|| {
            let slots: Arc<[EagerSlot; 2]> = Arc::default();
            let publishers = [0, 1].map(|me| {
                let slots = slots.clone();
                thread::spawn(move || slots[me].publish(1, &payload(me, 1)))
            });
            for (rank, slot) in slots.iter().enumerate() {
                read(slot, rank, 1);
            }
            for publisher in publishers {
                publisher.join().unwrap();
            }
        });
    }
}
