//! Communicators that the host is freeing.

use super::{GENERATION, sweep};
use crate::stack::is_under_way;
use ferrorail_base::sync::Ordering;
use ferrorail_mpi_abi::Comm;
use std::cell::RefCell;
use std::ptr;

thread_local! {
    /// Handles of the communicators that this thread has the host free, each with an address on the stack of that call.
    /// Callbacks run on the thread; on another one the handle may be a new communicator's already.
    static DYING: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
}

/// Nothing in a thread that ends, whose destructors may free communicators.
fn with_dying<R>(act: impl FnOnce(&mut Vec<(usize, usize)>) -> R) -> Option<R> {
    DYING.try_with(|dying| act(&mut dying.borrow_mut())).ok()
}

/// Whether a callback of the program is running for which the host frees `comm`.
pub fn is_dying(comm: Comm) -> bool {
    let found = with_dying(|dying| {
        // Some callback may have left the call by a jump.
        dying.retain(|&(handle, at)| handle != comm.0 || is_under_way(at, None));
        dying.iter().any(|&(handle, _)| handle == comm.0)
    });
    found == Some(true)
}

/// A communicator that the host is freeing, with all that hangs on it, until this is dropped.
pub struct Dying(usize);

impl Dying {
    /// `comm`, in a call that has the variable `of_call` on its stack.
    pub fn new<T>(comm: Comm, of_call: &T) -> Self {
        with_dying(|dying| dying.push((comm.0, ptr::from_ref(of_call).addr())));
        GENERATION.fetch_add(1, Ordering::Release);
        Self(comm.0)
    }

    /// The host's call is over.
    pub fn end(self) {
        drop(self);
        sweep();
    }
}

impl Drop for Dying {
    fn drop(&mut self) {
        with_dying(|dying| {
            let index = dying.iter().rposition(|&(handle, _)| handle == self.0);
            index.map(|index| dying.swap_remove(index))
        });
        GENERATION.fetch_add(1, Ordering::Release);
    }
}
