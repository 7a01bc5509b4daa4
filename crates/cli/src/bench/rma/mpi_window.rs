//! Windows of an MPI library: the host's, or ours.

use super::window::{Implementation, Need, Window};
use crate::bench::mpi_functions::mpi_functions;
use anyhow::Result;
use ferrorail_mpi_abi::{Comm, Datatype, Group, Host, Info, Op, Win};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

type In = *const c_void;
type Out = *mut c_void;

mpi_functions! {
    Functions {
        create = "Win_create" (base: Out, size: isize, unit: c_int, info: Info, comm: Comm, win: *mut Win);
        allocate = "Win_allocate" (size: isize, unit: c_int, info: Info, comm: Comm, base: Out, win: *mut Win);
        free = "Win_free" (win: *mut Win);
        fence = "Win_fence" (assertion: c_int, win: Win);
        post = "Win_post" (group: Group, assertion: c_int, win: Win);
        start = "Win_start" (group: Group, assertion: c_int, win: Win);
        complete = "Win_complete" (win: Win);
        wait = "Win_wait" (win: Win);
        lock = "Win_lock" (kind: c_int, rank: c_int, assertion: c_int, win: Win);
        unlock = "Win_unlock" (rank: c_int, win: Win);
        lock_all = "Win_lock_all" (assertion: c_int, win: Win);
        unlock_all = "Win_unlock_all" (win: Win);
        flush = "Win_flush" (rank: c_int, win: Win);
        put = "Put" (from: In, n: c_int, of: Datatype, rank: c_int, at: isize, m: c_int, to: Datatype, win: Win);
        get = "Get" (to: Out, n: c_int, of: Datatype, rank: c_int, at: isize, m: c_int, from: Datatype, win: Win);
        accumulate = "Accumulate"
            (from: In, n: c_int, of: Datatype, rank: c_int, at: isize, m: c_int, to: Datatype, op: Op, win: Win);
        fetch_and_op = "Fetch_and_op" (from: In, to: Out, of: Datatype, rank: c_int, at: isize, op: Op, win: Win);
    }
}

// The host's, for all.
mpi_functions! {
    Groups {
        include = "Group_incl" (of: Group, count: c_int, ranks: *const c_int, group: *mut Group);
    }
}

/// `ferrorail_lock_messages`.
pub type LockMessages = unsafe extern "C" fn(usize, *mut u64) -> u64;

/// Whose memory windows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Memory {
    /// The library's (`MPI_Win_allocate`)
    Allocate,
    /// The program's (`MPI_Win_create`)
    Create,
}

/// The one-sided communication of an MPI library.
pub struct Mpi<'a> {
    host: &'a Host,
    functions: Functions<'a>,
    groups: Groups<'a>,
    messages: Option<LockMessages>,
    memory: Memory,
}

impl<'a> Mpi<'a> {
    /// Of the library whose functions `find` gives by their names without a prefix.
    ///
    /// # Safety
    /// It gives the MPI functions of these names; `messages` belongs to the same library.
    pub unsafe fn new(
        host: &'a Host,
        memory: Memory,
        find: impl Fn(&str) -> Option<NonNull<c_void>>,
        messages: Option<LockMessages>,
    ) -> Result<Self> {
        let of_host = |name: &str| host.function(&format!("PMPI_{name}"));
        // SAFETY: the caller's contract; the host has functions of these names.
        unsafe {
            Ok(Self {
                host,
                functions: Functions::load(host, find)?,
                groups: Groups::load(host, of_host)?,
                messages,
                memory,
            })
        }
    }

    fn group(&self, ranks: &[u32]) -> Result<Group> {
        let all = self.host.comm_group(self.host.predefined().comm_world)?;
        let ranks: Vec<c_int> = ranks.iter().map(|&rank| rank as c_int).collect();
        let (count, mut some) = (ranks.len() as c_int, Group(0));
        // SAFETY: the group is live and as large as any handle; `ranks` has so many entries.
        unsafe { self.groups.include(all, count, ranks.as_ptr(), &mut some)? };
        self.host.free_group(all);
        Ok(some)
    }
}

impl Implementation for Mpi<'_> {
    fn offers(&self, need: Need) -> bool {
        need != Need::CountedLock || self.messages.is_some()
    }

    fn window(&self, bytes: usize) -> Result<Box<dyn Window + '_>> {
        let predefined = self.host.predefined();
        let (info, world) = (predefined.info_null, predefined.comm_world);
        let mut made = MpiWindow {
            mpi: self,
            window: Win(0),
            memory: Vec::new(),
            groups: Vec::new(),
        };
        let (length, win) = (isize::try_from(bytes)?, &mut made.window);
        match self.memory {
            Memory::Create => {
                made.memory = vec![0; bytes.div_ceil(8)];
                let base = made.memory.as_mut_ptr().cast();
                // SAFETY: the memory lives as long as the window.
                unsafe { self.functions.create(base, length, 1, info, world, win)? };
            }
            Memory::Allocate => {
                let mut base = 0usize;
                let to = (&raw mut base).cast();
                // SAFETY: `base` is as large as any pointer.
                unsafe { self.functions.allocate(length, 1, info, world, to, win)? };
            }
        }
        Ok(Box::new(made))
    }
}

