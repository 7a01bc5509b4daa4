//! Bytes as words, and back.

use ferrorail_base::sync::AtomicU64;

/// Calls `act` with each of `words` and its number. Several in a turn: no compiler does that to loops over
/// atomics.
#[inline]
pub(super) fn for_words(words: &[AtomicU64], act: impl Fn(usize, &AtomicU64)) {
    let (turns, rest) = words.as_chunks::<4>();
    for (turn, words) in turns.iter().enumerate() {
        for (index, word) in words.iter().enumerate() {
            act(4 * turn + index, word);
        }
    }
    for (index, word) in rest.iter().enumerate() {
        act(4 * turns.len() + index, word);
    }
}

/// The `bytes` (1..=7) bytes at `from` as the low bytes of a word, in two overlapping loads rather
/// than a call of `memcpy`.
///
/// # Safety
/// The bytes are readable.
#[inline]
pub(super) unsafe fn load_short(from: *const u8, bytes: usize) -> u64 {
    debug_assert!((1..8).contains(&bytes));
    // SAFETY: every access lies within the first `bytes` bytes.
    unsafe {
        if bytes >= 4 {
            let low = u32::from_le(from.cast::<u32>().read_unaligned());
            let high = u32::from_le(from.add(bytes - 4).cast::<u32>().read_unaligned());
            u64::from(low) | u64::from(high) << (8 * (bytes - 4))
        } else if bytes >= 2 {
            let low = u16::from_le(from.cast::<u16>().read_unaligned());
            let high = u16::from_le(from.add(bytes - 2).cast::<u16>().read_unaligned());
            u64::from(low) | u64::from(high) << (8 * (bytes - 2))
        } else {
            u64::from(from.read())
        }
    }
}

/// Inverse of [`load_short`].
///
/// # Safety
/// The bytes are writable.
#[inline]
pub(super) unsafe fn store_short(to: *mut u8, bytes: usize, bits: u64) {
    debug_assert!((1..8).contains(&bytes));
    // SAFETY: every access lies within the first `bytes` bytes.
    unsafe {
        if bytes >= 4 {
            to.cast::<u32>().write_unaligned((bits as u32).to_le());
            let high = (bits >> (8 * (bytes - 4))) as u32;
            to.add(bytes - 4)
                .cast::<u32>()
                .write_unaligned(high.to_le());
        } else if bytes >= 2 {
            to.cast::<u16>().write_unaligned((bits as u16).to_le());
            let high = (bits >> (8 * (bytes - 2))) as u16;
            to.add(bytes - 2)
                .cast::<u16>()
                .write_unaligned(high.to_le());
        } else {
            to.write(bits as u8);
        }
    }
}
