//! The library behind this one: another tool in the preload list, or the host MPI.

use ferrorail_mpi_abi::Library;
use std::sync::OnceLock;

/// A function of the next library, looked up when first called and then remembered.
pub struct Next {
    name: &'static str,
    address: OnceLock<usize>,
}

impl Next {
    /// The next `name`.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            address: OnceLock::new(),
        }
    }

    /// Its address. `None`, with a message, if no library has it: the program then calls MPI
    /// without one.
    pub fn address(&self) -> Option<usize> {
        if let Some(&address) = self.address.get() {
            return Some(address);
        }
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        let library = LIBRARY.get_or_init(Library::of_program);
        let Some(found) = library.function(self.name) else {
            eprintln!(
                "ferrorail: no MPI library in this process has {}",
                self.name
            );
            return None;
        };
        Some(*self.address.get_or_init(|| found.as_ptr() as usize))
    }
}

/// Calls the next `$name` with the given types, or evaluates to `MPI_ERR_OTHER` of most libraries.
macro_rules! call_next {
    ($next:expr, ($($argument:expr => $ty:ty),*) -> $ret:ty, else $missing:expr) => {
        match $next.address() {
            // SAFETY: the address is that of a function of this name, hence of this signature; the
            // arguments are passed on as they came.
            Some(address) => unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn($($ty),*) -> $ret>(address)(
                    $($argument),*
                )
            },
            None => $missing,
        }
    };
}
pub(crate) use call_next;

/// Returned where no library has the function: `MPI_ERR_OTHER` of Open MPI and MPI-5.
pub const MISSING: libc::c_int = 16;
