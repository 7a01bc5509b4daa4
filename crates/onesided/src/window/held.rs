//! What this rank has of a target's lock, in a byte that operations only look at.

use crate::lock::Mode;
use ferrorail_base::sync::{AtomicU8, Mutex, Ordering};
use std::sync::{Arc, Weak};

/// What this process has, by window and target. A lock of another window is looked for only where one cannot be had at once.
static OF_WINDOWS: Mutex<Vec<Weak<[HeldCell]>>> = Mutex::new(Vec::new());

/// What is held of the targets of a new window: nothing.
pub(super) fn of_window(targets: usize) -> Arc<[HeldCell]> {
    let cells: Arc<[HeldCell]> = (0..targets).map(|_| HeldCell::new()).collect();
    let mut windows = OF_WINDOWS.lock();
    windows.retain(|window| window.strong_count() > 0);
    windows.push(Arc::downgrade(&cells));
    cells
}

/// Whether this process has the lock of some target, of whatever window.
pub(super) fn holds_any() -> bool {
    let windows = OF_WINDOWS.lock();
    let mut windows = windows.iter().filter_map(Weak::upgrade);
    windows.any(|cells| cells.iter().any(|held| held.get().is_ready()))
}

/// What this rank has of a target's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held(u8);

impl Held {
    const EXCLUSIVE: u8 = 1;
    const WANTED: u8 = 2;
    const ACQUIRED: u8 = 4;
    const QUICK: u8 = 6;
    const UNCHECKED: u8 = 8;

    /// Nothing.
    pub const NOTHING: Self = Self(0);
    /// Nobody knows: getting it or giving it back failed on the way. For good.
    pub const LOST: Self = Self(Self::EXCLUSIVE);

    const fn new(state: u8, mode: Mode) -> Self {
        match mode {
            Mode::Exclusive => Self(state | Self::EXCLUSIVE),
            Mode::Shared => Self(state),
        }
    }

    /// It was asked for, and nobody has used it yet.
    pub const fn wanted(mode: Mode) -> Self {
        Self::new(Self::WANTED, mode)
    }

    /// The lock.
    pub const fn acquired(mode: Mode) -> Self {
        Self::new(Self::ACQUIRED, mode)
    }

    /// The lock, without the knowledge of the algorithm.
    pub const fn quick(mode: Mode) -> Self {
        Self::new(Self::QUICK, mode)
    }

    /// The word of the program that there is no conflict (`MPI_MODE_NOCHECK`).
    pub const fn unchecked(mode: Mode) -> Self {
        Self::new(Self::UNCHECKED, mode)
    }

    /// How it is held, or wanted.
    #[inline]
    pub const fn mode(self) -> Mode {
        match self.0 & Self::EXCLUSIVE {
            0 => Mode::Shared,
            _ => Mode::Exclusive,
        }
    }

    /// Whether the lock must still be acquired.
    #[inline]
    pub const fn is_wanted(self) -> bool {
        self.0 & !Self::EXCLUSIVE == Self::WANTED
    }

    /// Whether the lock is held and the algorithm does not know: it must adopt what it is to give back.
    #[inline]
    pub const fn is_quick(self) -> bool {
        self.0 & !Self::EXCLUSIVE == Self::QUICK
    }

    /// Whether the program only said that there is no conflict.
    pub const fn is_unchecked(self) -> bool {
        self.0 & !Self::EXCLUSIVE == Self::UNCHECKED
    }

    /// Whether operations may start.
    #[inline]
    pub const fn is_ready(self) -> bool {
        self.0 >= Self::ACQUIRED
    }

    /// Whether operations may start, and no other process can operate on the target's memory.
    #[inline]
    pub const fn is_exclusive(self) -> bool {
        self.is_ready() && matches!(self.mode(), Mode::Exclusive)
    }
}

/// A [`Held`] that threads share. What changes it is one thread at a time, as the program must see to.
#[derive(Debug)]
pub(super) struct HeldCell(AtomicU8);

impl HeldCell {
    /// Nothing is held.
    pub fn new() -> Self {
        Self(AtomicU8::new(Held::NOTHING.0))
    }

    #[inline]
    pub fn get(&self) -> Held {
        Held(self.0.load(Ordering::Acquire))
    }

    #[inline]
    pub fn set(&self, held: Held) {
        self.0.store(held.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_keep_their_mode_and_are_told_apart() {
        type Make = fn(Mode) -> Held;
        let states: [(Make, [bool; 4]); 4] = [
            (Held::wanted, [true, false, false, false]),
            (Held::acquired, [false, false, false, true]),
            (Held::quick, [false, true, false, true]),
            (Held::unchecked, [false, false, true, true]),
        ];
        for (make, expected) in states {
            for mode in [Mode::Shared, Mode::Exclusive] {
                let cell = HeldCell::new();
                cell.set(make(mode));
                let held = cell.get();
                let ready = held.is_ready();
                let found = [
                    held.is_wanted(),
                    held.is_quick(),
                    held.is_unchecked(),
                    ready,
                ];
                assert_eq!(found, expected, "{held:?}");
                assert_eq!(held.mode(), mode);
                assert_eq!(held.is_exclusive(), ready && mode == Mode::Exclusive);
            }
        }
        for held in [Held::NOTHING, Held::LOST] {
            assert!(!held.is_ready() && !held.is_wanted() && !held.is_exclusive());
        }
    }

    #[test]
    fn a_lock_of_another_window_counts() {
        let (_first, second) = (of_window(2), of_window(3));
        second[1].set(Held::wanted(Mode::Shared));
        second[2].set(Held::acquired(Mode::Shared));
        assert!(holds_any());
    }
}
