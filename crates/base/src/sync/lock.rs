//! Locks that are never held over a wait, and claims that are.
//!
//! A thread that waits for a peer while it holds a lock stops every thread of its process that wants
//! the lock, and one of these may be what the peer waits for. Therefore [`Mutex`] counts, per thread
//! and in builds with debug assertions, what is locked, and whatever waits calls [`assert_unlocked`]
//! first. Clippy refuses the standard mutex in crates that wait.

use super::{AtomicBool, Ordering};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

#[cfg(debug_assertions)]
std::thread_local! {
    static LOCKED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Counts as a lock of this thread as long as it lives.
#[derive(Debug)]
struct Locked(PhantomData<*const ()>);

impl Locked {
    #[inline]
    fn new() -> Self {
        #[cfg(debug_assertions)]
        LOCKED.set(LOCKED.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for Locked {
    #[inline]
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        LOCKED.set(LOCKED.get() - 1);
    }
}

/// To be called by whatever waits for another process.
///
/// # Panics
/// With debug assertions, if this thread holds a [`Mutex`].
#[inline]
#[track_caller]
pub fn assert_unlocked() {
    #[cfg(debug_assertions)]
    assert_eq!(LOCKED.get(), 0, "a thread waits with so many locks held");
}

/// A [`std::sync::Mutex`] that must not be held over a wait.
#[derive(Debug, Default)]
#[allow(clippy::disallowed_types)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// What a [`Mutex`] gives out.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    guard: std::sync::MutexGuard<'a, T>,
    _locked: Locked,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        #[allow(clippy::disallowed_types)]
        Self(std::sync::Mutex::new(value))
    }

    /// Exclusive use, when nobody else has it. What a thread that panicked left behind is used as it is.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard::new(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`Mutex::lock`], unless somebody else has it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(MutexGuard::new(guard)),
            Err(TryLockError::Poisoned(poison)) => Some(MutexGuard::new(poison.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, which nobody else can use meanwhile.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a, T> MutexGuard<'a, T> {
    #[inline]
    fn new(guard: std::sync::MutexGuard<'a, T>) -> Self {
        Self {
            guard,
            _locked: Locked::new(),
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Something that one thread at a time may use, also while it waits for peers. Nobody sleeps until a
/// claim is given up: who does not get it looks again, and keeps progress going in between. So giving it up is
/// a plain store, which does not wait for what was stored before to reach other cores.
///
/// What a holder waits for must not depend on who wants the claim: then all of them get it in turn.
#[derive(Debug)]
pub struct Claim<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has the value, which may have come from another.
unsafe impl<T: Send> Sync for Claim<T> {}

/// A [`Claim`] that this thread has.
#[derive(Debug)]
pub struct Claimed<'a, T> {
    claim: &'a Claim<T>,
    _of_this_thread: PhantomData<*const ()>,
}

impl<T> Claim<T> {
    /// What nobody has claimed.
    pub fn new(value: T) -> Self {
        Self {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The claim, unless another thread has it.
    #[inline]
    pub fn take(&self) -> Option<Claimed<'_, T>> {
        let free = self
            .taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        // Not made before: to drop it gives the claim up.
        free.is_ok().then(|| Claimed {
            claim: self,
            _of_this_thread: PhantomData,
        })
    }

    /// The value, which nobody else can use meanwhile.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for Claim<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Drop for Claimed<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.claim.taken.store(false, Ordering::Release);
    }
}

impl<T> Deref for Claimed<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no other thread has the claim, and this borrow ends before it is given up.
        unsafe { &*self.claim.value.get() }
    }
}

impl<T> DerefMut for Claimed<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; `self` is borrowed exclusively.
        unsafe { &mut *self.claim.value.get() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_one_thread_s() {
        let claim = Claim::new(1);
        let mut held = claim.take().expect("nobody has it");
        *held += 1;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    assert!(claim.take().is_none());
                }
            });
        });
        assert_unlocked();
        drop(held);
        assert_eq!(claim.take().as_deref(), Some(&2));
    }

    #[test]
    #[cfg_attr(
        not(debug_assertions),
        ignore = "counts in builds with assertions only"
    )]
    fn a_wait_with_a_lock_held_is_noticed() {
        let (one, other) = (Mutex::new(()), Mutex::new(()));
        let waits = || std::panic::catch_unwind(assert_unlocked).is_ok();
        {
            let _one = one.lock();
            assert!(!waits());
            let _other = other.try_lock();
            drop(_one);
            assert!(!waits());
        }
        assert!(waits());
        let lock = one.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| assert_unlocked());
        });
        drop(lock);
        assert!(waits());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell as Watched;
    use loom::sync::Arc;
    use loom::thread;

    /// Who gets a claim sees what the one before did, and has it alone.
    #[test]
    fn loom_a_claim_is_one_thread_s() {
        loom::model(|| {
            let claim = Arc::new(Claim::new(Watched::new(0)));
            let add = |claim: &Claim<Watched<u32>>| {
                // SAFETY: loom reports an error if another thread uses it meanwhile.
                let add =
                    |value: Claimed<'_, Watched<u32>>| value.with_mut(|at| unsafe { *at += 1 });
                [claim.take().map(add), claim.take().map(add)]
                    .iter()
                    .flatten()
                    .count()
            };
            let other = claim.clone();
            let other = thread::spawn(move || add(&other));
            let mine = add(&claim);
            let both = [mine, other.join().unwrap()];
            let value = claim.take().expect("all have given it up");
            // SAFETY: as above.
            let sum = value.with(|at| unsafe { *at });
            assert_eq!(sum as usize, both.iter().sum::<usize>());
            assert!(sum > 0);
        });
    }
}