struct MpiWindow<'a> {
    mpi: &'a Mpi<'a>,
    window: Win,
    /// Its memory, unless that is the library's.
    memory: Vec<u64>,
    /// Groups used so far; few.
    groups: Vec<(Vec<u32>, Group)>,
}

impl MpiWindow<'_> {
    fn group(&mut self, ranks: &[u32]) -> Result<Group> {
        if let Some((_, group)) = self.groups.iter().find(|(known, _)| known == ranks) {
            return Ok(*group);
        }
        let group = self.mpi.group(ranks)?;
        self.groups.push((ranks.to_vec(), group));
        Ok(group)
    }
}

impl Window for MpiWindow<'_> {
    unsafe fn put(&mut self, from: *const u8, bytes: usize, target: u32, at: usize) -> Result<()> {
        let (functions, win) = (&self.mpi.functions, self.window);
        let (from, n, byte) = (from.cast(), bytes as c_int, self.mpi.host.predefined().byte);
        // SAFETY: the caller's contract.
        unsafe { functions.put(from, n, byte, target as c_int, at as isize, n, byte, win) }
    }

    unsafe fn get(&mut self, to: *mut u8, bytes: usize, target: u32, at: usize) -> Result<()> {
        let (functions, win) = (&self.mpi.functions, self.window);
        let (to, n, byte) = (to.cast(), bytes as c_int, self.mpi.host.predefined().byte);
        // SAFETY: the caller's contract.
        unsafe { functions.get(to, n, byte, target as c_int, at as isize, n, byte, win) }
    }

    unsafe fn add(&mut self, from: *const u8, bytes: usize, target: u32, at: usize) -> Result<()> {
        let (functions, win) = (&self.mpi.functions, self.window);
        let predefined = self.mpi.host.predefined();
        let (n, int, sum) = ((bytes / 4) as c_int, predefined.int, predefined.op_sum);
        let (from, rank, at) = (from.cast(), target as c_int, at as isize);
        // SAFETY: the caller's contract.
        unsafe { functions.accumulate(from, n, int, rank, at, n, int, sum, win) }
    }

    unsafe fn fetch_add(&mut self, target: u32, at: usize) -> Result<u64> {
        let functions = &self.mpi.functions;
        let predefined = self.mpi.host.predefined();
        let (word, sum) = (predefined.uint64, predefined.op_sum);
        let (one, mut before) = (1u64, u64::MAX);
        let (from, to) = ((&raw const one).cast(), (&raw mut before).cast());
        let (rank, at) = (target as c_int, at as isize);
        // SAFETY: the caller's contract; both words live until the flush below.
        unsafe { functions.fetch_and_op(from, to, word, rank, at, sum, self.window)? };
        self.flush(target)?;
        // SAFETY: the library has written it through the pointer above.
        Ok(unsafe { (&raw const before).read_volatile() })
    }

    fn fence(&mut self, last: bool) -> Result<()> {
        let assertion = match last {
            true => self.mpi.host.window_constants().nosucceed,
            false => 0,
        };
        // SAFETY: a live window, here and below.
        unsafe { self.mpi.functions.fence(assertion, self.window) }
    }

    fn post(&mut self, origins: &[u32]) -> Result<()> {
        let group = self.group(origins)?;
        // SAFETY: as above; the group is kept.
        unsafe { self.mpi.functions.post(group, 0, self.window) }
    }

    fn start(&mut self, targets: &[u32]) -> Result<()> {
        let group = self.group(targets)?;
        // SAFETY: as above.
        unsafe { self.mpi.functions.start(group, 0, self.window) }
    }

    fn complete(&mut self) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.mpi.functions.complete(self.window) }
    }

    fn wait(&mut self) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.mpi.functions.wait(self.window) }
    }

    fn lock(&mut self, target: u32, exclusive: bool) -> Result<()> {
        let constants = self.mpi.host.window_constants();
        let kind = match exclusive {
            true => constants.lock_exclusive,
            false => constants.lock_shared,
        };
        // SAFETY: as above.
        unsafe {
            self.mpi
                .functions
                .lock(kind, target as c_int, 0, self.window)
        }
    }

    fn unlock(&mut self, target: u32) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.mpi.functions.unlock(target as c_int, self.window) }
    }

    fn lock_all(&mut self) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.mpi.functions.lock_all(0, self.window) }
    }

    fn unlock_all(&mut self) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.mpi.functions.unlock_all(self.window) }
    }

    fn flush(&mut self, target: u32) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.mpi.functions.flush(target as c_int, self.window) }
    }

    fn arrive(&mut self) -> Result<()> {
        let host = self.mpi.host;
        Ok(host.barrier(host.predefined().comm_world)?)
    }

    fn lock_messages(&self) -> Option<(u64, u64)> {
        let mut acquired = 0;
        // SAFETY: a live window; the integer is live.
        let messages = unsafe { (self.mpi.messages?)(self.window.0, &mut acquired) };
        (messages != u64::MAX).then_some((acquired, messages))
    }

    fn free(mut self: Box<Self>) -> Result<()> {
        for (_, group) in self.groups.drain(..) {
            self.mpi.host.free_group(group);
        }
        // SAFETY: as above, for the last time.
        unsafe { self.mpi.functions.free(&mut self.window) }
    }
}
