//! Messages and the two collectives that out-of-band exchange needs, on bytes.

use super::{Host, MpiError};
use crate::{AbiKind, Comm};
use libc::{c_int, c_void};

/// Requests in the host's own array layout.
#[derive(Debug)]
pub struct RequestList {
    /// As many bytes as any layout needs, aligned for all.
    words: Vec<u64>,
    handle_bytes: usize,
    count: usize,
}

impl RequestList {
    /// An empty list for `kind` with room for `capacity` requests.
    pub fn with_capacity(kind: AbiKind, capacity: usize) -> Self {
        Self {
            words: vec![0; capacity],
            handle_bytes: kind.handle_bytes(),
            count: 0,
        }
    }

    /// Where the next request is to be written.
    ///
    /// # Panics
    /// If the list is full.
    pub fn push(&mut self) -> *mut c_void {
        assert!(
            self.count < self.words.len(),
            "the list of requests is full"
        );
        self.count += 1;
        self.at(self.count - 1)
    }

    /// Where request `index` is.
    fn at(&mut self, index: usize) -> *mut c_void {
        let first = self.words.as_mut_ptr().cast::<u8>();
        first.wrapping_add(index * self.handle_bytes).cast()
    }

    /// Forgets all requests, which are complete.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// The array.
    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        self.words.as_mut_ptr().cast()
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

fn c_len(bytes: usize) -> c_int {
    c_int::try_from(bytes).expect("messages of the bootstrap are far below 2 GiB")
}

impl Host {
    /// Everybody's `mine`, all of one length, into `all`. Collective.
    ///
    /// # Errors
    /// The library's, after its error handler.
    ///
    /// # Panics
    /// If `all` is not a multiple of `mine` in length, or `mine` is 2 GiB or more.
    pub fn allgather_bytes(&self, mine: &[u8], all: &mut [u8], comm: Comm) -> Result<(), MpiError> {
        assert!(mine.is_empty() || all.len().is_multiple_of(mine.len()));
        let (count, byte) = (c_len(mine.len()), self.predefined.byte);
        let (from, to) = (mine.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: both buffers are live; `all` holds one block for each rank, as the caller sized it.
        unsafe {
            let start = self.functions.iallgather.map(|start| {
                move |request| start(from, count, byte, to, count, byte, comm, request)
            });
            self.give_way("MPI_Allgather", start, || {
                (self.functions.allgather)(from, count, byte, to, count, byte, comm)
            })
        }
    }

    /// Everybody's `mine` one after another; `counts[i]` is the length of rank `i`'s. Collective.
    ///
    /// # Errors
    /// The library's, after its error handler.
    ///
    /// # Panics
    /// If the total is 2 GiB or more.
    pub fn allgatherv_bytes(
        &self,
        mine: &[u8],
        counts: &[usize],
        comm: Comm,
    ) -> Result<Vec<u8>, MpiError> {
        let byte = self.predefined.byte;
        let lengths: Vec<c_int> = counts.iter().map(|&bytes| c_len(bytes)).collect();
        let mut total = 0;
        let mut offsets: Vec<c_int> = Vec::with_capacity(counts.len());
        for &bytes in counts {
            offsets.push(c_len(total));
            total += bytes;
        }
        if total == 0 {
            return Ok(Vec::new());
        }
        let mut all = vec![0u8; c_len(total) as usize];
        // An empty slice may point at 1, which is Open MPI's `MPI_IN_PLACE`.
        let from: *const c_void = match mine.is_empty() {
            true => lengths.as_ptr().cast(),
            false => mine.as_ptr().cast(),
        };
        let (count, to) = (c_len(mine.len()), all.as_mut_ptr().cast());
        let (lengths, offsets) = (lengths.as_ptr(), offsets.as_ptr());
        // SAFETY: `all` is as long as the sum of the counts; all arrays have one entry per rank.
        unsafe {
            let start = self.functions.iallgatherv.map(|start| {
                move |request| start(from, count, byte, to, lengths, offsets, byte, comm, request)
            });
            self.give_way("MPI_Allgatherv", start, || {
                (self.functions.allgatherv)(from, count, byte, to, lengths, offsets, byte, comm)
            })?;
        }
        Ok(all)
    }

    /// The smallest of everybody's `mine`. Collective.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn allreduce_min(&self, mine: c_int, comm: Comm) -> Result<c_int, MpiError> {
        let [least] = self.allreduce_min_each([mine], comm)?;
        Ok(least)
    }

    /// By place, the smallest of everybody's. Collective.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn allreduce_min_each<const N: usize>(
        &self,
        mine: [c_int; N],
        comm: Comm,
    ) -> Result<[c_int; N], MpiError> {
        let mut least = [0; N];
        let (from, to) = (mine.as_ptr().cast(), least.as_mut_ptr().cast());
        let (count, int, min) = (N as c_int, self.predefined.int, self.predefined.op_min);
        // SAFETY: both arrays are live.
        unsafe {
            let start = self.functions.iallreduce;
            let start =
                start.map(|start| move |request| start(from, to, count, int, min, comm, request));
            self.give_way("MPI_Allreduce", start, || {
                (self.functions.allreduce)(from, to, count, int, min, comm)
            })?;
        }
        Ok(least)
    }

