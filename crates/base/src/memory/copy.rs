//! Copies of memory.
//!
//! From some 2 KB on the C library copies with `rep movsb` where the processor says that it is fast. On an AMD EPYC of
//! 2024 it takes 20 times as long where the destination is 1 to 15 bytes further in its page than the source is in its
//! own: 22 us for 64 KB in the cache instead of 1.1. Blocks of programs lie like that behind a header, or at odd
//! displacements. A loop that loads a line before it stores one takes 1.5 to 1.9 us then.

/// The C library's own loops copy what is shorter.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LOOP_BYTES_MIN: usize = 2 << 10;

/// Copies `bytes` bytes.
///
/// # Safety
/// As [`core::ptr::copy_nonoverlapping`].
#[inline]
pub unsafe fn copy(from: *const u8, into: *mut u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bytes >= LOOP_BYTES_MIN && copies_slowly(from as usize, into as usize) {
        // SAFETY: the caller's contract.
        return unsafe { copy_lines(from, into, bytes) };
    }
    // SAFETY: the caller's contract.
    unsafe { core::ptr::copy_nonoverlapping(from, into, bytes) }
}

/// As [`copy`], also if both overlap.
///
/// # Safety
/// As [`core::ptr::copy`].
#[inline]
pub unsafe fn copy_overlapping(from: *const u8, into: *mut u8, bytes: usize) {
    let apart = (into as usize).abs_diff(from as usize) >= bytes;
    // SAFETY: the caller's contract.
    unsafe {
        match apart {
            true => copy(from, into, bytes),
            false => core::ptr::copy(from, into, bytes),
        }
    }
}

/// Whether a copy between these addresses with `rep movsb`, as also the kernel makes them, may take many times as long
/// as others: the destination is up to 31 bytes further in its page than the source is in its own.
#[inline]
#[must_use]
pub fn copies_slowly(from: usize, into: usize) -> bool {
    const PAGE: usize = 4096;
    let distance = into.wrapping_sub(from) % PAGE;
    cfg!(target_arch = "x86_64") && (1..32).contains(&distance)
}

/// [`copy`] line by line, all of a line loaded before any of it is stored. The first and the last line may overlap those
/// beside them, so that all others begin at a line of `into`.
///
/// # Safety
/// As [`copy`], of a line at least.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_lines(from: *const u8, into: *mut u8, bytes: usize) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};
    const LINE: usize = 64;
    const WORD: usize = size_of::<__m128i>();
    assert!(bytes >= LINE, "a line at least");
    // SAFETY: the caller's contract, for `at + LINE <= bytes`.
    let line = |at: usize| unsafe {
        let (from, into) = (from.add(at), into.add(at));
        let load = |word: usize| _mm_loadu_si128(from.add(word * WORD).cast());
        let words = [load(0), load(1), load(2), load(3)];
        for (index, word) in words.into_iter().enumerate() {
            _mm_storeu_si128(into.add(index * WORD).cast(), word);
        }
    };
    line(0);
    let last = bytes - LINE;
    let mut at = LINE - into as usize % LINE;
    while at < last {
        line(at);
        at += LINE;
    }
    line(last);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_is_what_was_there_and_nothing_else_changes() {
        let source: Vec<u8> = (0..40_000u32).map(|byte| (byte % 251) as u8).collect();
        let lengths = [0, 1, 2047, 2048, 2049, 2111, 4096, 16383, 16384, 20_001];
        for (from, into) in [
            (0, 0),
            (0, 1),
            (7, 8),
            (0, 15),
            (3, 40),
            (64, 63),
            (5, 4096),
        ] {
            for bytes in lengths {
                let mut target = vec![255u8; 40_000];
                // Both in the same place of a page but for the offsets.
                let page = |address: usize| address.next_multiple_of(4096) - address;
                let from = page(source.as_ptr() as usize) + from;
                let into = page(target.as_ptr() as usize) + into;
                // SAFETY: both are inside the vectors.
                unsafe {
                    let from = source.as_ptr().add(from);
                    copy(from, target.as_mut_ptr().add(into), bytes);
                }
                assert_eq!(target[into..into + bytes], source[from..from + bytes]);
                let at = target.as_mut_ptr();
                // SAFETY: both are inside the vector.
                unsafe { copy_overlapping(at.add(into), at.add(into + 1), bytes) };
                assert_eq!(target[into + 1..][..bytes], source[from..from + bytes]);
                // SAFETY: as above.
                unsafe { copy_overlapping(at.add(into + 1), at.add(into), bytes + 1) };
                assert_eq!(target[into..into + bytes], source[from..from + bytes]);
                assert!(target[..into].iter().all(|&byte| byte == 255));
                assert!(target[into + bytes..].iter().all(|&byte| byte == 255));
            }
        }
    }
}
