//! The preload library, opened instead of preloaded, so that its calls and the host's can be
//! compared in one run.

use super::call::Function;
use super::operation::Operation;
use super::variant::{ALGORITHM, Environment, Variant};
use anyhow::{Context, Result, anyhow};
use ferrorail_base::config;
use ferrorail_engine::Facts;
use ferrorail_mpi_abi::Comm;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::ffi::{CString, c_char, c_int, c_void};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

/// `MPI_Finalize`.
type Finalize = unsafe extern "C" fn() -> c_int;
/// `ferrorail_forwarded`.
type Forwarded = unsafe extern "C" fn(*const c_char) -> u64;
/// `ferrorail_multicasts`.
type Multicasts = extern "C" fn() -> u64;
/// `ferrorail_facts`.
type FactsOf = unsafe extern "C" fn(usize, *mut Facts) -> c_int;

/// One copy of the library, with settings of its own. It stays loaded.
pub struct Instance {
    /// The value that makes this instance differ from others, if there are several.
    label: Option<String>,
    /// Never closed: the MPI library calls it back until the process ends.
    library: ManuallyDrop<Library>,
    forwarded: Forwarded,
    multicasts: Multicasts,
    facts: FactsOf,
}

impl Instance {
    /// Opens `library` with the settings of the environment. The host MPI must be loaded already:
    /// the library looks for it.
    pub fn open(library: &Path) -> Result<Self> {
        Self::load(library, None)
    }

    /// Opens another copy of `library` with the settings of `variant`, by whose label it goes.
    /// `first_call` makes its first call, at which it reads its settings, once and for all.
    pub fn open_variant(
        library: &Path,
        variant: &Variant,
        first_call: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<Self> {
        // SAFETY: the benchmark has one thread, those of the MPI library do not change the
        // environment, and those of instances opened before do not look at it.
        let _environment = unsafe { Environment::with(&variant.settings) };
        // The loader gives the same instance for the same file: another file is needed.
        let copy = memfd_create("libferrorail", MFdFlags::MFD_CLOEXEC)?;
        let mut copy = File::from(copy);
        std::io::copy(&mut File::open(library)?, &mut copy)
            .with_context(|| format!("cannot copy {}", library.display()))?;
        let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
        let instance = Self::load(Path::new(&path), Some(variant.label.clone()))?;
        // Its number must not be used again: the loader knows libraries by their names, too.
        std::mem::forget(copy);
        first_call(&instance)?;
        Ok(instance)
    }

    fn load(path: &Path, label: Option<String>) -> Result<Self> {
        // SAFETY: the preload library runs nothing when it is loaded.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .with_context(|| format!("cannot load {}", path.display()))?;
        let missing = |name: &str| {
            let path = path.display();
            anyhow!("{path} is not libferrorail.so of this version: it has no {name}")
        };
        // SAFETY: these are the library's own functions.
        let (forwarded, multicasts, facts) = unsafe {
            (
                library.get::<Forwarded>(b"ferrorail_forwarded\0"),
                library.get::<Multicasts>(b"ferrorail_multicasts\0"),
                library.get::<FactsOf>(b"ferrorail_facts\0"),
            )
        };
        Ok(Self {
            label,
            forwarded: *forwarded.map_err(|_| missing("ferrorail_forwarded"))?,
            multicasts: *multicasts.map_err(|_| missing("ferrorail_multicasts"))?,
            facts: *facts.map_err(|_| missing("ferrorail_facts"))?,
            library: ManuallyDrop::new(library),
        })
    }

    /// The algorithm that the settings force for `operation`, or `auto`.
    pub fn algorithm(&self, operation: &Operation) -> String {
        // The library itself complains about a value that cannot be read.
        let variable = std::env::var(ALGORITHM).map(|value| (ALGORITHM, value));
        let (settings, _) = config::parse(variable);
        let forced = settings.algorithm.get(operation.name);
        forced.map_or("auto", String::as_str).to_owned()
    }

    /// The value by which this instance differs from others, if there are several.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Its implementation of `operation`, if it takes that over.
    pub fn function(&self, operation: &Operation) -> Option<Function> {
        let find = |name: &str| self.symbol(&format!("MPI_{name}"));
        // SAFETY: the library has the MPI functions of these names there.
        unsafe { Function::new(operation, find) }
    }

    /// `MPI_Barrier` through the library.
    pub fn barrier(&self, comm: Comm) -> c_int {
        let barrier = self.symbol("MPI_Barrier").map(NonNull::as_ptr);
        type Barrier = unsafe extern "C" fn(Comm) -> c_int;
        // SAFETY: the standard defines this signature for this name.
        barrier.map_or(0, |barrier| unsafe {
            std::mem::transmute::<*mut c_void, Barrier>(barrier)(comm)
        })
    }

    /// Address of its function `name`.
    pub fn symbol(&self, name: &str) -> Option<NonNull<c_void>> {
        let name = format!("{name}\0");
        // SAFETY: only the address is taken.
        let found = unsafe { self.library.get::<*mut c_void>(name.as_bytes()) }.ok()?;
        NonNull::new(found.into_raw())
    }

    /// Calls of `operation` that were left to the host so far.
    pub fn forwarded(&self, operation: &Operation) -> u64 {
        let name = CString::new(operation.name).expect("names have no zeros");
        // SAFETY: the name ends in a zero.
        unsafe { (self.forwarded)(name.as_ptr()) }
    }

    /// Calls of any kind that were left to the host so far.
    pub fn forwarded_in_all(&self) -> u64 {
        // SAFETY: null stands for all.
        unsafe { (self.forwarded)(std::ptr::null()) }
    }

    /// Messages that this process has multicast to other nodes so far.
    pub fn multicasts(&self) -> u64 {
        (self.multicasts)()
    }

    /// What rules see of the ranks of `comm`, if the library has run a collective there.
    pub fn facts(&self, comm: Comm) -> Option<Facts> {
        let mut facts = Facts::default();
        // SAFETY: `comm` is live, and `facts` has the library's own layout.
        let code = unsafe { (self.facts)(comm.0, &raw mut facts) };
        (code == 0).then_some(facts)
    }

    /// `MPI_Finalize` through the library; `None` if it does not take part in that call.
    pub fn finalize(&self) -> Option<c_int> {
        // SAFETY: the standard defines this signature for this name.
        let finalize = unsafe { self.library.get::<Finalize>(b"MPI_Finalize\0") }.ok()?;
        // SAFETY: no argument.
        Some(unsafe { finalize() })
    }
}
