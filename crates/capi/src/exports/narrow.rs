//! Functions whose counts are `MPI_Count`, on hosts that only have the form with `int`.
//!
//! Programs look for these functions by name and find them here, so they have to work: the `int` form
//! is called if everything fits, else the call fails as MPI 4.1, section 9.4, has it for a count that
//! cannot be used.

use crate::runtime::{self, Runtime};
use ferrorail_base::memory;
use ferrorail_mpi_abi::Host;
use libc::{c_int, c_void};

/// Types of arguments in the form with `int`.
pub mod int {
    pub use libc::{c_int as Count, c_int as Displacement, c_int as Unit};
}

/// Those in the form with `MPI_Count`.
pub mod large {
    pub use super::Unit;
    pub type Count = i64;
    pub type Displacement = isize;
}

/// An array with an entry for each rank that this one sends to.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Sent<T>(pub *const T);

/// An array with an entry for each rank that this one receives from.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Received<T>(pub *const T);

/// A displacement unit, which is larger in the form with `MPI_Count`, unlike other values of its type.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Unit(isize);

impl From<Unit> for i64 {
    fn from(Unit(unit): Unit) -> Self {
        unit as Self
    }
}

impl From<i64> for Unit {
    fn from(unit: i64) -> Self {
        Self(unit as isize)
    }
}

impl From<c_int> for Unit {
    fn from(unit: c_int) -> Self {
        Self(unit as isize)
    }
}

/// What is known of a call's arrays, and where shorter ones are kept.
pub struct Arrays {
    sent: usize,
    received: usize,
    /// Whether the last buffer was `MPI_IN_PLACE`: its count and arrays, which follow it, may be anything then.
    in_place: bool,
    kept: Vec<Vec<c_int>>,
    /// Where the program wants a displacement unit, and where the library puts it.
    unit: Option<(*mut Unit, *const c_int)>,
}

/// Which ranks the arrays of a call have entries for.
#[derive(Clone, Copy)]
pub enum Peers {
    /// There are no arrays.
    None,
    /// All of this communicator, or of its other group.
    All(usize),
    /// The same, but only at the root.
    AtRoot(usize, c_int),
    /// The neighbours in its topology.
    Neighbours(usize),
}

impl Arrays {
    /// Those of a call among `peers`.
    pub fn of(peers: Peers) -> Self {
        let (sent, received) = match runtime::get() {
            Some(runtime) => entries(&runtime.host, peers),
            None => (0, 0),
        };
        Self {
            sent,
            received,
            in_place: false,
            kept: Vec::new(),
            unit: None,
        }
    }

    /// Brings the library's results to the program, once the call is over. What a non-blocking call was passed it may
    /// still read, nobody knows until when.
    pub fn finish(&mut self, handler: Handler) {
        if let Handler::Started(_) = handler {
            std::mem::take(&mut self.kept).leak();
        }
        if let Some((unit, found)) = self.unit {
            // SAFETY: the program's output argument; the number that `kept` has for it.
            unsafe { *unit = (*found).into() };
        }
    }

    fn shorten<T: Copy + TryInto<c_int>>(
        &mut self,
        array: *const T,
        n: usize,
    ) -> Result<*const c_int, Misfit> {
        if array.is_null() || n == 0 || self.in_place {
            return Ok(array.cast());
        }
        let mut kept = Vec::new();
        memory::reserve(&mut kept, n).map_err(|_| Misfit::NoMemory)?;
        for index in 0..n {
            // SAFETY: the program's array, with an entry for each peer.
            let entry = unsafe { *array.add(index) };
            kept.push(entry.try_into().map_err(|_| Misfit::Count)?);
        }
        let address = kept.as_ptr();
        self.kept.push(kept);
        Ok(address)
    }
}

fn entries(host: &Host, peers: Peers) -> (usize, usize) {
    match peers {
        Peers::None => (0, 0),
        Peers::All(comm) => {
            let n = host.peers(host.comm(comm), None).unwrap_or(0);
            (n, n)
        }
        Peers::AtRoot(comm, root) => {
            let n = host.peers(host.comm(comm), Some(root)).unwrap_or(0);
            (n, n)
        }
        Peers::Neighbours(comm) => {
            let topology = host.topology(host.comm(comm)).ok().flatten();
            topology.map_or((0, 0), |of| (of.destinations.len(), of.sources.len()))
        }
    }
}

/// Why a call cannot take the form with `int`.
#[derive(Clone, Copy)]
pub enum Misfit {
    /// A number is too large.
    Count,
    /// The system refused memory for an array.
    NoMemory,
}

/// An argument as the form with `int` takes it.
pub trait Narrow: Sized {
    /// Its type there.
    type Narrowed;

