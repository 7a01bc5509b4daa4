//! Sums of vectors of `MPI_INT`, as a loop that the compiler makes vector instructions of.

use ferrorail_base::memory::MemoryRange;

/// Adds `left` and `right` into `into`, which may be one of them.
///
/// # Safety
/// All are as long as the shortest, whole elements, accessible, and apart unless the same.
pub unsafe fn add(left: MemoryRange, right: MemoryRange, into: MemoryRange) {
    let count = into.bytes / size_of::<i32>();
    let [left, right] = [left, right].map(|range| (range.address as *const u8).cast::<i32>());
    let into = (into.address as *mut u8).cast::<i32>();
    // SAFETY: the caller's contract.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return with_avx2(left, right, into, count);
        }
        elements(left, right, into, count);
    }
}

/// # Safety
/// As [`add`], of `count` elements; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn with_avx2(left: *const i32, right: *const i32, into: *mut i32, count: usize) {
    // SAFETY: the caller's contract.
    unsafe { elements(left, right, into, count) }
}

/// # Safety
/// As [`add`], of `count` elements.
#[inline(always)]
unsafe fn elements(left: *const i32, right: *const i32, into: *mut i32, count: usize) {
    for index in 0..count {
        // SAFETY: the caller's contract.
        unsafe {
            let sum = left.add(index).read_unaligned();
            let sum = sum.wrapping_add(right.add(index).read_unaligned());
            into.add(index).write_unaligned(sum);
        }
    }
}
