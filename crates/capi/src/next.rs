//! The library behind this one: another tool in the preload list, or the host MPI.

use ferrorail_mpi_abi::Library;
use std::sync::OnceLock;

/// A function of the next library, looked up when first called and then remembered.
pub struct Next {
    name: &'static str,
    /// `None` if the MPI library is loaded and lacks the function.
    address: OnceLock<Option<usize>>,
}

impl Next {
    /// The next `name`.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            address: OnceLock::new(),
        }
    }

    /// Its address. `None` if no library has it.
    #[inline]
    pub fn address(&self) -> Option<usize> {
        match self.address.get() {
            Some(&address) => address,
            None => self.find(),
        }
    }

    #[cold]
    fn find(&self) -> Option<usize> {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        let library = LIBRARY.get_or_init(Library::of_program);
        let found = library.function(self.name);
        if found.is_none() && library.path().is_none() {
            // The program may load one later.
            return None;
        }
        *self
            .address
            .get_or_init(|| found.map(|address| address.as_ptr() as usize))
    }
}

/// The file whose `PMPI_*` functions are called in place of ferrorail's, if there is one.
pub fn bypass() -> Option<String> {
    let own = bypass as fn() -> Option<String> as usize;
    let names = [
        c"PMPI_Allreduce",
        c"PMPI_Put",
        c"PMPI_Win_fence",
        c"PMPI_Win_create",
    ];
    let library = Library::of_program();
    names.iter().find_map(|name| library.rival(name, own))
}

/// Calls the next `$name` with the given types, or evaluates to `MPI_ERR_OTHER` of most libraries.
macro_rules! call_next {
    ($next:expr, ($($argument:expr => $ty:ty),*) -> $ret:ty, else $missing:expr) => {
        match $next.address() {
            // SAFETY: the address is that of a function of this name, hence of this signature; the
            // arguments are passed on as they came.
            Some(address) => unsafe {
                std::mem::transmute::<usize, unsafe extern "C-unwind" fn($($ty),*) -> $ret>(address)(
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
