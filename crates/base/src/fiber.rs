//! Calls on stacks of their own. One that waits is left where it is, and gone on with later, by any thread.
//!
//! What waits calls [`suspend`] after each look; who drives a fiber calls [`Fiber::resume`] until it is done:
//!
//! ```
//! # use ferrorail_base::fiber::{Driver, Fiber, suspend};
//! # use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
//! let arrived = Arc::new(AtomicBool::new(false));
//! let awaited = arrived.clone();
//! let mut fiber = Fiber::new(0, move || {
//!     while !awaited.load(Ordering::Acquire) {
//!         assert!(suspend());
//!     }
//! })
//! .unwrap_or_else(|_| panic!("no memory for a stack"));
//! assert!(!fiber.resume(Driver::Program));
//! arrived.store(true, Ordering::Release);
//! assert!(fiber.resume(Driver::Program));
//! ```

use crate::sync::Mutex;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::ptr;

/// Bytes of a stack: pages that are never touched take no memory. The host MPI's packing and progress run on it, and
/// handlers of signals.
const STACK_BYTES: usize = 256 << 10;

/// Stacks that are kept for later fibers.
const STACKS_KEPT: usize = 64;

/// Fibers that have a stack at a time: each takes two of the mappings of which a process has some 65,000.
const STACKS_MAX: usize = 1024;

/// The stacks of the process.
struct Stacks {
    /// Kept for later fibers.
    free: Vec<DefaultStack>,
    used: usize,
}

static STACKS: Mutex<Stacks> = Mutex::new(Stacks {
    free: Vec::new(),
    used: 0,
});

impl Stacks {
    /// A stack, if there are not as many as `most`, and memory for one.
    fn take(&mut self, most: usize) -> Option<DefaultStack> {
        if self.used >= most {
            return None;
        }
        let kept = self.free.pop();
        let stack = kept.or_else(|| DefaultStack::new(STACK_BYTES).ok())?;
        self.used += 1;
        Some(stack)
    }

    /// One that a fiber had.
    fn give_back(&mut self, stack: DefaultStack) {
        self.used -= 1;
        if self.free.len() < STACKS_KEPT {
            self.free.push(stack);
        }
    }
}

/// Which kind of thread drives a fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// One of the program, in a call of MPI: it may call the host MPI.
    Program,
    /// The same, in a call that waits: it has nothing else to do.
    Waiting,
    /// One of ferrorail's own, which may not.
    Helper,
}

/// What a fiber that runs needs to leave.
struct Place {
    number: u64,
    yielder: *const Yielder<Driver, ()>,
    driver: Cell<Driver>,
}

thread_local! {
    /// The fiber that this thread is in.
    static CURRENT: Cell<*const Place> = const { Cell::new(ptr::null()) };
}

/// Never in line: a fiber may be on another thread when its caller asks again, and the compiler must not keep the address of
/// a thread's own variable from before.
#[inline(never)]
fn current() -> *const Place {
    CURRENT.get()
}

/// As [`current`].
#[inline(never)]
fn set_current(place: *const Place) -> *const Place {
    CURRENT.replace(place)
}

/// In a fiber, leaves it until it is resumed; false elsewhere.
pub fn suspend() -> bool {
    let place = current();
    if place.is_null() {
        return false;
    }
    // SAFETY: a fiber that runs has its place on its stack, with its yielder; both stay until it ends.
    let place = unsafe { &*place };
    // SAFETY: as above.
    let driver = unsafe { &*place.yielder }.suspend(());
    place.driver.set(driver);
    set_current(place);
    true
}

/// The number of the fiber that this thread is in.
pub fn number() -> Option<u64> {
    let place = current();
    // SAFETY: as in `suspend`.
    (!place.is_null()).then(|| unsafe { &*place }.number)
}

/// Whether this is a fiber whose driver has nothing else to do.
pub fn is_awaited() -> bool {
    let place = current();
    // SAFETY: as in `suspend`.
    !place.is_null() && unsafe { &*place }.driver.get() == Driver::Waiting
}

/// In a fiber, waits until a thread of the program drives it, which may call the host MPI; nothing elsewhere.
pub fn leave_to_program() {
    let place = current();
    // SAFETY: as in `suspend`.
    while !place.is_null() && unsafe { &*place }.driver.get() == Driver::Helper {
        suspend();
    }
}

/// Whether as many fibers have a stack as may.
pub fn is_short_of_stacks() -> bool {
    STACKS.lock().used >= STACKS_MAX
}

/// A call that can be left while it waits.
pub struct Fiber(Option<Coroutine<Driver, (), (), DefaultStack>>);

// SAFETY: what is on the stack of a fiber belongs to one call, which any one thread may go on with: it holds no lock while
// it waits (`Waiter::idle` checks that), and refers to no variable of a thread over a wait.
unsafe impl Send for Fiber {}

