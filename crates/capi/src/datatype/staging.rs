//! Memory for packed bytes.

use crate::error::CallError;
use ferrorail_base::memory;
use libc::c_void;
use std::cell::RefCell;

/// Pieces of memory that a thread keeps: a call needs one for each side, and one for the operands
/// of a reduction.
const KEPT: usize = 3;

/// Largest piece that is kept, in bytes. New pages in each call took two thirds of the time of an all-to-all of 32 MB.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// Longer pieces than this the system may have back, page by page, while nobody uses them. To say so takes a twentieth of
/// the time that new pages take.
const OWN_BYTES_MAX: usize = 8 << 20;

thread_local! {
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Memory for packed data, never read before it is written. The thread's next calls use it again.
pub struct Packed {
    memory: Vec<u8>,
    /// Bytes asked for, of those that it has.
    room: usize,
}

impl Packed {
    /// Room for `bytes` bytes.
    pub fn new(bytes: usize) -> Result<Self, CallError> {
        let mut memory = take(bytes).unwrap_or_default();
        memory::reserve(&mut memory, bytes)?;
        Ok(Self {
            memory,
            room: bytes,
        })
    }

    /// Bytes that it was made for.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Its first byte.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr()
    }
}

impl Drop for Packed {
    #[inline(never)]
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        if memory.capacity() > KEPT_BYTES_MAX {
            return;
        }
        if memory.capacity() > OWN_BYTES_MAX {
            lend(&memory);
        }
        // A thread that is ending keeps nothing.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            free.push(memory);
            if free.len() > KEPT {
                let (smallest, _) = free
                    .iter()
                    .enumerate()
                    .min_by_key(|(_, memory)| memory.capacity())
                    .expect("just pushed");
                free.swap_remove(smallest);
            }
        });
    }
}

/// Lets the system have pages of `memory` until they are written again.
fn lend(memory: &Vec<u8>) {
    const PAGE: usize = 4096;
    let start = memory.as_ptr().addr().next_multiple_of(PAGE);
    let end = (memory.as_ptr().addr() + memory.capacity()) / PAGE * PAGE;
    // A system that cannot keeps them there.
    // SAFETY: whole pages of memory that is written before it is read.
    unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_FREE) };
}

/// The smallest kept piece that has room for `bytes`, or any to be enlarged.
fn take(bytes: usize) -> Option<Vec<u8>> {
    let taken = FREE.try_with(|free| {
        let mut free = free.borrow_mut();
        let fitting = free
            .iter()
            .enumerate()
            .filter(|(_, memory)| memory.capacity() >= bytes)
            .min_by_key(|(_, memory)| memory.capacity());
        let index = fitting.map(|(index, _)| index)?;
        Some(free.swap_remove(index))
    });
    taken.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_bounded() {
        let (mut large, small) = (Packed::new(5000).unwrap(), Packed::new(100).unwrap());
        let address = large.as_mut_ptr() as usize;
        drop((large, small));
        assert_eq!(Packed::new(4000).unwrap().as_mut_ptr() as usize, address);
        drop(Packed::new(KEPT_BYTES_MAX + 1).unwrap());
        drop([1, 2, 3, 4].map(|n| Packed::new(n).unwrap()));
        FREE.with(|free| {
            let kept: Vec<usize> = free.borrow().iter().map(Vec::capacity).collect();
            assert!(kept.len() <= KEPT && kept.iter().all(|&bytes| bytes <= KEPT_BYTES_MAX));
            assert!(kept.contains(&5000), "{kept:?}");
        });
    }
}
