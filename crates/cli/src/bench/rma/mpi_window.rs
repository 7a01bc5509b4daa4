//! Windows of an MPI library: the host's, or ours.

use super::window::{Implementation, Need, Window};
use anyhow::{Result, anyhow};
use ferrorail_mpi_abi::{Comm, Datatype, Group, Host, Info, Op, Win};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

type In = *const c_void;
type Out = *mut c_void;

macro_rules! functions {
    ($table:ident { $($name:ident = $symbol:literal ($($argument:ty),*);)* }) => {
        /// Prototypes (MPI 4.1, chapters 7 and 12), with handles as register values.
        struct $table {
            $($name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl $table {
            /// # Safety
            /// `find` gives the MPI functions of the names that it is asked for.
            unsafe fn load(find: impl Fn(&str) -> Option<NonNull<c_void>>) -> Result<Self> {
                Ok(Self {
                    $($name: {
                        let missing = || anyhow!("there is no {}", $symbol);
                        let address = find($symbol).ok_or_else(missing)?.as_ptr();
                        type F = unsafe extern "C" fn($($argument),*) -> c_int;
                        // SAFETY: the standard defines this prototype for this name.
                        unsafe { std::mem::transmute::<*mut c_void, F>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    Functions {
        create = "Win_create" (Out, isize, c_int, Info, Comm, *mut Win);
        allocate = "Win_allocate" (isize, c_int, Info, Comm, Out, *mut Win);
        free = "Win_free" (*mut Win);
        fence = "Win_fence" (c_int, Win);
        post = "Win_post" (Group, c_int, Win);
        start = "Win_start" (Group, c_int, Win);
        complete = "Win_complete" (Win);
        wait = "Win_wait" (Win);
        lock = "Win_lock" (c_int, c_int, c_int, Win);
        unlock = "Win_unlock" (c_int, Win);
        lock_all = "Win_lock_all" (c_int, Win);
        unlock_all = "Win_unlock_all" (Win);
        flush = "Win_flush" (c_int, Win);
        put = "Put" (In, c_int, Datatype, c_int, isize, c_int, Datatype, Win);
        get = "Get" (Out, c_int, Datatype, c_int, isize, c_int, Datatype, Win);
        accumulate = "Accumulate" (In, c_int, Datatype, c_int, isize, c_int, Datatype, Op, Win);
        fetch_and_op = "Fetch_and_op" (In, Out, Datatype, c_int, isize, Op, Win);
    }
}

// The host's, for all.
functions! {
    Groups {
        of = "PMPI_Comm_group" (Comm, *mut Group);
        include = "PMPI_Group_incl" (Group, c_int, *const c_int, *mut Group);
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
    functions: Functions,
    groups: Groups,
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
        // SAFETY: the caller's contract; the host has functions of these names.
        unsafe {
            Ok(Self {
                host,
                functions: Functions::load(find)?,
                groups: Groups::load(|name| host.function(name))?,
                messages,
                memory,
            })
        }
    }

    fn check(&self, name: &'static str, code: c_int) -> Result<()> {
        Ok(self.host.check(name, code)?)
    }

    fn group(&self, ranks: &[u32]) -> Result<Group> {
        let world = self.host.predefined().comm_world;
        let ranks: Vec<c_int> = ranks.iter().map(|&rank| rank as c_int).collect();
        let (mut all, mut some) = (Group(0), Group(0));
        // SAFETY: both are live and as large as any handle; `ranks` has so many entries.
        let code = unsafe { (self.groups.of)(world, &mut all) };
        self.check("MPI_Comm_group", code)?;
        // SAFETY: as above.
        let code = unsafe {
            let count = ranks.len() as c_int;
            (self.groups.include)(all, count, ranks.as_ptr(), &mut some)
        };
        self.check("MPI_Group_incl", code)?;
        // SAFETY: a group made above, given back once.
        unsafe { (self.host.functions().group_free)(&mut all) };
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
        let length = isize::try_from(bytes)?;
        let code = match self.memory {
            Memory::Create => {
                made.memory = vec![0; bytes.div_ceil(8)];
                let base = made.memory.as_mut_ptr().cast();
                // SAFETY: the memory lives as long as the window.
                unsafe { (self.functions.create)(base, length, 1, info, world, &mut made.window) }
            }
            Memory::Allocate => {
                let mut base = 0usize;
                let to = (&raw mut base).cast();
                // SAFETY: `base` is as large as any pointer.
                unsafe { (self.functions.allocate)(length, 1, info, world, to, &mut made.window) }
            }
        };
        self.check("MPI_Win_create", code)?;
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
        let (byte, count) = (self.mpi.host.predefined().byte, bytes as c_int);
        let (rank, at) = (target as c_int, at as isize);
        let put = self.mpi.functions.put;
        // SAFETY: the caller's contract.
        let code = unsafe { put(from.cast(), count, byte, rank, at, count, byte, self.window) };
        self.mpi.check("MPI_Put", code)
    }

    unsafe fn get(&mut self, to: *mut u8, bytes: usize, target: u32, at: usize) -> Result<()> {
        let (byte, count) = (self.mpi.host.predefined().byte, bytes as c_int);
        let (rank, at) = (target as c_int, at as isize);
        let get = self.mpi.functions.get;
        // SAFETY: the caller's contract.
        let code = unsafe { get(to.cast(), count, byte, rank, at, count, byte, self.window) };
        self.mpi.check("MPI_Get", code)
    }

    unsafe fn add(&mut self, from: *const u8, bytes: usize, target: u32, at: usize) -> Result<()> {
        let predefined = self.mpi.host.predefined();
        let (int, sum, count) = (predefined.int, predefined.op_sum, (bytes / 4) as c_int);
        let (rank, at, add) = (target as c_int, at as isize, self.mpi.functions.accumulate);
        // SAFETY: the caller's contract.
        let code = unsafe {
            add(
                from.cast(),
                count,
                int,
                rank,
                at,
                count,
                int,
                sum,
                self.window,
            )
        };
        self.mpi.check("MPI_Accumulate", code)
    }

    unsafe fn fetch_add(&mut self, target: u32, at: usize) -> Result<u64> {
        let predefined = self.mpi.host.predefined();
        let (one, mut before) = (1u64, u64::MAX);
        let (from, to) = ((&raw const one).cast(), (&raw mut before).cast());
        let (rank, at, fetch) = (
            target as c_int,
            at as isize,
            self.mpi.functions.fetch_and_op,
        );
        let (word, sum) = (predefined.uint64, predefined.op_sum);
        // SAFETY: the caller's contract; both words live until the flush below.
        let code = unsafe { fetch(from, to, word, rank, at, sum, self.window) };
        self.mpi.check("MPI_Fetch_and_op", code)?;
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
        let code = unsafe { (self.mpi.functions.fence)(assertion, self.window) };
        self.mpi.check("MPI_Win_fence", code)
    }

    fn post(&mut self, origins: &[u32]) -> Result<()> {
        let group = self.group(origins)?;
        // SAFETY: as above; the group is kept.
        let code = unsafe { (self.mpi.functions.post)(group, 0, self.window) };
        self.mpi.check("MPI_Win_post", code)
    }

    fn start(&mut self, targets: &[u32]) -> Result<()> {
        let group = self.group(targets)?;
        // SAFETY: as above.
        let code = unsafe { (self.mpi.functions.start)(group, 0, self.window) };
        self.mpi.check("MPI_Win_start", code)
    }

    fn complete(&mut self) -> Result<()> {
        // SAFETY: as above.
        let code = unsafe { (self.mpi.functions.complete)(self.window) };
        self.mpi.check("MPI_Win_complete", code)
    }

    fn wait(&mut self) -> Result<()> {
        // SAFETY: as above.
        let code = unsafe { (self.mpi.functions.wait)(self.window) };
        self.mpi.check("MPI_Win_wait", code)
    }

    fn lock(&mut self, target: u32, exclusive: bool) -> Result<()> {
        let constants = self.mpi.host.window_constants();
        let kind = match exclusive {
            true => constants.lock_exclusive,
            false => constants.lock_shared,
        };
        // SAFETY: as above.
        let code = unsafe { (self.mpi.functions.lock)(kind, target as c_int, 0, self.window) };
        self.mpi.check("MPI_Win_lock", code)
    }

    fn unlock(&mut self, target: u32) -> Result<()> {
        // SAFETY: as above.
        let code = unsafe { (self.mpi.functions.unlock)(target as c_int, self.window) };
        self.mpi.check("MPI_Win_unlock", code)
    }

    fn lock_all(&mut self) -> Result<()> {
        // SAFETY: as above.
        let code = unsafe { (self.mpi.functions.lock_all)(0, self.window) };
        self.mpi.check("MPI_Win_lock_all", code)
    }

    fn unlock_all(&mut self) -> Result<()> {
        // SAFETY: as above.
        let code = unsafe { (self.mpi.functions.unlock_all)(self.window) };
        self.mpi.check("MPI_Win_unlock_all", code)
    }

    fn flush(&mut self, target: u32) -> Result<()> {
        // SAFETY: as above.
        let code = unsafe { (self.mpi.functions.flush)(target as c_int, self.window) };
        self.mpi.check("MPI_Win_flush", code)
    }

    fn arrive(&mut self) -> Result<()> {
        Ok(self
            .mpi
            .host
            .barrier(self.mpi.host.predefined().comm_world)?)
    }

    fn lock_messages(&self) -> Option<(u64, u64)> {
        let mut acquired = 0;
        // SAFETY: a live window; the integer is live.
        let messages = unsafe { (self.mpi.messages?)(self.window.0, &mut acquired) };
        (messages != u64::MAX).then_some((acquired, messages))
    }

    fn free(mut self: Box<Self>) -> Result<()> {
        for (_, mut group) in self.groups.drain(..) {
            // SAFETY: a group made here, given back once.
            unsafe { (self.mpi.host.functions().group_free)(&mut group) };
        }
        // SAFETY: as above, for the last time.
        let code = unsafe { (self.mpi.functions.free)(&mut self.window) };
        self.mpi.check("MPI_Win_free", code)
    }
}
