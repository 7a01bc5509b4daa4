//! Where symbols of the MPI library are found: beside a preload library, or in an opened file.

use libc::{RTLD_DEFAULT, RTLD_GLOBAL, RTLD_LAZY, RTLD_NEXT, RTLD_NOLOAD, RTLD_NOW, c_int, c_void};
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// A function that every MPI library has and no tool defines.
const WITNESS: &CStr = c"PMPI_Comm_rank";

/// A handle of `dlopen`, never closed: an MPI library cannot be unloaded.
#[derive(Clone, Copy, Debug)]
struct Loaded(NonNull<c_void>);

// SAFETY: the dynamic loader's handles may be used from any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// The MPI library of this process, as a place to look for symbols.
#[derive(Debug, Default)]
pub struct Library {
    opened: Option<Loaded>,
    /// An MPI library loaded with `RTLD_LOCAL` (Python), searched for once and if found.
    local: OnceLock<Loaded>,
}

impl Library {
    /// The library the program itself uses. Functions are looked up after the calling library.
    pub fn of_program() -> Self {
        Self::default()
    }

    /// Opens the MPI library `path` for a program that was not linked with one; its symbols become
    /// global, as the library's own plug-ins expect.
    ///
    /// # Errors
    /// The loader's message.
    pub fn open(path: &Path) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: opening runs the library's constructors, which is what the caller asks for.
        let handle = unsafe { libc::dlopen(name.as_ptr(), RTLD_NOW | RTLD_GLOBAL) };
        let opened = NonNull::new(handle)
            .map(Loaded)
            .ok_or_else(loader_message)?;
        Ok(Self {
            opened: Some(opened),
            local: OnceLock::new(),
        })
    }

    /// Address of function `name`, in the library after the caller's.
    pub fn function(&self, name: &str) -> Option<NonNull<c_void>> {
        self.find(RTLD_NEXT, name)
    }

    /// [`Library::function`] as a value that can be called.
    ///
    /// # Safety
    /// The function of this name has type `F`, a pointer.
    pub unsafe fn function_as<F: Copy>(&self, name: &str) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.function(name)?;
        // SAFETY: the caller's contract.
        Some(unsafe { std::mem::transmute_copy::<NonNull<c_void>, F>(&address) })
    }

    /// Address of data `name` as the program and the library use it: the global scope first, for a
    /// non-PIC program holds a copy there.
    pub fn data(&self, name: &str) -> Option<NonNull<c_void>> {
        self.find(RTLD_DEFAULT, name)
    }

    fn find(&self, scope: *mut c_void, name: &str) -> Option<NonNull<c_void>> {
        let name = CString::new(name).ok()?;
        if let Some(Loaded(handle)) = self.opened {
            return symbol(handle.as_ptr(), &name);
        }
        symbol(scope, &name).or_else(|| symbol(self.local()?.0.as_ptr(), &name))
    }

    /// The MPI library that was loaded outside the global scope. Not remembered while there is
    /// none: the program may load it later.
    fn local(&self) -> Option<Loaded> {
        if let Some(found) = self.local.get() {
            return Some(*found);
        }
        let found = find_local()?;
        Some(*self.local.get_or_init(|| found))
    }

    /// File of the MPI library, if one is loaded.
    pub fn path(&self) -> Option<String> {
        file_of(self.find(RTLD_NEXT, WITNESS.to_str().ok()?)?).map(|name| lossy(&name))
    }

    /// Where it is mapped.
    pub fn mapping(&self) -> Option<Range<usize>> {
        let witness = self.find(RTLD_NEXT, WITNESS.to_str().ok()?)?;
        mapping_of(witness.as_ptr() as usize)
    }

    /// The file whose function `name` the program and its tools call, if it is neither the one that
    /// holds `own` nor the MPI library: then nothing is in between.
    pub fn rival(&self, name: &CStr, own: usize) -> Option<String> {
        let found = symbol(RTLD_DEFAULT, name)?;
        let address = found.as_ptr() as usize;
        let known = [mapping_of(own), self.mapping()];
        let is_known = known.iter().flatten().any(|file| file.contains(&address));
        (!is_known).then(|| file_of(found).map_or_else(String::new, |name| lossy(&name)))
    }
}

