//! Functions of MPI libraries that are looked up by their names.

/// A table of functions (MPI 4.1): what they are called here, and by the standard after `MPI_`, and what they take,
/// handles as register values. Each is a method that checks what it returns.
macro_rules! mpi_functions {
    ($table:ident { $($name:ident = $symbol:literal ($($argument:ident: $type:ty),*);)* }) => {
        struct $table<'a> {
            host: &'a ferrorail_mpi_abi::Host,
            $($name: unsafe extern "C" fn($($type),*) -> std::ffi::c_int,)*
        }

        #[allow(clippy::too_many_arguments, reason = "the standard has them")]
        impl<'a> $table<'a> {
            /// # Safety
            /// `find` gives the MPI functions of the names that it is asked for, which work as `host`'s do.
            unsafe fn load(
                host: &'a ferrorail_mpi_abi::Host,
                find: impl Fn(&str) -> Option<std::ptr::NonNull<std::ffi::c_void>>,
            ) -> anyhow::Result<Self> {
                Ok(Self {
                    host,
                    $($name: {
                        let missing = || anyhow::anyhow!("there is no {}", $symbol);
                        let address = find($symbol).ok_or_else(missing)?.as_ptr();
                        type F = unsafe extern "C" fn($($type),*) -> std::ffi::c_int;
                        // SAFETY: the standard defines this prototype for this name.
                        unsafe { std::mem::transmute::<*mut std::ffi::c_void, F>(address) }
                    },)*
                })
            }

            $(
                /// # Safety
                /// What the standard asks of callers.
                unsafe fn $name(&self, $($argument: $type),*) -> anyhow::Result<()> {
                    // SAFETY: the caller's contract.
                    let code = unsafe { (self.$name)($($argument),*) };
                    Ok(self.host.check(concat!("MPI_", $symbol), code)?)
                }
            )*
        }
    };
}

pub(crate) use mpi_functions;
