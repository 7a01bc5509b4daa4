//! What each thread has of its own: what it used last, and whether it is inside ferrorail.

use crate::handle_cache::HandleCache;
use crate::team_cache::entry as team;
use crate::window::entry as window;
use crate::window::plain_update::PlainUpdate;
use ferrorail_reduce::Kernel;
use std::cell::Cell;

/// What each thread has of its own; in one place, because finding it takes a call.
pub struct Local {
    /// Set while ferrorail itself calls the host: what the host calls back is not ours to take.
    inside: Cell<bool>,
    /// Communicators it used last.
    pub handle_cache: HandleCache<team::Entry>,
    /// Windows it used last.
    pub recent_windows: HandleCache<window::Entry>,
    /// What it reduced with last.
    pub recent_kernel: RecentKernel,
    /// What it accumulated last.
    pub recent_update: Cell<Option<PlainUpdate>>,
}

/// A loop, with the handles of the operation and the type that it is for, as they came in registers: predefined ones, which
/// mean the same for ever.
pub struct RecentKernel(Cell<Option<(usize, usize, Kernel)>>);

impl RecentKernel {
    /// The loop for `op` on `datatype`: the last one, or what `find` finds.
    #[inline(always)]
    pub fn find(
        &self,
        op: usize,
        datatype: usize,
        find: impl FnOnce() -> Option<Kernel>,
    ) -> Option<Kernel> {
        if let Some((known_op, known_type, kernel)) = self.0.get()
            && (known_op, known_type) == (op, datatype)
        {
            return Some(kernel);
        }
        let kernel = find()?;
        self.0.set(Some((op, datatype, kernel)));
        Some(kernel)
    }
}

thread_local! {
    static LOCAL: Local =
        const {
        Local {
            inside: Cell::new(false),
            handle_cache: HandleCache::new(),
            recent_windows: HandleCache::new(),
            recent_kernel: RecentKernel(Cell::new(None)),
            recent_update: Cell::new(None),
        }
    };
}

/// Runs `call` with this thread's own things.
#[inline]
pub fn with_local<R>(call: impl FnOnce(&Local) -> R) -> R {
    const { assert!(!std::mem::needs_drop::<Local>()) };
    // Only the address comes out of the closure: what `call` captured is not copied into it.
    let local = LOCAL.with(std::ptr::from_ref);
    // SAFETY: what needs no destructor lives as long as its thread.
    call(unsafe { &*local })
}

impl Local {
    /// Whether the thread is inside ferrorail.
    #[inline]
    pub fn is_inside(&self) -> bool {
        self.inside.get()
    }
}

/// Marks this thread as being inside ferrorail until dropped.
pub struct Inside(bool);

impl Inside {
    /// Enters; may be nested.
    pub fn enter() -> Self {
        Self(with_local(|local| local.inside.replace(true)))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        with_local(|local| local.inside.set(self.0));
    }
}
