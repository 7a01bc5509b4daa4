//! Communicators.

use super::{Host, MpiError};
use crate::{Comm, CopyFn, DeleteFn, Group};
use libc::{c_int, c_void};
use std::ptr;

/// A copy callback that copies nothing: `MPI_COMM_NULL_COPY_FN` differs between interfaces.
pub(super) unsafe extern "C" fn copy_nothing(
    _handle: usize,
    _keyval: c_int,
    _extra: *mut c_void,
    _value_in: *mut c_void,
    _value_out: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the library passes a live flag.
    unsafe { *flag = 0 };
    0
}

impl Host {
    /// `MPI_Comm_rank`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn comm_rank(&self, comm: Comm) -> Result<u32, MpiError> {
        // SAFETY: `rank` is live.
        let rank = self.answer("MPI_Comm_rank", 0, |rank| unsafe {
            (self.functions.comm_rank)(comm, rank)
        })?;
        Ok(rank as u32)
    }

    /// `MPI_Comm_size`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn comm_size(&self, comm: Comm) -> Result<u32, MpiError> {
        // SAFETY: `size` is live.
        let size = self.answer("MPI_Comm_size", 0, |size| unsafe {
            (self.functions.comm_size)(comm, size)
        })?;
        Ok(size as u32)
    }

    /// `MPI_Comm_test_inter`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn is_inter_comm(&self, comm: Comm) -> Result<bool, MpiError> {
        // SAFETY: `flag` is live.
        let flag = self.answer("MPI_Comm_test_inter", 0, |flag| unsafe {
            (self.functions.comm_test_inter)(comm, flag)
        })?;
        Ok(flag != 0)
    }

    /// With how many ranks a collective call on `comm` exchanges data: all, or those of the other
    /// group. With a root, only what the root does counts, and other ranks have none.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn peers(&self, comm: Comm, root: Option<c_int>) -> Result<usize, MpiError> {
        if !self.is_inter_comm(comm)? {
            let is_at = |root| Ok(i64::from(root) == i64::from(self.comm_rank(comm)?));
            return match root.map_or(Ok(true), is_at)? {
                true => Ok(self.comm_size(comm)? as usize),
                false => Ok(0),
            };
        }
        if root.is_some_and(|root| root != self.constants().root) {
            return Ok(0);
        }
        // SAFETY: `size` is live.
        let size = self.answer("MPI_Comm_remote_size", 0, |size| unsafe {
            (self.functions.comm_remote_size)(comm, size)
        })?;
        Ok(size as usize)
    }

    /// The ranks in `MPI_COMM_WORLD` of the members of the intra-communicator `comm`; `None` for those
    /// of other worlds. Local.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn world_ranks(&self, comm: Comm) -> Result<Vec<Option<u32>>, MpiError> {
        let world = self.predefined.comm_world;
        // SAFETY: `relation` is live.
        let relation = self.answer("MPI_Comm_compare", 0, |relation| unsafe {
            (self.functions.comm_compare)(comm, world, relation)
        })?;
        // Translating a large group takes some libraries quadratic time.
        if self.constants().same_ranks.contains(&relation) {
            return Ok((0..self.comm_size(comm)?).map(Some).collect());
        }
        let [group, all] = [self.comm_group(comm)?, self.comm_group(world)?];
        let ranks = self.translate_ranks(group, all);
        self.free_group(group);
        self.free_group(all);
        ranks
    }

    /// A communicator of the same ranks, without the attributes of `comm`, that returns errors.
    /// Collective.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn private_comm(&self, comm: Comm) -> Result<Comm, MpiError> {
        let rank = self.comm_rank(comm)? as c_int;
        // SAFETY: `private` is live and as large as any handle.
        let private = self.answer("MPI_Comm_split", Comm(0), |private| unsafe {
            (self.functions.comm_split)(comm, 0, rank, private)
        })?;
        self.return_errors(private)?;
        Ok(private)
    }

    /// What `call` returns while `comm` returns errors instead of calling its error handler.
    ///
    /// # Errors
    /// The library's, from `call` or from changing the handler.
    pub fn without_handler<R>(
        &self,
        comm: Comm,
        call: impl FnOnce() -> Result<R, MpiError>,
    ) -> Result<R, MpiError> {
        // SAFETY: `handler` is live and as large as any handle.
        let mut handler = self.answer("MPI_Comm_get_errhandler", 0, |handler| unsafe {
            (self.functions.comm_get_errhandler)(comm, handler)
        })?;
        let result = self.return_errors(comm).and_then(|()| call());
        // SAFETY: the handler that it had; what was got is given back once.
        let code = unsafe {
            let code = (self.functions.comm_set_errhandler)(comm, handler);
            (self.functions.errhandler_free)(&mut handler);
            code
        };
        self.check("MPI_Comm_set_errhandler", code)?;
        result
    }

    /// The ranks of `comm`, to be given back with [`Host::free_group`].
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn comm_group(&self, comm: Comm) -> Result<Group, MpiError> {
        // SAFETY: `group` is live and as large as any handle.
        self.answer("MPI_Comm_group", Group(0), |group| unsafe {
            (self.functions.comm_group)(comm, group)
        })
    }

    /// Gives back a group that is not used any more.
    pub fn free_group(&self, mut group: Group) {
        // SAFETY: the caller's own group, live until here.
        unsafe { (self.functions.group_free)(&mut group) };
    }

    /// The ranks that the members of `group` have in `other`; `None` for those that are not there.
    ///
    /// # Errors
    /// The library's.
    pub fn translate_ranks(
        &self,
        group: Group,
        other: Group,
    ) -> Result<Vec<Option<u32>>, MpiError> {
        // SAFETY: `size` is live.
        let size = self.answer("MPI_Group_size", 0, |size| unsafe {
            (self.functions.group_size)(group, size)
        })?;
        let members: Vec<c_int> = (0..size).collect();
        let mut ranks = vec![0; members.len()];
        // SAFETY: both arrays have `size` entries; both groups are live.
        let code = unsafe {
            let (from, to) = (members.as_ptr(), ranks.as_mut_ptr());
            (self.functions.group_translate_ranks)(group, size, from, other, to)
        };
        self.check("MPI_Group_translate_ranks", code)?;
        let undefined = self.constants().undefined;
        let known = |rank: c_int| (rank != undefined).then_some(rank as u32);
        Ok(ranks.into_iter().map(known).collect())
    }

    /// The largest tag of messages.
    pub fn largest_tag(&self) -> c_int {
        /// What the standard promises (MPI 4.1, section 9.1.2).
        const LEAST: c_int = 32_767;
        let world = self.predefined.comm_world;
        let value = self.comm_attribute(world, self.constants().tag_ub);
        // SAFETY: the value of a predefined attribute is the address of an integer.
        let tag = value
            .ok()
            .flatten()
            .map(|at| unsafe { *(at as *const c_int) });
        tag.unwrap_or(LEAST).max(LEAST)
    }

    fn return_errors(&self, comm: Comm) -> Result<(), MpiError> {
        // SAFETY: a predefined error handler on a live communicator.
        let code =
            unsafe { (self.functions.comm_set_errhandler)(comm, self.predefined.errors_return) };
        self.check("MPI_Comm_set_errhandler", code)
    }

    /// `MPI_Comm_free`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn free_comm(&self, mut comm: Comm) -> Result<(), MpiError> {
        // SAFETY: `comm` is live and as large as any handle.
        let code = unsafe { (self.functions.comm_free)(&mut comm) };
        self.check("MPI_Comm_free", code)
    }

    /// A communicator key whose values are not copied to duplicates. `delete` is called when a
    /// value goes away (MPI 4.1, section 7.7.2).
    ///
    /// # Errors
    /// The library's, after its error handler.
    ///
    /// # Safety
    /// `delete` keeps to the callback's contract and does not unwind.
    pub unsafe fn create_comm_key(&self, delete: DeleteFn) -> Result<c_int, MpiError> {
        // SAFETY: the caller vouches for `delete`.
        unsafe { self.create_inherited_comm_key(copy_nothing, delete) }
    }

    /// A communicator key whose values `copy` gives to duplicates.
    ///
    /// # Errors
    /// The library's, after its error handler.
    ///
    /// # Safety
    /// Both keep to the callbacks' contracts and do not unwind.
    pub unsafe fn create_inherited_comm_key(
        &self,
        copy: CopyFn,
        delete: DeleteFn,
    ) -> Result<c_int, MpiError> {
        let create = self.functions.comm_create_keyval;
        let none = self.constants().keyval_invalid;
        // SAFETY: the caller vouches for both.
        self.answer("MPI_Comm_create_keyval", none, |key| unsafe {
            create(copy, delete, key, ptr::null_mut())
        })
    }

    /// The value of `key` on `comm`, if set.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn comm_attribute(&self, comm: Comm, key: c_int) -> Result<Option<usize>, MpiError> {
        let get = self.functions.comm_get_attr;
        // SAFETY: `value` and `flag` are live.
        self.attribute("MPI_Comm_get_attr", |value, flag| unsafe {
            get(comm, key, value, flag)
        })
    }

    /// Sets the value of `key` on `comm`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn set_comm_attribute(&self, comm: Comm, key: c_int, value: usize) -> Result<(), MpiError> {
        // SAFETY: the library only keeps the value.
        let code = unsafe { (self.functions.comm_set_attr)(comm, key, value as *mut c_void) };
        self.check("MPI_Comm_set_attr", code)
    }

    /// Takes the value of `key` from `comm`, which calls the key's delete callback.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn delete_comm_attribute(&self, comm: Comm, key: c_int) -> Result<(), MpiError> {
        // SAFETY: no memory is passed.
        let code = unsafe { (self.functions.comm_delete_attr)(comm, key) };
        self.check("MPI_Comm_delete_attr", code)
    }

    /// Calls the error handler of `comm` with an error class (which is also an error code).
    /// Returns only if the handler does.
    pub fn call_error_handler(&self, comm: Comm, class: c_int) {
        // SAFETY: any class may be reported on a live communicator.
        unsafe { (self.functions.comm_call_errhandler)(comm, class) };
    }
}