impl Fiber {
    /// A fiber that will `run`, which must not panic. Its `number` means something to whoever made it.
    ///
    /// # Errors
    /// If there is no stack for it, as too many fibers have one or memory is short; what was to be run.
    pub fn new<F: FnOnce() + 'static>(number: u64, run: F) -> Result<Self, F> {
        Self::among(STACKS_MAX, number, run)
    }

    /// As [`Fiber::new`], however many have a stack: others wait for this one.
    ///
    /// # Errors
    /// If memory is short; what was to be run.
    pub fn in_turn<F: FnOnce() + 'static>(number: u64, run: F) -> Result<Self, F> {
        Self::among(usize::MAX, number, run)
    }

    /// A fiber, if there are not as many as `most`.
    fn among<F: FnOnce() + 'static>(most: usize, number: u64, run: F) -> Result<Self, F> {
        let Some(stack) = STACKS.lock().take(most) else {
            return Err(run);
        };
        let coroutine = Coroutine::with_stack(stack, move |yielder, driver| {
            let place = Place {
                number,
                yielder,
                driver: Cell::new(driver),
            };
            set_current(&raw const place);
            run();
        });
        Ok(Self(Some(coroutine)))
    }

    /// Goes on until it waits or is done, driven by a thread of this kind; whether it is done.
    pub fn resume(&mut self, driver: Driver) -> bool {
        let Some(coroutine) = &mut self.0 else {
            return true;
        };
        let outer = current();
        let result = coroutine.resume(driver);
        set_current(outer);
        if let CoroutineResult::Yield(()) = result {
            return false;
        }
        if let Some(done) = self.0.take() {
            debug_assert!(done.done(), "it has returned");
            STACKS.lock().give_back(done.into_stack());
        }
        true
    }
}

impl Drop for Fiber {
    /// What one that is not done has is not given back: to unwind its stack might wait, and others may refer to it.
    fn drop(&mut self) {
        if let Some(coroutine) = self.0.take() {
            match coroutine.started() {
                true => std::mem::forget(coroutine),
                false => {
                    STACKS.lock().used -= 1;
                    drop(coroutine);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicU32, Ordering};
    use std::sync::Arc;

    #[test]
    fn a_fiber_goes_on_where_it_was_on_any_thread() {
        let steps = Arc::new(AtomicU32::new(0));
        let counted = steps.clone();
        let mut fiber = Fiber::new(3, move || {
            let local = [7_u32; 100];
            for _ in 0..3 {
                assert_eq!(number(), Some(3));
                counted.fetch_add(local[99], Ordering::Relaxed);
                assert!(suspend());
            }
        })
        .unwrap_or_else(|_| panic!("no stack"));
        assert!(!suspend() && number().is_none(), "outside of fibers");
        assert!(!fiber.resume(Driver::Program));
        let mut fiber = std::thread::spawn(move || {
            assert!(!fiber.resume(Driver::Helper));
            fiber
        })
        .join()
        .expect("no panic");
        assert_eq!(steps.load(Ordering::Relaxed), 14);
        assert!(!fiber.resume(Driver::Program) && fiber.resume(Driver::Program));
        assert!(fiber.resume(Driver::Program) && !suspend());
        assert_eq!(steps.load(Ordering::Relaxed), 21);
    }

    #[test]
    fn what_is_the_program_s_to_do_waits_for_it() {
        let done = Arc::new(AtomicU32::new(0));
        let counted = done.clone();
        let mut fiber = Fiber::new(3, move || {
            leave_to_program();
            counted.fetch_add(1, Ordering::Relaxed);
            suspend();
            leave_to_program();
        })
        .unwrap_or_else(|_| panic!("no stack"));
        leave_to_program();
        assert!(!fiber.resume(Driver::Helper) && !fiber.resume(Driver::Helper));
        assert_eq!(done.load(Ordering::Relaxed), 0);
        assert!(!fiber.resume(Driver::Program) && !fiber.resume(Driver::Helper));
        assert_eq!(done.load(Ordering::Relaxed), 1);
        assert!(fiber.resume(Driver::Program));
    }

    #[test]
    fn a_fiber_may_drive_another() {
        let mut outer = Fiber::new(1, || {
            let mut inner =
                Fiber::new(2, || assert!(suspend())).unwrap_or_else(|_| panic!("no stack"));
            assert!(!inner.resume(Driver::Helper));
            assert_eq!(number(), Some(1));
            assert!(suspend());
            assert!(inner.resume(Driver::Helper));
            assert!(suspend());
        })
        .unwrap_or_else(|_| panic!("no stack"));
        assert!(!outer.resume(Driver::Program) && !outer.resume(Driver::Program));
        assert!(outer.resume(Driver::Program));
        let mut left = Fiber::new(0, || assert!(suspend())).unwrap_or_else(|_| panic!("no stack"));
        assert!(!left.resume(Driver::Program));
        drop(left);
    }
}
