//! Communicators.

use super::{Host, MpiError};
use crate::{Comm, CommCopyFn, CommDeleteFn, Group};
use libc::{c_int, c_void};

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
        let mut rank = 0;
        // SAFETY: `rank` is live.
        let code = unsafe { (self.functions.comm_rank)(comm, &mut rank) };
        self.check("MPI_Comm_rank", code)?;
        Ok(rank as u32)
    }

    /// `MPI_Comm_size`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn comm_size(&self, comm: Comm) -> Result<u32, MpiError> {
        let mut size = 0;
        // SAFETY: `size` is live.
        let code = unsafe { (self.functions.comm_size)(comm, &mut size) };
        self.check("MPI_Comm_size", code)?;
        Ok(size as u32)
    }

    /// `MPI_Comm_test_inter`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn is_inter_comm(&self, comm: Comm) -> Result<bool, MpiError> {
        let mut flag = 0;
        // SAFETY: `flag` is live.
        let code = unsafe { (self.functions.comm_test_inter)(comm, &mut flag) };
        self.check("MPI_Comm_test_inter", code)?;
        Ok(flag != 0)
    }

    /// With how many ranks a collective call on `comm` exchanges data: all, or those of the other
    /// group. With a root, only what the root does counts, and other ranks have none.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn peers(&self, comm: Comm, root: Option<c_int>) -> Result<usize, MpiError> {
        let root_of_two_groups = self.constants().root;
        let mut size = 0;
        if !self.is_inter_comm(comm)? {
            let at_root = match root {
                Some(root) => i64::from(root) == i64::from(self.comm_rank(comm)?),
                None => true,
            };
            return Ok(if at_root {
                self.comm_size(comm)? as usize
            } else {
                0
            });
        }
        if root.is_some_and(|root| root != root_of_two_groups) {
            return Ok(0);
        }
        // SAFETY: `size` is live.
        let code = unsafe { (self.functions.comm_remote_size)(comm, &mut size) };
        self.check("MPI_Comm_remote_size", code)?;
        Ok(size as usize)
    }

    /// How many neighbours this rank sends to and receives from in the topology of `comm`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn neighbours(&self, comm: Comm) -> Result<(usize, usize), MpiError> {
        let [cart, graph, dist_graph] = self.constants().topologies;
        let functions = &self.functions;
        let (mut kind, mut sent, mut received) = (0, 0, 0);
        // SAFETY: the integers are live, here and below; each query fits the topology.
        let code = unsafe { (functions.topo_test)(comm, &mut kind) };
        self.check("MPI_Topo_test", code)?;
        if kind == cart {
            // SAFETY: as above.
            let code = unsafe { (functions.cartdim_get)(comm, &mut sent) };
            self.check("MPI_Cartdim_get", code)?;
            (sent, received) = (2 * sent, 2 * sent);
        } else if kind == graph {
            let rank = self.comm_rank(comm)? as c_int;
            // SAFETY: as above.
            let code = unsafe { (functions.graph_neighbors_count)(comm, rank, &mut sent) };
            self.check("MPI_Graph_neighbors_count", code)?;
            received = sent;
        } else if kind == dist_graph {
            let mut weighted = 0;
            // SAFETY: as above.
            let code = unsafe {
                (functions.dist_graph_neighbors_count)(
                    comm,
                    &mut received,
                    &mut sent,
                    &mut weighted,
                )
            };
            self.check("MPI_Dist_graph_neighbors_count", code)?;
        }
        Ok((sent as usize, received as usize))
    }

    /// The ranks in `MPI_COMM_WORLD` of the members of the intra-communicator `comm`; `None` for those
    /// of other worlds. Local.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn world_ranks(&self, comm: Comm) -> Result<Vec<Option<u32>>, MpiError> {
        let world = self.predefined.comm_world;
        let mut relation = self.constants().undefined;
        // SAFETY: `relation` is live.
        let code = unsafe { (self.functions.comm_compare)(comm, world, &mut relation) };
        self.check("MPI_Comm_compare", code)?;
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
        let mut private = Comm(0);
        // SAFETY: `private` is live and as large as any handle.
        let code = unsafe { (self.functions.comm_split)(comm, 0, rank, &mut private) };
        self.check("MPI_Comm_split", code)?;
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
        let mut handler = 0;
        // SAFETY: `handler` is live and as large as any handle.
        let code = unsafe { (self.functions.comm_get_errhandler)(comm, &mut handler) };
        self.check("MPI_Comm_get_errhandler", code)?;
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
        let mut group = Group(0);
        // SAFETY: `group` is live and as large as any handle.
        let code = unsafe { (self.functions.comm_group)(comm, &mut group) };
        self.check("MPI_Comm_group", code)?;
        Ok(group)
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
        let mut size = 0;
        // SAFETY: `size` is live.
        let code = unsafe { (self.functions.group_size)(group, &mut size) };
        self.check("MPI_Group_size", code)?;
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
    pub unsafe fn create_comm_key(&self, delete: CommDeleteFn) -> Result<c_int, MpiError> {
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
        copy: CommCopyFn,
        delete: CommDeleteFn,
    ) -> Result<c_int, MpiError> {
        let mut key = self.constants().keyval_invalid;
        // SAFETY: the caller vouches for both.
        let code = unsafe {
            let extra = std::ptr::null_mut();
            (self.functions.comm_create_keyval)(copy, delete, &mut key, extra)
        };
        self.check("MPI_Comm_create_keyval", code)?;
        Ok(key)
    }

    /// The value of `key` on `comm`, if set.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn comm_attribute(&self, comm: Comm, key: c_int) -> Result<Option<usize>, MpiError> {
        let mut value = 0usize;
        let mut flag = 0;
        // SAFETY: `value` and `flag` are live.
        let code = unsafe {
            (self.functions.comm_get_attr)(comm, key, (&raw mut value).cast(), &mut flag)
        };
        self.check("MPI_Comm_get_attr", code)?;
        Ok((flag != 0).then_some(value))
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

    /// `MPI_Barrier`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn barrier(&self, comm: Comm) -> Result<(), MpiError> {
        // SAFETY: no memory is passed.
        let code = unsafe { (self.functions.barrier)(comm) };
        self.check("MPI_Barrier", code)
    }
}
