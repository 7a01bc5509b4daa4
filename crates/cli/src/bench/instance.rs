//! The preload library, opened instead of preloaded, so that its calls and the host's can be
//! compared in one run.

use anyhow::{Context, Result, anyhow};
use ferrorail_base::config;
use ferrorail_coll::Collective;
use ferrorail_mpi_abi::{Comm, Datatype};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `MPI_Allgather`.
pub type Allgather = unsafe extern "C" fn(
    *const c_void,
    c_int,
    Datatype,
    *mut c_void,
    c_int,
    Datatype,
    Comm,
) -> c_int;

/// `MPI_Finalize`.
type Finalize = unsafe extern "C" fn() -> c_int;

/// The setting that forces an algorithm.
const ALGORITHM: &str = "FERRORAIL_ALGORITHM";

/// One copy of the library, with settings of its own. It stays loaded.
pub struct Instance {
    /// The algorithm that the settings force, or `auto`.
    pub algorithm: String,
    /// Its `MPI_Allgather`.
    pub allgather: Allgather,
    finalize: Option<Finalize>,
}

impl Instance {
    /// Opens `library` with the settings of the environment. The host MPI must be loaded already:
    /// the library looks for it.
    pub fn open(library: &Path) -> Result<Self> {
        // The library itself complains about a value that cannot be read.
        let variable = std::env::var(ALGORITHM).map(|value| (ALGORITHM, value));
        let (settings, _) = config::parse(variable);
        let forced = settings.algorithm.get(Collective::Allgather.name());
        Self::load(library, forced.map_or("auto", String::as_str))
    }

    /// Opens another copy of `library` on which `algorithm` is forced.
    ///
    /// The library reads its settings once, at its first call; the caller must make that call
    /// before it opens the next instance.
    pub fn open_forced(library: &Path, algorithm: &str) -> Result<Self> {
        // SAFETY: the benchmark has one thread, and those of the MPI library do not change the
        // environment.
        unsafe { std::env::set_var(ALGORITHM, format!("allgather={algorithm}")) };
        // The loader gives the same instance for the same file: another file is needed.
        let copy = memfd_create("libferrorail", MFdFlags::MFD_CLOEXEC)?;
        let mut copy = File::from(copy);
        std::io::copy(&mut File::open(library)?, &mut copy)
            .with_context(|| format!("cannot copy {}", library.display()))?;
        let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
        let instance = Self::load(Path::new(&path), algorithm)?;
        // Its number must not be used again: the loader knows libraries by their names, too.
        std::mem::forget(copy);
        Ok(instance)
    }

    fn load(path: &Path, algorithm: &str) -> Result<Self> {
        // SAFETY: the preload library runs nothing when it is loaded.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| anyhow!("cannot load {}: {error}", path.display()))?;
        // SAFETY: the standard defines these signatures for these names; handles are passed as
        // register values.
        let (allgather, finalize) = unsafe {
            (
                library.get::<Allgather>(b"MPI_Allgather\0").map(|f| *f),
                library.get::<Finalize>(b"MPI_Finalize\0").map(|f| *f).ok(),
            )
        };
        let allgather = allgather.map_err(|_| {
            anyhow!(
                "{} is not libferrorail.so: it has no MPI_Allgather",
                path.display()
            )
        })?;
        std::mem::forget(library);
        Ok(Self {
            algorithm: algorithm.to_owned(),
            allgather,
            finalize,
        })
    }

    /// `MPI_Finalize` through the library, which may print its statistics; `None` if it does not
    /// take part in that call.
    pub fn finalize(&self) -> Option<c_int> {
        // SAFETY: no argument.
        self.finalize.map(|finalize| unsafe { finalize() })
    }
}
