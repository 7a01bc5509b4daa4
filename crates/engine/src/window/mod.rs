//! Windows: made here from a team's ranks, rails and settings; what they do is
//! [`ferrorail_onesided::window`]'s.
//!
//! A window borrows a team while it is made, for its topology and its out-of-band exchange, and
//! keeps nothing of it: the communicator may be freed first.

mod choose;
mod create;
pub mod explain;
mod link;
mod memory;
mod placement;
mod process_context;
mod register;
mod service;
mod spec;
pub mod statistics;

pub use ferrorail_onesided::lock::{LockAlgorithm, Mode as LockMode};
pub use ferrorail_onesided::window::{Shape, Threads, Update, WindowError};
pub use spec::{Memory, WindowSpec};

pub(crate) use service::ServiceThread;

use crate::rails::Rails;
use crate::reducer::Order;
use crate::rows::merge;
use crate::{Context, EngineError, LocalReduction, Team};
use ferrorail_base::Rank;
use ferrorail_onesided::window;
use statistics::WindowRow;
use std::sync::Arc;

/// An operation of the host's, for [`Update::Call`].
pub struct HostUpdate<'a>(pub &'a dyn LocalReduction);

impl window::Combine for HostUpdate<'_> {
    unsafe fn combine(
        &self,
        from: *const u8,
        into: *mut u8,
        elements: usize,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        // The host's result takes the place of the right operand.
        // SAFETY: the caller's contract.
        let combined = unsafe { self.0.combine(from, into, elements, Order::FromFirst) };
        combined.map_err(Into::into)
    }
}

/// The operations and synchronisations of a window.
pub type OneSided = window::Window<Rails>;

/// One rank's side of one window. Created and freed collectively.
pub struct Window {
    context: Arc<Context>,
    onesided: Arc<OneSided>,
    /// The thread that serves it, if one does.
    service_thread: Option<Arc<ServiceThread>>,
    spec: WindowSpec,
    /// First byte of this rank's memory.
    base: usize,
    /// Addresses of the memory of ranks of this node, by rank; `None` if it is not mapped.
    mapped: Vec<Option<usize>>,
}

impl Window {
    /// Makes a window of the ranks of `team`. Collective: all ranks get one, or all an error.
    ///
    /// # Errors
    /// [`EngineError::Refused`] names the step and rank; the window is then left to the host MPI.
    ///
    /// # Safety
    /// Memory of [`Memory::Create`] stays valid until the window is dropped.
    pub unsafe fn create(team: &Team, spec: WindowSpec) -> Result<Self, EngineError> {
        // SAFETY: the caller's contract.
        unsafe { create::create(team, spec) }
    }

    /// Operations and synchronisations.
    #[inline]
    #[must_use]
    pub fn onesided(&self) -> &OneSided {
        &self.onesided
    }

    /// As it was asked for.
    #[must_use]
    pub fn spec(&self) -> &WindowSpec {
        &self.spec
    }

    /// First byte of this rank's memory; 0 if it has none.
    #[must_use]
    pub fn base(&self) -> usize {
        self.base
    }

    /// Where the memory of `rank` is mapped in this process, its length and its unit.
    #[must_use]
    pub fn mapped(&self, rank: Rank) -> Option<(usize, u64, u64)> {
        let target = self.onesided.target(rank);
        self.mapped[rank.index()].map(|address| (address, target.bytes, target.unit))
    }

    /// Ends all use of the window. Collective: when it returns nobody uses this rank's memory.
    ///
    /// # Errors
    /// [`window::WindowError::Synchronisation`] in an epoch: nothing is ended then.
    pub fn close(&self) -> Result<(), EngineError> {
        self.onesided.close()?;
        self.stop_service();
        let row = WindowRow::of(self.spec.memory, &self.onesided);
        merge(&mut self.context.stats().windows.lock(), row);
        Ok(())
    }

    /// When this returns no thread serves the window, and no later call that waits.
    fn stop_service(&self) {
        self.context.forget_offers(&self.onesided);
        if let Some(service_thread) = &self.service_thread {
            service_thread.remove(&self.onesided);
        }
    }

    /// The process it belongs to.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.stop_service();
    }
}
