//! What a thread remembers of the handles it used last, so that a call finds its entry without a lock.

use std::cell::Cell;
use std::ptr;

/// Handles that are remembered: the windows of a program that has one for each of its arrays fit, and rows
/// and columns of a process grid.
const ROOM: usize = 16;

#[derive(Debug)]
struct Recent<E> {
    handle: usize,
    /// 0 matches nothing.
    generation: u64,
    entry: *const E,
}

// Not derived: an entry is not copied, only where it is.
impl<E> Clone for Recent<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Recent<E> {}

/// Entries of type `E` by handle.
pub struct HandleCache<E>([Cell<Recent<E>>; ROOM]);

impl<E> HandleCache<E> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(
            [const {
                Cell::new(Recent {
                    handle: 0,
                    generation: 0,
                    entry: ptr::null(),
                })
            }; ROOM],
        )
    }

    /// The entry of `handle`: what was found in the same `generation`, or what `find` finds now. A
    /// generation ends when an entry does: a host may give its handle away again.
    #[inline(always)]
    pub fn get_or_find(
        &self,
        handle: usize,
        generation: u64,
        find: impl FnOnce() -> Option<*const E>,
    ) -> Option<*const E> {
        let hash = (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = &self.0[hash as usize >> (64 - ROOM.ilog2())];
        let recent = slot.get();
        if recent.handle == handle && recent.generation == generation {
            return Some(recent.entry);
        }
        let entry = find()?;
        slot.set(Recent {
            handle,
            generation,
            entry,
        });
        Some(entry)
    }
}
