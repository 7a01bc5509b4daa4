//! The lock that a target keeps for its memory: who holds it, and who waits.

use std::collections::VecDeque;

/// How a lock is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Beside others of its kind.
    Shared,
    /// By one rank alone.
    Exclusive,
}

/// A lock, granted in the order of requests.
#[derive(Debug, Default)]
pub struct Lock {
    exclusive: bool,
    /// How many hold it together.
    sharing: u32,
    waiting: VecDeque<(u32, Mode)>,
}

impl Lock {
    /// `origin` wants it; whether it has it now.
    pub fn ask(&mut self, origin: u32, mode: Mode) -> bool {
        let granted = self.waiting.is_empty() && self.is_open_to(mode);
        match granted {
            true => self.grant(mode),
            false => self.waiting.push_back((origin, mode)),
        }
        granted
    }

    /// A holder gives it back; who has it now that waited.
    pub fn release(&mut self) -> Vec<u32> {
        match self.exclusive {
            true => self.exclusive = false,
            false => self.sharing -= 1,
        }
        let mut granted = Vec::new();
        while let Some(&(origin, mode)) = self.waiting.front() {
            if !self.is_open_to(mode) {
                break;
            }
            self.waiting.pop_front();
            self.grant(mode);
            granted.push(origin);
        }
        granted
    }

    fn is_open_to(&self, mode: Mode) -> bool {
        !self.exclusive && (mode == Mode::Shared || self.sharing == 0)
    }

    fn grant(&mut self, mode: Mode) {
        match mode {
            Mode::Shared => self.sharing += 1,
            Mode::Exclusive => self.exclusive = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_exclude_others_and_nobody_overtakes() {
        let mut lock = Lock::default();
        assert!(lock.ask(1, Mode::Exclusive));
        assert!(!lock.ask(2, Mode::Shared));
        assert!(!lock.ask(3, Mode::Shared));
        assert!(!lock.ask(4, Mode::Exclusive));
        assert!(!lock.ask(5, Mode::Shared));
        assert_eq!(lock.release(), [2, 3]);
        // Shared as it is, nobody passes the rank that waits for it alone.
        assert!(!lock.ask(6, Mode::Shared));
        assert!(lock.release().is_empty());
        assert_eq!(lock.release(), [4]);
        assert_eq!(lock.release(), [5, 6]);
        assert!(lock.ask(7, Mode::Shared));
        for _ in 0..3 {
            assert!(lock.release().is_empty());
        }
        assert!(lock.ask(8, Mode::Exclusive));
    }
}
