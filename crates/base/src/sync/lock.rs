//! Locks that are never held over a wait, and claims that are.
//!
//! A thread that waits for a peer while it holds a lock stops every thread of its process that wants
//! the lock, and one of these may be what the peer waits for. Therefore [`Mutex`] counts, per thread
//! and in builds with debug assertions, what is locked, and whatever waits calls [`assert_unlocked`]
//! first. Clippy refuses the standard mutex in crates that wait.

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
        try_lock(&self.0).map(MutexGuard::new)
    }

    /// The value, which nobody else can use meanwhile.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks `mutex` unless it is locked.
#[inline]
#[allow(clippy::disallowed_types)]
fn try_lock<T>(mutex: &std::sync::Mutex<T>) -> Option<std::sync::MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poison)) => Some(poison.into_inner()),
        Err(TryLockError::WouldBlock) => None,
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
/// claim is given up: who does not get it looks again, and keeps progress going in between.
///
/// What a holder waits for must not depend on who wants the claim: then all of them get it in turn.
#[derive(Debug, Default)]
#[allow(clippy::disallowed_types)]
pub struct Claim<T>(std::sync::Mutex<T>);

/// A [`Claim`] that this thread has.
pub type Claimed<'a, T> = std::sync::MutexGuard<'a, T>;

impl<T> Claim<T> {
    /// What nobody has claimed.
    pub const fn new(value: T) -> Self {
        #[allow(clippy::disallowed_types)]
        Self(std::sync::Mutex::new(value))
    }

    /// The claim, unless another thread has it.
    #[inline]
    pub fn take(&self) -> Option<Claimed<'_, T>> {
        try_lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_one_thread_s() {
        let claim = Claim::new(1);
        let mut held = claim.take().expect("nobody has it");
        *held += 1;
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(claim.take().is_none()));
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
