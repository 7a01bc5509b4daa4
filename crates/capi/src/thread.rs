//! What each thread has of its own: what it used last, and whether it is inside ferrorail.

use crate::handle_cache::HandleCache;
use crate::stack::is_under_way;
use crate::team_cache::entry as team;
use crate::window::entry as window;
use crate::window::plain_update::PlainUpdate;
use ferrorail_reduce::Kernel;
use std::cell::Cell;
use std::ptr;

/// What each thread has of its own; in one place, because finding it takes a call.
pub struct Local {
    /// What it is doing for a call of MPI.
    busy: Cell<Busy>,
    /// The call that was handed on to the host last.
    handed: Cell<Option<Handed>>,
    /// Communicators it used last.
    pub handle_cache: HandleCache<team::Entry>,
    /// Windows it used last.
    pub recent_windows: HandleCache<window::Entry>,
    /// What it reduced with last.
    pub recent_kernel: RecentKernel,
    /// What it accumulated last.
    pub recent_update: Cell<Option<PlainUpdate>>,
    /// Calls on windows that it has made.
    window_calls: Cell<u8>,
}

/// Calls on windows between two of which the host is driven. Divides the counter's range.
const WINDOW_CALLS: u8 = 64;

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
            busy: Cell::new(Busy::No),
            handed: Cell::new(None),
            handle_cache: HandleCache::new(),
            recent_windows: HandleCache::new(),
            recent_kernel: RecentKernel(Cell::new(None)),
            recent_update: Cell::new(None),
            window_calls: Cell::new(0),
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
        self.busy.get() == Busy::Inside
    }

    /// Counts a call on a window. Whether it is time to drive the host: most of these calls do not wait, and a program may
    /// make nothing but them until something else has arrived, by a message that needs the host's progress here.
    #[inline(always)]
    pub fn is_host_due(&self) -> bool {
        let calls = self.window_calls.get().wrapping_add(1);
        self.window_calls.set(calls);
        calls.is_multiple_of(WINDOW_CALLS)
    }

    /// Whether the call `name` on `handle`, which has the variable `of_call` on its stack, is a part of one that was handed on
    /// to the host, made again by a tool behind ferrorail. All else that the program's callbacks call meanwhile is the program's.
    #[inline(always)]
    pub fn is_handed<T>(&self, name: &str, handle: usize, of_call: &T) -> bool {
        self.busy.get() == Busy::Handed
            && self.was_handed(name, handle, ptr::from_ref(of_call).addr())
    }

    #[cold]
    fn was_handed(&self, name: &str, handle: usize, at: usize) -> bool {
        let handed = self.handed.get();
        // Stacks grow downwards. What does not lie below that call's has come after a callback that has left it by a jump, and
        // so may have what does.
        handed.is_some_and(|outer| {
            let same = outer.name == name && outer.handle == handle && at < outer.at;
            same && is_under_way(outer.at, Some(at))
        })
    }
}

/// What a thread does for a call of MPI.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Busy {
    No,
    /// Ferrorail itself calls the host: what the host calls back is not ours to take.
    Inside,
    /// The host has the call, and may call the program's error handlers and attribute callbacks.
    Handed,
}

/// A call that was handed on to the host.
#[derive(Clone, Copy)]
struct Handed {
    name: &'static str,
    /// Its communicator or window.
    handle: usize,
    /// An address on its stack.
    at: usize,
}

/// Marks this thread as being inside ferrorail until dropped.
pub struct Inside(Busy);

impl Inside {
    /// Enters; may be nested.
    pub fn enter() -> Self {
        Self(with_local(|local| local.busy.replace(Busy::Inside)))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        with_local(|local| local.busy.set(self.0));
    }
}

/// Marks this thread as having handed a call on to the host until dropped.
pub struct InHostCall(Busy, Option<Handed>);

impl InHostCall {
    /// Of the call `name` on `handle`, which has the variable `of_call` on its stack. None if it is a part of such a call.
    pub fn enter<T>(name: &'static str, handle: usize, of_call: &T) -> Option<Self> {
        with_local(|local| {
            if local.is_handed(name, handle, of_call) {
                return None;
            }
            let at = ptr::from_ref(of_call).addr();
            let handed = Handed { name, handle, at };
            Some(Self(
                local.busy.replace(Busy::Handed),
                local.handed.replace(Some(handed)),
            ))
        })
    }
}

impl Drop for InHostCall {
    fn drop(&mut self) {
        with_local(|local| {
            local.busy.set(self.0);
            local.handed.set(self.1);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[inline(never)]
    fn is_handed(name: &str, handle: usize) -> bool {
        let below = black_box(0);
        with_local(|local| local.is_handed(name, handle, &below))
    }

    #[inline(never)]
    fn hand_on(above: &i32) {
        let of_call = black_box(0);
        let outer = InHostCall::enter("bcast", 7, &of_call).expect("the first");
        assert!(is_handed("bcast", 7) && !is_handed("bcast", 8) && !is_handed("reduce", 7));
        assert!(!with_local(|local| local.is_inside()));
        hand_another_on();
        assert!(is_handed("bcast", 7));
        // As after a jump: a call whose frame lies above.
        assert!(!with_local(|local| local.is_handed("bcast", 7, above)));
        drop(outer);
    }

    #[inline(never)]
    fn hand_another_on() {
        let of_call = black_box(0);
        assert!(InHostCall::enter("bcast", 7, &of_call).is_none());
        let _other = InHostCall::enter("reduce", 7, &of_call).expect("another");
        assert!(is_handed("reduce", 7) && !is_handed("bcast", 7));
        let _inside = Inside::enter();
        assert!(with_local(|local| local.is_inside()) && !is_handed("reduce", 7));
    }

    #[test]
    fn only_the_same_call_is_a_part_of_one_that_was_handed_on() {
        let above = black_box(0);
        assert!(!is_handed("bcast", 7));
        hand_on(&above);
        assert!(!is_handed("bcast", 7));
    }
}