    /// # Errors
    /// Why the host cannot take it.
    fn narrowed(self, arrays: &mut Arrays) -> Result<Self::Narrowed, Misfit>;
}

impl Narrow for i64 {
    type Narrowed = c_int;
    fn narrowed(self, arrays: &mut Arrays) -> Result<c_int, Misfit> {
        match self.try_into() {
            Ok(count) => Ok(count),
            Err(_) if arrays.in_place => Ok(0),
            Err(_) => Err(Misfit::Count),
        }
    }
}

impl Narrow for *const c_void {
    type Narrowed = Self;
    fn narrowed(self, arrays: &mut Arrays) -> Result<Self, Misfit> {
        let in_place = |runtime: &Runtime| runtime.host.constants().in_place == self as usize;
        arrays.in_place = runtime::get().is_some_and(in_place);
        Ok(self)
    }
}

impl Narrow for *mut c_void {
    type Narrowed = Self;
    fn narrowed(self, arrays: &mut Arrays) -> Result<Self, Misfit> {
        self.cast_const()
            .narrowed(arrays)
            .map(<*const c_void>::cast_mut)
    }
}

impl Narrow for Unit {
    type Narrowed = c_int;
    fn narrowed(self, _: &mut Arrays) -> Result<c_int, Misfit> {
        self.0.try_into().map_err(|_| Misfit::Count)
    }
}

impl Narrow for *mut Unit {
    type Narrowed = *mut c_int;
    fn narrowed(self, arrays: &mut Arrays) -> Result<*mut c_int, Misfit> {
        let mut found = vec![1];
        let address = found.as_mut_ptr();
        arrays.kept.push(found);
        arrays.unit = Some((self, address));
        Ok(address)
    }
}

impl<T: Copy + TryInto<c_int>> Narrow for Sent<T> {
    type Narrowed = *const c_int;
    fn narrowed(self, arrays: &mut Arrays) -> Result<*const c_int, Misfit> {
        arrays.shorten(self.0, arrays.sent)
    }
}

impl<T: Copy + TryInto<c_int>> Narrow for Received<T> {
    type Narrowed = *const c_int;
    fn narrowed(self, arrays: &mut Arrays) -> Result<*const c_int, Misfit> {
        arrays.shorten(self.0, arrays.received)
    }
}

macro_rules! as_they_are {
    ($($ty:ty)*) => {$(
        impl Narrow for $ty {
            type Narrowed = Self;
            fn narrowed(self, _: &mut Arrays) -> Result<Self, Misfit> {
                Ok(self)
            }
        }
    )*};
}

as_they_are! { c_int usize isize *mut isize *const isize }

/// Who is told that a call does not fit.
#[derive(Clone, Copy)]
pub enum Handler {
    /// The error handler of this communicator.
    Comm(usize),
    /// The same, of a call that may go on after its return.
    Started(usize),
    /// That of this window.
    Window(usize),
}

/// Reports a call that the host cannot take.
#[cold]
pub fn refused(handler: Handler, misfit: Misfit) -> c_int {
    let Some(runtime) = runtime::get() else {
        return crate::next::MISSING;
    };
    let host = &runtime.host;
    let errors = &host.constants().errors;
    let class = match misfit {
        Misfit::Count => errors.count,
        Misfit::NoMemory => errors.no_mem,
    };
    match handler {
        Handler::Comm(comm) | Handler::Started(comm) => {
            host.call_error_handler(host.comm(comm), class)
        }
        Handler::Window(win) => host.call_window_error_handler(host.window(win), class),
    }
    class
}

/// Calls `$name`, the form with `int` of a function with these arguments.
macro_rules! call_narrowed {
    ($name:ident, ($($arg:ident: $ty:ty),* $(,)?), $peers:expr, $handler:expr) => {{
        static NARROW: $crate::next::Next = $crate::next::Next::new(stringify!($name));
        let mut arrays = $crate::exports::narrow::Arrays::of($peers);
        let handler: $crate::exports::narrow::Handler = $handler;
        let mut call = || {
            $(let $arg = <$ty as $crate::exports::narrow::Narrow>::narrowed($arg, &mut arrays)?;)*
            let code = $crate::next::call_next!(
                NARROW,
                ($($arg => <$ty as $crate::exports::narrow::Narrow>::Narrowed),*) -> libc::c_int,
                else $crate::next::MISSING
            );
            arrays.finish(handler);
            Ok(code)
        };
        #[allow(clippy::redundant_closure_call, reason = "it returns where something does not fit")]
        call().unwrap_or_else(|misfit| $crate::exports::narrow::refused(handler, misfit))
    }};
}
pub(super) use call_narrowed;
