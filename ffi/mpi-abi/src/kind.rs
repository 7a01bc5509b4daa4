//! Which binary interface a loaded MPI library has.

use crate::library::Library;
use libc::{c_char, c_int};
use std::ffi::CStr;
use std::fmt;

/// A family of MPI libraries that share handles, constants and structure layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbiKind {
    /// Open MPI: handles are addresses of objects.
    OpenMpi,
    /// MPICH, Intel MPI, MVAPICH, Cray MPI (the "MPICH ABI compatibility initiative"): handles are
    /// `int`.
    Mpich,
    /// MPI 5.0, section 20: handles are small integers in pointers.
    Standard,
}

impl AbiKind {
    /// Bytes that the library writes for a handle.
    pub const fn handle_bytes(self) -> usize {
        match self {
            Self::Mpich => 4,
            Self::OpenMpi | Self::Standard => 8,
        }
    }

    /// The meaningful bits of a handle in a register.
    pub const fn handle_mask(self) -> usize {
        match self {
            Self::Mpich => u32::MAX as usize,
            Self::OpenMpi | Self::Standard => usize::MAX,
        }
    }

    /// The kind that the symbols of `library` show; calls at most `MPI_Abi_get_version`, which is
    /// allowed at any time.
    pub fn of(library: &Library) -> Self {
        if abi_major(library) > 0 {
            Self::Standard
        } else if library.data("ompi_mpi_comm_world").is_some() {
            Self::OpenMpi
        } else {
            Self::Mpich
        }
    }

    /// Whether a library that calls itself `version` (`MPI_Get_library_version`) can be of this
    /// kind. Libraries of unknown name are believed.
    pub fn agrees_with(self, version: &str) -> bool {
        let open_mpi = version.contains("Open MPI");
        let mpich = ["MPICH", "Intel(R) MPI", "MVAPICH"]
            .iter()
            .any(|name| version.contains(name));
        match self {
            Self::OpenMpi => !mpich,
            Self::Mpich => !open_mpi,
            Self::Standard => true,
        }
    }
}

impl fmt::Display for AbiKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
            Self::Standard => "MPI-5 standard",
        })
    }
}

/// Major version of the standard ABI, 0 or less if this is not it.
fn abi_major(library: &Library) -> c_int {
    type AbiGetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    // SAFETY: MPI 5.0 section 20.2.2 defines this signature for this name.
    let found: Option<AbiGetVersion> = unsafe { library.function_as("MPI_Abi_get_version") };
    let Some(call) = found else {
        return 0;
    };
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are to live integers; the call is allowed before MPI_Init.
    match unsafe { call(&mut major, &mut minor) } {
        0 => major,
        _ => 0,
    }
}

/// `MPI_Get_library_version` of `library`; allowed before `MPI_Init` (MPI 4.1, section 11.4.1).
pub(crate) fn library_version(library: &Library) -> Option<String> {
    type GetLibraryVersion = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // SAFETY: MPI 4.1 section 9.1.1 defines this signature for this name.
    let call: GetLibraryVersion = unsafe { library.function_as("PMPI_Get_library_version")? };
    // The largest MPI_MAX_LIBRARY_VERSION_STRING of all known libraries.
    let mut text = vec![0u8; 8192];
    let mut length = 0;
    // SAFETY: the buffer is as large as any library may need.
    if unsafe { call(text.as_mut_ptr().cast(), &mut length) } != 0 {
        return None;
    }
    let version = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    Some(version.to_string_lossy().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cross_checked() {
        assert!(AbiKind::OpenMpi.agrees_with("Open MPI v4.1.4, package: Debian"));
        assert!(!AbiKind::Mpich.agrees_with("Open MPI v4.1.4, package: Debian"));
        assert!(AbiKind::Mpich.agrees_with("MPICH Version:\t4.0.2"));
        assert!(!AbiKind::OpenMpi.agrees_with("Intel(R) MPI Library 2021.11 for Linux* OS"));
        assert!(AbiKind::Standard.agrees_with("MPICH Version:      5.0.2"));
        assert!(AbiKind::Mpich.agrees_with("a vendor's own name"));
    }
}