    /// `MPI_Barrier`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn barrier(&self, comm: Comm) -> Result<(), MpiError> {
        // SAFETY: no memory is passed.
        unsafe {
            let start = self.functions.ibarrier;
            let start = start.map(|start| move |request| start(comm, request));
            self.give_way("MPI_Barrier", start, || (self.functions.barrier)(comm))
        }
    }

    /// Runs the collective `function`: by `start`, its form that does not block, where the `blocking` one keeps its core from
    /// the ranks that it waits for. MPICH and what is made of it poll without a pause, Open MPI gives way. The same form on all
    /// ranks, which run one library.
    fn give_way(
        &self,
        function: &'static str,
        start: Option<impl FnOnce(*mut c_void) -> c_int>,
        blocking: impl FnOnce() -> c_int,
    ) -> Result<(), MpiError> {
        let Some(start) = start.filter(|_| self.kind != AbiKind::OpenMpi) else {
            return self.check(function, blocking());
        };
        let mut request = RequestList::with_capacity(self.kind, 1);
        self.check(function, start(request.push()))?;
        while !self.test_all(&mut request)? {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Starts sending `bytes` to `peer`, adding the request to `requests`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    ///
    /// # Safety
    /// `bytes` stays where it is and unchanged until the request is complete.
    pub unsafe fn start_send(
        &self,
        bytes: &[u8],
        peer: u32,
        tag: c_int,
        comm: Comm,
        requests: &mut RequestList,
    ) -> Result<(), MpiError> {
        let (from, count) = (bytes.as_ptr().cast(), c_len(bytes.len()));
        let byte = self.predefined.byte;
        // SAFETY: the caller keeps the buffer; the request slot is live.
        let code = unsafe {
            (self.functions.isend)(from, count, byte, peer as c_int, tag, comm, requests.push())
        };
        self.check("MPI_Isend", code)
    }

    /// Starts receiving exactly `bytes.len()` bytes from `peer`, adding the request to `requests`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    ///
    /// # Safety
    /// `bytes` stays where it is and is not used until the request is complete.
    pub unsafe fn start_receive(
        &self,
        bytes: &mut [u8],
        peer: u32,
        tag: c_int,
        comm: Comm,
        requests: &mut RequestList,
    ) -> Result<(), MpiError> {
        let (to, count) = (bytes.as_mut_ptr().cast(), c_len(bytes.len()));
        let byte = self.predefined.byte;
        // SAFETY: the caller keeps the buffer; the request slot is live.
        let code = unsafe {
            (self.functions.irecv)(to, count, byte, peer as c_int, tag, comm, requests.push())
        };
        self.check("MPI_Irecv", code)
    }

    /// Whether all `requests` are complete, driving the library's progress.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn test_all(&self, requests: &mut RequestList) -> Result<bool, MpiError> {
        let count = requests.len() as c_int;
        let ignore = self.constants().statuses_ignore as *mut c_void;
        // SAFETY: the list has the host's layout and length; statuses are ignored.
        let done = self.answer("MPI_Testall", 0, |done| unsafe {
            (self.functions.testall)(count, requests.as_mut_ptr(), done, ignore)
        })?;
        Ok(done != 0)
    }

    /// Takes back `receives`, which [`Host::test_all`] found incomplete. Whether they are over, so that their memory is
    /// free: one whose message is on its way is not yet.
    pub fn cancel_receives(&self, receives: &mut RequestList) -> bool {
        for index in 0..receives.len() {
            // SAFETY: an active request of the host's.
            unsafe { (self.functions.cancel)(receives.at(index)) };
        }
        (0..100).any(|_| self.test_all(receives).unwrap_or(false))
    }

    /// Has the host free `sends`, which [`Host::test_all`] found incomplete, once they are over.
    pub fn forget_sends(&self, sends: &mut RequestList) {
        for index in 0..sends.len() {
            // SAFETY: as above; who started it keeps its memory for good.
            unsafe { (self.functions.request_free)(sends.at(index)) };
        }
        sends.clear();
    }

    /// Waits for all `requests`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn wait_all(&self, requests: &mut RequestList) -> Result<(), MpiError> {
        let count = requests.len() as c_int;
        let ignore = self.constants().statuses_ignore as *mut c_void;
        // SAFETY: as for `test_all`.
        let code = unsafe { (self.functions.waitall)(count, requests.as_mut_ptr(), ignore) };
        self.check("MPI_Waitall", code)
    }

    /// Whether a message with `tag` has come on `comm` from any rank, driving the library's progress.
    pub fn has_message(&self, comm: Comm, tag: c_int) -> bool {
        let constants = self.constants();
        let mut flag = 0;
        // SAFETY: the flag is live; the status is ignored.
        unsafe {
            (self.functions.iprobe)(
                constants.any_source,
                tag,
                comm,
                &mut flag,
                constants.status_ignore as *mut c_void,
            );
        }
        flag != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_lie_as_the_host_expects() {
        for (kind, stride) in [(AbiKind::Mpich, 4), (AbiKind::OpenMpi, 8)] {
            let mut list = RequestList::with_capacity(kind, 3);
            let base = list.as_mut_ptr() as usize;
            let slots: Vec<usize> = (0..3).map(|_| list.push() as usize - base).collect();
            assert_eq!(slots, [0, stride, 2 * stride]);
            assert_eq!(list.len(), 3);
        }
    }
}
