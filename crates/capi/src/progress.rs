//! The host's progress while a rank waits inside ferrorail.

use crate::nonblocking;
use ferrorail_base::fiber::Driver;
use ferrorail_base::sync::Mutex;
use ferrorail_mpi_abi::{Comm, Host, MpiError, RequestList};
use std::sync::Arc;

/// A receive that nobody sends to: testing it drives the host's progress, in every MPI library.
/// (A probe on a communicator of one rank does not in MPICH, which looks at its own queue only.)
#[derive(Clone)]
pub struct Progress(Arc<Inner>);

struct Inner {
    host: &'static Host,
    comm: Comm,
    pending: Mutex<Option<Pending>>,
}

struct Pending {
    requests: RequestList,
    /// Where the request's one byte would go; must not move.
    _byte: Box<[u8; 1]>,
}

impl Progress {
    /// Posts the receive on `comm`, a private communicator of one rank.
    ///
    /// # Errors
    /// The host's.
    pub fn start(host: &'static Host, comm: Comm) -> Result<Self, MpiError> {
        let mut byte = Box::new([0]);
        let mut requests = RequestList::with_capacity(host.kind(), 2);
        // SAFETY: the byte stays in its box until the request is complete.
        unsafe { host.start_receive(&mut *byte, 0, 0, comm, &mut requests)? };
        let pending = Mutex::new(Some(Pending {
            requests,
            _byte: byte,
        }));
        Ok(Self(Arc::new(Inner {
            host,
            comm,
            pending,
        })))
    }

    /// Completes the receive.
    pub fn stop(&self) {
        let taken = self.0.pending.lock().take();
        let Some(mut taken) = taken else {
            return;
        };
        let byte = [0];
        // SAFETY: the byte lives until the request is complete, just below.
        let sent = unsafe {
            self.0
                .host
                .start_send(&byte, 0, 0, self.0.comm, &mut taken.requests)
        };
        if let Err(error) = sent.and_then(|()| self.0.host.wait_all(&mut taken.requests)) {
            tracing::debug!("at finalize: {error}");
            // The host may still write to it.
            std::mem::forget(taken);
        }
    }
}

impl ferrorail_engine::Host for Progress {
    fn poke(&self) {
        // If another thread is testing it, that is enough, and MPI forbids two to do so.
        if let Some(mut pending) = self.0.pending.try_lock()
            && let Some(pending) = &mut *pending
            && let Err(error) = self.0.host.test_all(&mut pending.requests)
        {
            tracing::debug!("while waiting: {error}");
        }
        // Peers may wait for what this rank has to do in them.
        nonblocking::queue::go_on(Driver::Program);
    }
}
