//! One-sided communication as the figures use it, whoever carries it out.

use anyhow::Result;

/// What a variant of a figure needs of an implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: the host's messages.
    Messages,
    /// Fences.
    Fence,
    /// Post, start, complete, wait.
    Pscw,
    /// Lock and unlock of one target.
    Lock,
    /// The same, its messages being counted.
    CountedLock,
    /// Completion inside an epoch, locks of all targets, results at once.
    Flush,
}

/// An implementation of one-sided communication.
pub trait Implementation {
    /// Whether it has that.
    fn offers(&self, need: Need) -> bool;

    /// A window of `bytes` at every rank, as offsets count. Collective.
    ///
    /// # Errors
    /// The MPI library's.
    fn window(&self, bytes: usize) -> Result<Box<dyn Window + '_>>;
}

/// One window. Offsets at targets are bytes; buffers of operations belong to the window until the
/// epoch ends, or a flush.
///
/// # Errors
/// All methods: the MPI library's.
pub trait Window {
    /// # Safety
    /// `from` has `bytes` bytes, and so has the target's memory from `at` on.
    unsafe fn put(&mut self, from: *const u8, bytes: usize, target: u32, at: usize) -> Result<()>;

    /// # Safety
    /// As [`Window::put`]; `to` is writable.
    unsafe fn get(&mut self, to: *mut u8, bytes: usize, target: u32, at: usize) -> Result<()>;

    /// Adds `MPI_INT`s.
    ///
    /// # Safety
    /// As [`Window::put`].
    unsafe fn add(&mut self, from: *const u8, bytes: usize, target: u32, at: usize) -> Result<()>;

    /// Adds one to a 64-bit word, and says what it was.
    ///
    /// # Safety
    /// The target's memory has such a word at `at`.
    unsafe fn fetch_add(&mut self, target: u32, at: usize) -> Result<u64>;

    /// Of all ranks; after the `last` another kind of epoch may follow.
    fn fence(&mut self, last: bool) -> Result<()>;

    /// Lets `origins` in.
    fn post(&mut self, origins: &[u32]) -> Result<()>;

    /// Begins an epoch with `targets`.
    fn start(&mut self, targets: &[u32]) -> Result<()>;

    /// Ends it.
    fn complete(&mut self) -> Result<()>;

    /// Until all that were let in have completed.
    fn wait(&mut self) -> Result<()>;

    /// One target.
    fn lock(&mut self, target: u32, exclusive: bool) -> Result<()>;

    /// One target.
    fn unlock(&mut self, target: u32) -> Result<()>;

    /// All targets, shared.
    fn lock_all(&mut self) -> Result<()>;

    /// All targets.
    fn unlock_all(&mut self) -> Result<()>;

    /// One target.
    fn flush(&mut self, target: u32) -> Result<()>;

    /// A barrier of all ranks; it need not be over on return.
    fn arrive(&mut self) -> Result<()>;

    /// Whether it is over.
    fn all_arrived(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Answers other ranks, where an implementation needs that.
    fn serve(&mut self) -> Result<()> {
        Ok(())
    }

    /// Acquisitions of locks by this rank, and their remote messages, where these are counted.
    fn lock_messages(&self) -> Option<(u64, u64)>;

    /// Of all ranks.
    fn free(self: Box<Self>) -> Result<()>;
}
