//! Asking for cache lines before they are used. On processors other than x86-64 nothing is asked for.

use crate::layout::LINE;

/// Asks for the lines of `bytes` bytes at `address`, to read them.
#[cfg(not(loom))]
#[inline]
pub(crate) fn to_read(address: *const u8, bytes: usize) {
    lines(address, bytes, |_line| {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch is a hint that may name any address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(_line.cast());
        }
    });
}

/// Asks for the lines of `bytes` bytes at `address`, to write them: other cores lose theirs.
#[inline]
pub(crate) fn to_write(address: *const u8, bytes: usize) {
    lines(address, bytes, |_line| {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // Not the intrinsic, which is a prefetch for reading unless all is compiled for processors with PREFETCHW.
        // Processors of 64 bits without it do nothing here.
        // SAFETY: a prefetch is a hint that may name any address; it changes nothing but caches.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]", in(reg) _line,
                options(nostack, preserves_flags, readonly)
            );
        }
    });
}

/// A loop of its own: a stepped range takes as many instructions before its first step as three lines here.
#[inline(always)]
fn lines(address: *const u8, bytes: usize, ask: impl Fn(*const u8)) {
    let mut offset = 0;
    while offset < bytes {
        ask(address.wrapping_add(offset));
        offset += LINE;
    }
}