/// What `look` finds in the loader's entries of loaded files, which it sees until then.
pub fn find_loaded<R, F: FnMut(&libc::dl_phdr_info) -> Option<R>>(look: F) -> Option<R> {
    unsafe extern "C" fn each<R, F: FnMut(&libc::dl_phdr_info) -> Option<R>>(
        info: *mut libc::dl_phdr_info,
        _bytes: usize,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a live entry, and `search` is the pair below.
        let (info, (look, found)) = unsafe { (&*info, &mut *search.cast::<(F, Option<R>)>()) };
        *found = look(info);
        c_int::from(found.is_some())
    }
    let mut search = (look, None);
    // SAFETY: `each` is called during this call only, with the pair as its argument.
    unsafe { libc::dl_iterate_phdr(Some(each::<R, F>), (&raw mut search).cast()) };
    search.1
}

/// Name of a loaded file; empty for the program itself.
pub fn name_of(info: &libc::dl_phdr_info) -> &CStr {
    match info.dlpi_name.is_null() {
        true => c"",
        // SAFETY: the loader's own string, ending in 0.
        false => unsafe { CStr::from_ptr(info.dlpi_name) },
    }
}

/// Where the loaded file that holds `address` is mapped.
pub fn mapping_of(address: usize) -> Option<Range<usize>> {
    find_loaded(|info| {
        // SAFETY: the headers of a live entry.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let loaded = headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
        let ranges = loaded.map(|header| {
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            start..start.wrapping_add(header.p_memsz as usize)
        });
        let whole = ranges.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end));
        whole.filter(|range| range.contains(&address))
    })
}

fn lossy(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

fn symbol(scope: *mut c_void, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: `scope` is a pseudo handle or one that is never closed; `name` ends in 0.
    NonNull::new(unsafe { libc::dlsym(scope, name.as_ptr()) })
}

fn loader_message() -> String {
    // SAFETY: the string lives until this thread's next call into the loader.
    unsafe {
        let message = libc::dlerror();
        if message.is_null() {
            "unknown reason".into()
        } else {
            lossy(CStr::from_ptr(message))
        }
    }
}

/// Name of the loaded file that defines `address`.
fn file_of(address: NonNull<c_void>) -> Option<CString> {
    // SAFETY: Dl_info is plain data for which zero is valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is live; the address is only compared with mappings.
    let found = unsafe { libc::dladdr(address.as_ptr(), &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own copy of the name, ending in 0.
    Some(unsafe { CStr::from_ptr(info.dli_fname) }.to_owned())
}

/// Looks at every loaded file for one that reaches an MPI library, then at that library itself.
fn find_local() -> Option<Loaded> {
    loaded_files().into_iter().find_map(|name| {
        let handle = reopen(&name)?;
        let definer = file_of(symbol(handle.0.as_ptr(), WITNESS)?)?;
        reopen(&definer)
    })
}

/// A handle for a file that is loaded already.
fn reopen(name: &CStr) -> Option<Loaded> {
    // SAFETY: RTLD_NOLOAD loads and runs nothing.
    NonNull::new(unsafe { libc::dlopen(name.as_ptr(), RTLD_LAZY | RTLD_NOLOAD) }).map(Loaded)
}

fn loaded_files() -> Vec<CString> {
    let mut names = Vec::new();
    find_loaded(|info| -> Option<()> {
        names.push(name_of(info).to_owned());
        None
    });
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_mpi_has_no_mpi_symbols() {
        let library = Library::of_program();
        assert_eq!(library.function("PMPI_Comm_rank"), None);
        assert_eq!(library.path(), None);
        assert!(library.data("environ").is_some());
    }

    #[test]
    fn opening_nothing_says_why() {
        let message = Library::open(Path::new("/nonexistent/libmpi.so")).unwrap_err();
        assert!(message.contains("/nonexistent/libmpi.so"), "{message}");
    }

    #[test]
    fn the_mapping_of_a_file_holds_its_code() {
        let here = the_mapping_of_a_file_holds_its_code as fn() as usize;
        let mapping = mapping_of(here).expect("a mapping");
        assert!(mapping.contains(&here));
        let getpid = symbol(RTLD_DEFAULT, c"getpid").expect("getpid").as_ptr() as usize;
        assert!(!mapping.contains(&getpid));
        assert_eq!(mapping_of(1), None);
        let library = Library::of_program();
        assert!(
            library
                .rival(c"getpid", here)
                .is_some_and(|file| file.contains("libc"))
        );
        assert_eq!(library.rival(c"getpid", getpid), None);
    }

    #[test]
    fn loaded_files_are_listed_and_reopened() {
        let files = loaded_files();
        let libc = files
            .iter()
            .find(|name| lossy(name).contains("libc.so"))
            .expect("libc");
        assert!(reopen(libc).is_some());
    }
}
