//! Which pages of a segment this process has written.

use crate::layout::PAGE;
use ferrorail_base::sync::{AtomicU64, Ordering};

/// Pages of a segment, a bit each. The first write of a page takes many times as long as the copy: the kernel has to find
/// one, to clear it and to map it.
#[derive(Debug)]
pub struct Written(Box<[AtomicU64]>);

impl Written {
    /// Nothing of `bytes` bytes.
    pub fn none_of(bytes: usize) -> Self {
        let words = bytes.div_ceil(PAGE).div_ceil(u64::BITS as usize);
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Notes that `bytes` bytes from `offset` on are written now. Whether a page of them is for the first time.
    #[inline]
    pub fn note(&self, offset: usize, bytes: usize) -> bool {
        let bits = u64::BITS as usize;
        let (mut page, end) = (offset / PAGE, (offset + bytes).div_ceil(PAGE));
        let mut any = false;
        while page < end {
            let (word, from) = (page / bits, page % bits);
            let to = (end - word * bits).min(bits);
            let mask = (!0 >> (bits - to)) & (!0 << from);
            let word = &self.0[word];
            if word.load(Ordering::Relaxed) & mask != mask {
                word.fetch_or(mask, Ordering::Relaxed);
                any = true;
            }
            page += to - from;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_is_written_once_for_the_first_time() {
        let written = Written::none_of(200 * PAGE);
        for (offset, bytes, first) in [
            (0, 1, true),
            (1, PAGE - 1, false),
            (1, PAGE, true),
            (PAGE, PAGE, false),
            (60 * PAGE, 10 * PAGE, true),
            (62 * PAGE, 4 * PAGE, false),
            (65 * PAGE, 135 * PAGE, true),
            (60 * PAGE, 140 * PAGE, false),
            (2 * PAGE, 58 * PAGE, true),
            (0, 200 * PAGE, false),
            (5, 0, false),
        ] {
            assert_eq!(written.note(offset, bytes), first, "{bytes} from {offset}");
        }
    }
}
