//! PMIx, the key-value service of Open MPI's launcher and of Slurm (PMIx 4.2 standard, chapters 5 and
//! 6). The host starts it inside `MPI_Init` and is watched as it does: Open MPI 5 does not start where
//! somebody else did so before.

use super::{ANNOUNCED, Entry, KeyValues};
use crate::panic_guard::guard;
use ferrorail_base::sync::{AtomicBool, Ordering};
use libc::{RTLD_LAZY, RTLD_NEXT, RTLD_NOLOAD, c_char, c_int, c_void};
use std::ffi::{CStr, CString};
use std::ptr::{self, NonNull};

const SUCCESS: c_int = 0;
const SCOPE_GLOBAL: u8 = 3;
const BOOL: u16 = 1;
const STRING: u16 = 3;
const KEY: &CStr = c"ferrorail";

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Process {
    world: [c_char; 256],
    rank: u32,
}

/// `pmix_value_t`.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    string: *mut c_char,
    flag: bool,
    /// The largest of the standard's members has three words.
    words: [usize; 3],
}

/// `pmix_info_t`.
#[repr(C)]
struct Info {
    key: [u8; 512],
    flags: u32,
    value: Value,
}

type Init = unsafe extern "C" fn(*mut Process, *const Info, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Get = unsafe extern "C" fn(
    *const Process,
    *const c_char,
    *const Info,
    usize,
    *mut *mut Value,
) -> c_int;

/// The library's client.
pub struct Client {
    me: Process,
    put: Put,
    commit: Commit,
    get: Get,
}

/// Whether the host's `MPI_Init` is under way, and ought to tell of this rank.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// The next call of `PMIx_Init` is the host's.
pub fn watch() {
    let variable = |name: &str| std::env::var(name).ok();
    if !exchanges_on_demand(variable) {
        WATCHED.store(true, Ordering::Relaxed);
    }
}

/// Later calls are not.
pub fn ignore() {
    WATCHED.store(false, Ordering::Relaxed);
}

/// `PMIx_Init` of whoever calls it, under a name that begins with `prefix`.
///
/// # Safety
/// The caller's arguments.
pub unsafe fn initialise(
    prefix: &str,
    process: *mut c_void,
    info: *const c_void,
    count: usize,
) -> c_int {
    /// `PMIX_ERR_INIT`.
    const NOT_STARTED: c_int = -31;
    guard(None, || {
        // SAFETY: PMIx defines this signature for this name.
        let Ok(init) = (unsafe { function::<Init>(prefix, "PMIx_Init") }) else {
            return NOT_STARTED;
        };
        let process = process.cast::<Process>();
        // SAFETY: the caller's arguments.
        let code = unsafe { init(process, info.cast(), count) };
        if code == SUCCESS && !process.is_null() && WATCHED.swap(false, Ordering::Relaxed) {
            // SAFETY: filled by the library.
            announce(prefix, unsafe { *process });
        }
        code
    })
}

fn announce(prefix: &str, me: Process) {
    let client = Client::of(prefix, me).and_then(|mut client| {
        client.put(&Entry::own().to_string())?;
        Ok(Box::new(client) as Box<dyn KeyValues>)
    });
    *ANNOUNCED.lock() = Some(client);
}

impl Client {
    fn of(prefix: &str, me: Process) -> Result<Self, String> {
        // SAFETY: PMIx defines these signatures for these names.
        unsafe {
            Ok(Self {
                me,
                put: function(prefix, "PMIx_Put")?,
                commit: function(prefix, "PMIx_Commit")?,
                get: function(prefix, "PMIx_Get")?,
            })
        }
    }

    /// The text that `rank` has under `key`, if any.
    fn text(&self, rank: u32, key: &CStr) -> Option<String> {
        let process = Process { rank, ..self.me };
        // Entries came with the exchange in MPI_Init: the server need not look elsewhere for one that
        // it does not have, which would take seconds.
        let mut immediate = Info {
            key: [0; 512],
            flags: 0,
            value: Value {
                kind: BOOL,
                data: Data { words: [0; 3] },
            },
        };
        let name = b"pmix.immediate";
        immediate.key[..name.len()].copy_from_slice(name);
        immediate.value.data.flag = true;
        let mut found: *mut Value = ptr::null_mut();
        // SAFETY: all arguments are live; what is found belongs to this process, as `malloc` made it.
        unsafe {
            let code = (self.get)(&process, key.as_ptr(), &immediate, 1, &mut found);
            if code != SUCCESS || found.is_null() {
                return None;
            }
            let text = match (*found).kind {
                STRING => {
                    let string = (*found).data.string;
                    let text = (!string.is_null())
                        .then(|| CStr::from_ptr(string).to_string_lossy().into_owned());
                    libc::free(string.cast::<c_void>());
                    text
                }
                _ => None,
            };
            libc::free(found.cast::<c_void>());
            text
        }
    }
}

impl KeyValues for Client {
    fn put(&mut self, value: &str) -> Result<(), String> {
        let text = CString::new(value).map_err(|error| error.to_string())?;
        let mut value = Value {
            kind: STRING,
            data: Data { words: [0; 3] },
        };
        value.data.string = text.as_ptr().cast_mut();
        // SAFETY: the library copies key and value.
        let codes = unsafe {
            [
                (self.put)(SCOPE_GLOBAL, KEY.as_ptr(), &mut value),
                (self.commit)(),
            ]
        };
        match codes {
            [SUCCESS, SUCCESS] => Ok(()),
            _ => Err(format!("PMIx_Put and PMIx_Commit: {codes:?}")),
        }
    }

    fn get(&mut self, rank: u32) -> Result<Option<String>, String> {
        Ok(self.text(rank, KEY))
    }

    fn host_of(&mut self, rank: u32) -> Option<String> {
        self.text(rank, c"pmix.hname")
    }
}

/// Whether Open MPI was told not to give every rank everything inside `MPI_Init`: then what a server
/// knows depends on who asked it before.
fn exchanges_on_demand(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is = |name: &str, values: &[&str]| {
        variable(name).is_some_and(|text| values.contains(&text.to_lowercase().as_str()))
    };
    is(
        "OMPI_MCA_pmix_base_async_modex",
        &["1", "true", "yes", "enabled"],
    ) || is(
        "OMPI_MCA_pmix_base_collect_data",
        &["0", "false", "no", "disabled"],
    )
}

/// A function of the library that the host uses: in the global scope, where Open MPI 4 puts the
/// component that has it, or in a file of the usual name.
///
/// # Safety
/// The function of this name has type `F`, a pointer.
unsafe fn function<F: Copy>(prefix: &str, name: &str) -> Result<F, String> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let symbol = CString::new(format!("{prefix}{name}")).map_err(|error| error.to_string())?;
    // SAFETY: nothing is loaded that was not before; a handle stays valid if it is not closed.
    let found = unsafe {
        NonNull::new(libc::dlsym(RTLD_NEXT, symbol.as_ptr())).or_else(|| {
            let file = libc::dlopen(c"libpmix.so.2".as_ptr(), RTLD_LAZY | RTLD_NOLOAD);
            NonNull::new(libc::dlsym(NonNull::new(file)?.as_ptr(), symbol.as_ptr()))
        })
    };
    let address = found.ok_or_else(|| format!("no {prefix}{name} in this process"))?;
    // SAFETY: the caller's contract.
    Ok(unsafe { std::mem::transmute_copy::<NonNull<c_void>, F>(&address) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_standard() {
        assert_eq!(size_of::<Process>(), 260);
        assert_eq!(size_of::<Value>(), 32);
        assert_eq!(std::mem::offset_of!(Info, value), 520);
    }

    #[test]
    fn an_exchange_on_demand_is_noticed() {
        let set = |given: &'static str| {
            move |name: &str| {
                (given.split_once('=')?.0 == name)
                    .then(|| given.split_once('=').unwrap().1.to_owned())
            }
        };
        assert!(!exchanges_on_demand(|_| None));
        assert!(exchanges_on_demand(set("OMPI_MCA_pmix_base_async_modex=1")));
        assert!(exchanges_on_demand(set(
            "OMPI_MCA_pmix_base_collect_data=False"
        )));
        assert!(!exchanges_on_demand(set(
            "OMPI_MCA_pmix_base_collect_data=1"
        )));
    }
}
