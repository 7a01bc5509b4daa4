//! The MPI library of this process.

mod comm;
mod contents;
mod message;
mod reduction;
mod request;
mod topology;
mod types;
mod window;

pub use contents::{Contents, Envelope};
pub use message::RequestList;
pub use topology::Topology;
pub use types::TypeLayout;
pub use window::BareWindow;

use crate::functions::{WindowFromFortran, window_from_fortran};
use crate::kind::library_version;
use crate::library::Library;
use crate::{
    AbiKind, Constants, Functions, Predefined, PredefinedHandle, SUCCESS, Win, WindowConstants,
};
use libc::{c_int, c_void};
use std::ops::Range;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// Why no MPI library can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// No MPI library is loaded.
    #[error("no MPI library is loaded in this process")]
    Absent,
    /// The loader refused the file.
    #[error("cannot open the MPI library: {0}")]
    Open(String),
    /// The library lacks something that is needed.
    #[error("the MPI library ({library}) has no {symbol}")]
    Missing {
        /// The missing function or object.
        symbol: &'static str,
        /// What the library calls itself, or its file.
        library: String,
    },
    /// Its symbols and its own words disagree, so its handles cannot be trusted.
    #[error("the MPI library has the symbols of {kind} but calls itself \"{version}\"")]
    Contradiction {
        /// What its symbols say.
        kind: AbiKind,
        /// `MPI_Get_library_version`.
        version: String,
    },
}

/// An MPI call returned something other than `MPI_SUCCESS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{function} failed with MPI error class {class}")]
pub struct MpiError {
    /// The function.
    pub function: &'static str,
    /// Its return value.
    pub code: c_int,
    /// `MPI_Error_class` of it.
    pub class: c_int,
}

impl MpiError {
    /// What `function` would say with a code that is a `class`.
    pub fn of_class(function: &'static str, class: c_int) -> Self {
        Self {
            function,
            code: class,
            class,
        }
    }
}

/// The MPI library of this process: interface, constants, handles, functions.
#[derive(Debug)]
pub struct Host {
    kind: AbiKind,
    predefined: Predefined,
    functions: Functions,
    version: String,
    library: Library,
    from_fortran: OnceLock<Option<WindowFromFortran>>,
    /// Open MPI's request of messages to nobody.
    completed: OnceLock<crate::Request>,
}

/// Defines what handles are that a C program passed in registers.
macro_rules! from_registers {
    ($($name:ident: $handle:ident, $what:literal;)*) => {
        impl Host {$(
            #[doc = concat!("A handle of ", $what, " as a C program passed it in a register.")]
            #[inline]
            pub fn $name(&self, register: usize) -> crate::$handle {
                crate::$handle(register & self.kind.handle_mask())
            }
        )*}
    };
}

from_registers! {
    comm: Comm, "a communicator";
    datatype: Datatype, "a datatype";
    window: Win, "a window";
    info: Info, "an info object";
    operation: Op, "an operation";
    group: Group, "a group";
}

impl Host {
    /// The library that the program itself loaded; for use inside a preload library. Calls nothing
    /// but version queries, which are allowed before `MPI_Init`.
    ///
    /// # Errors
    /// [`HostError::Absent`] while the program has not loaded one; it may try again later.
    pub fn of_program() -> Result<Self, HostError> {
        Self::new(Library::of_program())
    }

    /// Opens the MPI library in file `path`, for a program that is not linked with one.
    ///
    /// # Errors
    /// If it cannot be opened or is not an MPI library.
    pub fn open(path: &Path) -> Result<Self, HostError> {
        Self::new(Library::open(path).map_err(HostError::Open)?)
    }

    fn new(library: Library) -> Result<Self, HostError> {
        let file = library.path().ok_or(HostError::Absent)?;
        let version = library_version(&library).unwrap_or_default();
        let kind = AbiKind::of(&library);
        if !kind.agrees_with(&version) {
            return Err(HostError::Contradiction { kind, version });
        }
        let missing = |symbol| HostError::Missing {
            symbol,
            library: file.clone(),
        };
        Ok(Self {
            kind,
            predefined: Predefined::load(kind, &library).map_err(missing)?,
            functions: Functions::load(&library).map_err(missing)?,
            version,
            library,
            from_fortran: OnceLock::new(),
            completed: OnceLock::new(),
        })
    }

