//! What broke lanes: kept by each lane, and told to those who drive the rails.

use ferrorail_base::sync::{AtomicBool, Mutex, Ordering};
use ferrorail_fabric::{Breakage, FabricError};

/// What broke a lane in its present generation, if anything did.
#[derive(Debug, Default)]
pub(crate) struct BreakageCell {
    /// Whether there is a `breakage`.
    is_broken: AtomicBool,
    breakage: Mutex<Option<Breakage>>,
}

impl BreakageCell {
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// What broke the lane, if anything did.
    #[inline]
    pub fn get(&self) -> Option<Breakage> {
        match self.is_broken() {
            true => self.breakage.lock().clone(),
            false => None,
        }
    }

    /// Breaks the lane; false if it was broken before.
    #[cold]
    pub fn set(&self, breakage: Breakage) -> bool {
        let mut known = self.breakage.lock();
        let first = known.is_none();
        known.get_or_insert(breakage);
        self.is_broken.store(true, Ordering::Release);
        first
    }

    /// Begins the lane's next generation.
    pub fn clear(&self) {
        let mut known = self.breakage.lock();
        *known = None;
        self.is_broken.store(false, Ordering::Release);
    }
}

/// Failures of lanes since `progress` was last called.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    any: AtomicBool,
    list: Mutex<Vec<FabricError>>,
}

impl Failures {
    pub fn push(&self, failure: FabricError) {
        let mut list = self.list.lock();
        list.push(failure);
        self.any.store(true, Ordering::Relaxed);
    }

    /// One of them, if there are any: several may fail in one pass, and each is told, one a call.
    #[inline]
    pub fn pop(&self) -> Option<FabricError> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut list = self.list.lock();
        let failure = list.pop();
        self.any.store(!list.is_empty(), Ordering::Relaxed);
        failure
    }
}
