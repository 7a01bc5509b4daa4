//! Windows: the host's handles, on which the program hangs names, attributes and error handlers.

use super::{Host, MpiError};
use crate::{Comm, Group, Info, SUCCESS, Win};
use libc::{c_char, c_int};
use std::ffi::{CStr, CString};

/// Which window without memory a library is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareWindow {
    /// One that allocates nothing: Debian's Open MPI 4.1.4 makes no other over one rank.
    Allocated,
    /// One that shares nothing; over ranks of one host only.
    Shared,
    /// One to which memory could be attached.
    Dynamic,
}

impl Host {
    /// A window over the ranks of `comm` without memory. Collective.
    ///
    /// # Errors
    /// The library's, after the error handler of `comm`.
    pub fn bare_window(&self, comm: Comm, info: Info, kind: BareWindow) -> Result<Win, MpiError> {
        let mut window = Win(0);
        let mut base = 0usize;
        let to = (&raw mut base).cast();
        // SAFETY: `window` and `base` are live and as large as any handle or pointer.
        let (name, code) = unsafe {
            let functions = &self.functions;
            match kind {
                BareWindow::Allocated => (
                    "MPI_Win_allocate",
                    (functions.win_allocate)(0, 1, info, comm, to, &mut window),
                ),
                BareWindow::Shared => (
                    "MPI_Win_allocate_shared",
                    (functions.win_allocate_shared)(0, 1, info, comm, to, &mut window),
                ),
                BareWindow::Dynamic => (
                    "MPI_Win_create_dynamic",
                    (functions.win_create_dynamic)(info, comm, &mut window),
                ),
            }
        };
        self.check(name, code)?;
        Ok(window)
    }

    /// Calls the error handler of `window` with an error class (which is also an error code).
    /// Returns only if the handler does.
    pub fn call_window_error_handler(&self, window: Win, class: c_int) {
        // SAFETY: any class may be reported on a live window.
        unsafe { (self.functions.win_call_errhandler)(window, class) };
    }

    /// The group of the ranks of `window`, to be freed.
    ///
    /// # Errors
    /// The library's.
    pub fn window_group(&self, window: Win) -> Result<Group, MpiError> {
        // SAFETY: `all` is live and as large as any handle.
        self.answer("MPI_Win_get_group", Group(0), |all| unsafe {
            (self.functions.win_get_group)(window, all)
        })
    }

    /// The ranks in `all`, which is freed, of the members of `group`, which is a group of the program.
    ///
    /// # Errors
    /// The library's.
    pub fn ranks_in(&self, all: Group, group: Group) -> Result<Vec<u32>, MpiError> {
        let translated = self.translate_ranks(group, all);
        self.free_group(all);
        let outside = self.constants().undefined as u32;
        Ok(translated?
            .into_iter()
            .map(|rank| rank.unwrap_or(outside))
            .collect())
    }

    /// The keys of `info`.
    pub fn info_keys(&self, info: Info) -> Vec<CString> {
        /// Longest key of any library, in bytes.
        const LENGTH: usize = 511;
        let mut count = 0;
        if info == self.predefined.info_null {
            return Vec::new();
        }
        // SAFETY: `count` is live.
        let code = unsafe { (self.functions.info_get_nkeys)(info, &mut count) };
        if code != SUCCESS {
            return Vec::new();
        }
        let key = |index| {
            let mut text = [0u8; LENGTH + 1];
            let to = text.as_mut_ptr().cast::<c_char>();
            // SAFETY: `text` has room for the longest key and a final 0.
            let code = unsafe { (self.functions.info_get_nthkey)(info, index, to) };
            let found = CStr::from_bytes_until_nul(&text).ok();
            found.filter(|_| code == SUCCESS).map(CStr::to_owned)
        };
        (0..count).filter_map(key).collect()
    }

    /// The value of `key` in `info`, if that has it.
    pub fn info_value(&self, info: Info, key: &CStr) -> Option<String> {
        /// Longest value of any library, in bytes.
        const LENGTH: usize = 1023;
        if info == self.predefined.info_null {
            return None;
        }
        let mut text = [0u8; LENGTH + 1];
        let mut found = 0;
        // SAFETY: `text` has room for the length and a final 0; `found` is live.
        let code = unsafe {
            let to = text.as_mut_ptr().cast::<c_char>();
            (self.functions.info_get)(info, key.as_ptr(), LENGTH as c_int, to, &mut found)
        };
        if code != SUCCESS || found == 0 {
            return None;
        }
        let value = CStr::from_bytes_until_nul(&text).ok()?;
        Some(value.to_string_lossy().into_owned())
    }

    /// Sets `key` of `info`.
    ///
    /// # Errors
    /// The library's.
    pub fn set_info_value(&self, info: Info, key: &CStr, value: &CStr) -> Result<(), MpiError> {
        // SAFETY: both strings end with 0.
        let code = unsafe { (self.functions.info_set)(info, key.as_ptr(), value.as_ptr()) };
        self.check("MPI_Info_set", code)
    }
}