    /// Its binary interface.
    #[inline]
    pub fn kind(&self) -> AbiKind {
        self.kind
    }

    /// Its integers and sentinels.
    #[inline]
    pub fn constants(&self) -> &'static Constants {
        Constants::of(self.kind)
    }

    /// What its one-sided communication has of its own.
    #[inline]
    pub fn window_constants(&self) -> &'static WindowConstants {
        WindowConstants::of(self.kind)
    }

    /// Its predefined handles.
    #[inline]
    pub fn predefined(&self) -> &Predefined {
        &self.predefined
    }

    /// Its `PMPI_*` functions. Each is as unsafe as in C.
    #[inline]
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// What it calls itself (`MPI_Get_library_version`), possibly many lines.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The first line of [`Host::version`], shortened to its first part.
    pub fn short_version(&self) -> String {
        let line = self.version.lines().next().unwrap_or("").replace('\t', " ");
        let words = line.split(',').next().unwrap_or("").split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    }

    /// Its file.
    pub fn path(&self) -> Option<String> {
        self.library.path()
    }

    /// Address of its function `name`, looked up after the calling library; for forwarding to
    /// other tools in between.
    pub fn function(&self, name: &str) -> Option<NonNull<c_void>> {
        self.library.function(name)
    }

    /// The handle that a C program keeps at `address`.
    ///
    /// # Safety
    /// The address of a handle.
    pub unsafe fn handle_at(&self, address: *const c_void) -> usize {
        // SAFETY: the caller's contract; handles are as large as the library's kind says.
        unsafe {
            match self.kind {
                AbiKind::Mpich => address.cast::<u32>().read_unaligned() as usize,
                AbiKind::OpenMpi | AbiKind::Standard => address.cast::<usize>().read_unaligned(),
            }
        }
    }

    /// Entry `index` of an array of handles.
    ///
    /// # Safety
    /// An array with that entry.
    pub unsafe fn handle_in(&self, array: *const c_void, index: usize) -> usize {
        let at = array.wrapping_byte_add(index * self.kind.handle_bytes());
        // SAFETY: the caller's contract.
        unsafe { self.handle_at(at) }
    }

    /// Puts a handle where a C program keeps it.
    ///
    /// # Safety
    /// The address of a handle.
    pub unsafe fn write_handle(&self, address: *mut c_void, handle: usize) {
        // SAFETY: as above.
        unsafe {
            match self.kind {
                AbiKind::Mpich => address.cast::<u32>().write_unaligned(handle as u32),
                AbiKind::OpenMpi | AbiKind::Standard => {
                    address.cast::<usize>().write_unaligned(handle);
                }
            }
        }
    }

    /// Puts a handle in entry `index` of an array of handles.
    ///
    /// # Safety
    /// An array with that entry.
    pub unsafe fn write_handle_in(&self, array: *mut c_void, index: usize, handle: usize) {
        let at = array.wrapping_byte_add(index * self.kind.handle_bytes());
        // SAFETY: the caller's contract.
        unsafe { self.write_handle(at, handle) }
    }

    /// This library's value of a predefined handle, if it has one. A datatype may still be unsupported:
    /// optional Fortran types have a size of 0 then.
    pub fn handle_named(&self, handle: &PredefinedHandle) -> Option<usize> {
        handle.value(self.kind, &self.library)
    }

    /// [`Host::function`] as a value that can be called.
    ///
    /// # Safety
    /// The function of this name has type `F`, a pointer.
    pub unsafe fn function_as<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the caller's contract.
        unsafe { self.library.function_as(name) }
    }

    /// A window's handle as a Fortran program passed it, as one of C. `None` if the library does not
    /// say what it is.
    pub fn window_from_fortran(&self, window: c_int) -> Option<Win> {
        if self.kind == AbiKind::Mpich {
            return Some(Win(window as u32 as usize));
        }
        let convert = self
            .from_fortran
            .get_or_init(|| window_from_fortran(&self.library));
        // SAFETY: any integer is accepted; wrong ones become the null handle.
        convert.map(|convert| unsafe { convert(window) })
    }

    /// Where the library's code and data are mapped.
    pub fn mapping(&self) -> Option<Range<usize>> {
        self.library.mapping()
    }

    /// `Ok` for `MPI_SUCCESS`, else the error with its class.
    pub fn check(&self, function: &'static str, code: c_int) -> Result<(), MpiError> {
        if code == SUCCESS {
            return Ok(());
        }
        let mut class = self.constants().errors.unknown;
        // SAFETY: any code may be asked about; `class` is live.
        unsafe { (self.functions.error_class)(code, &mut class) };
        Err(MpiError {
            function,
            code,
            class,
        })
    }

    /// What `call`, of the library's `function`, leaves where `value` was before.
    fn answer<T>(
        &self,
        function: &'static str,
        mut value: T,
        call: impl FnOnce(&mut T) -> c_int,
    ) -> Result<T, MpiError> {
        let code = call(&mut value);
        self.check(function, code)?;
        Ok(value)
    }

    /// The value of an attribute, if set: `get`, of the library's `function`, gives it and whether it is.
    fn attribute(
        &self,
        function: &'static str,
        get: impl FnOnce(*mut c_void, *mut c_int) -> c_int,
    ) -> Result<Option<usize>, MpiError> {
        let (value, is_set) = self.answer(function, (0usize, 0), |(value, flag)| {
            get(ptr::from_mut(value).cast(), flag)
        })?;
        Ok((is_set != 0).then_some(value))
    }

    /// Whether MPI is up: initialised (in the world model) and not finalised.
    pub fn is_active(&self) -> bool {
        let (mut initialized, mut finalized) = (0, 0);
        // SAFETY: both queries are allowed at any time; the flags are live.
        unsafe {
            (self.functions.initialized)(&mut initialized);
            (self.functions.finalized)(&mut finalized);
        }
        initialized != 0 && finalized == 0
    }

    /// Which threads of the program may call MPI (MPI 4.1, section 11.6.2); `None` if the library does not say, as
    /// sessions may have other levels than the world.
    pub fn thread_level(&self) -> Option<c_int> {
        let query = self.functions.query_thread;
        // SAFETY: allowed between initialisation and finalisation; the level is live.
        let ask = || self.answer("MPI_Query_thread", 0, |level| unsafe { query(level) });
        self.is_active().then(ask)?.ok()
    }

    /// `MPI_Init_thread` for a program of our own, without arguments; returns whether the library
    /// grants `MPI_THREAD_MULTIPLE`.
    ///
    /// # Errors
    /// The library's.
    pub fn init(&self) -> Result<bool, MpiError> {
        let multiple = self.constants().thread_multiple;
        let init = self.functions.init_thread;
        // SAFETY: null argument pointers are allowed since MPI 2.0.
        let provided = self.answer("MPI_Init_thread", 0, |provided| unsafe {
            init(ptr::null_mut(), ptr::null_mut(), multiple, provided)
        })?;
        Ok(provided == multiple)
    }

    /// `MPI_Finalize`.
    ///
    /// # Errors
    /// The library's.
    pub fn finalize(&self) -> Result<(), MpiError> {
        // SAFETY: no argument.
        let code = unsafe { (self.functions.finalize)() };
        self.check("MPI_Finalize", code)
    }

    /// `MPI_Wtime` in seconds.
    pub fn wtime(&self) -> f64 {
        // SAFETY: no argument.
        unsafe { (self.functions.wtime)() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_mpi_gets_a_typed_error() {
        assert_eq!(Host::of_program().unwrap_err(), HostError::Absent);
        let error = Host::open(Path::new("/nonexistent/libmpi.so")).unwrap_err();
        assert!(matches!(error, HostError::Open(_)), "{error}");
    }
}
