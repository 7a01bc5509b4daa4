//! Copies past the caches, and how much is too much for them.

use ferrorail_base::last_cache;
use ferrorail_base::memory::MemoryRange;
use nix::sched::sched_getcpu;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Whether the cores of a node, which read and write `bytes` bytes of their callers' memory in one call, find them in no
/// cache when they come to them again. Then stores had better not fetch the lines that they overwrite. Of less a program
/// that reads what it has received still finds a part in the last cache, and pays more for lines that are not there than
/// such stores gain.
pub fn exceeds_caches(bytes: usize) -> bool {
    static MOST: OnceLock<usize> = OnceLock::new();
    let most = || last_cache(&processor()).unwrap_or(usize::MAX);
    bytes > *MOST.get_or_init(most)
}

/// Where the kernel describes the processor that this thread runs on.
fn processor() -> PathBuf {
    last_cache::processor(sched_getcpu().unwrap_or(0) as u32)
}

/// Bytes of the last cache of a processor that the kernel describes in `processor`. `sysconf` has them, too, but on some
/// virtual machines those of all that the host has.
fn last_cache(processor: &Path) -> Option<usize> {
    last_cache::of_last_cache(processor, |folder| {
        let size = fs::read_to_string(folder.join("size")).ok()?;
        let kilobytes: usize = size.trim().strip_suffix('K')?.parse().ok()?;
        Some(kilobytes << 10)
    })
}

/// A copy whose stores go past the caches, as far as whole lines of `into` go.
///
/// # Safety
/// As [`MemoryRange::copy_to`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub unsafe fn copy_past_caches(from: MemoryRange, into: MemoryRange) {
    use crate::layout::LINE;
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const WORD: usize = size_of::<__m128i>();
    assert_eq!(
        from.bytes, into.bytes,
        "source and destination differ in length"
    );
    let head = into.address.next_multiple_of(LINE) - into.address;
    let head = head.min(into.bytes);
    let lines = (into.bytes - head) / LINE * LINE;
    let part = |range: MemoryRange, offset, bytes| range.slice(offset, bytes);
    // SAFETY: parts of ranges for which the caller vouches; what is streamed begins at a line of `into` and ends at
    // one. The fence orders it before the flag that says it is there.
    unsafe {
        part(from, 0, head).copy_to(part(into, 0, head));
        for line in (head..head + lines).step_by(LINE) {
            let (source, target) = (from.as_ptr().add(line), into.as_ptr().add(line));
            let word = |index: usize| _mm_loadu_si128(source.add(index * WORD).cast());
            let words = [word(0), word(1), word(2), word(3)];
            for (index, word) in words.into_iter().enumerate() {
                _mm_stream_si128(target.add(index * WORD).cast(), word);
            }
        }
        _mm_sfence();
        let (tail, rest) = (head + lines, into.bytes - head - lines);
        part(from, tail, rest).copy_to(part(into, tail, rest));
    }
}

/// Elsewhere there are only ordinary stores.
///
/// # Safety
/// As [`MemoryRange::copy_to`].
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub unsafe fn copy_past_caches(from: MemoryRange, into: MemoryRange) {
    // SAFETY: the caller vouches for both.
    unsafe { from.copy_to(into) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_bytes_are_those_of_the_source() {
        let source: Vec<u8> = (0..5000u32).map(|byte| (byte % 251) as u8).collect();
        for (offset, bytes) in [
            (0, 4096),
            (1, 4096),
            (63, 1),
            (64, 64),
            (7, 4929),
            (60, 3),
            (0, 0),
        ] {
            let mut target = vec![0u8; 5200];
            let from = MemoryRange::new(source.as_ptr(), bytes);
            let into = MemoryRange::new(target.as_mut_ptr().wrapping_add(offset), bytes);
            // SAFETY: both are inside vectors of this test, to which no reference is used meanwhile.
            unsafe { copy_past_caches(from, into) };
            assert!(target[..offset].iter().all(|&byte| byte == 0));
            assert_eq!(target[offset..offset + bytes], source[..bytes]);
            assert!(target[offset + bytes..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn the_last_cache_is_that_of_the_highest_level() {
        let folder = std::env::temp_dir().join(format!("ferrorail-caches-{}", std::process::id()));
        for (index, level, size) in [(0, "1", "32K"), (1, "3", "32768K"), (2, "2", "1024K")] {
            let cache = folder.join(format!("cache/index{index}"));
            fs::create_dir_all(&cache).unwrap();
            fs::write(cache.join("level"), format!("{level}\n")).unwrap();
            fs::write(cache.join("size"), format!("{size}\n")).unwrap();
        }
        let found = last_cache(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, Some(32 << 20));
        assert_eq!(last_cache(&folder), None);
    }
}
