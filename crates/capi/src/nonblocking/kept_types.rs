//! Derived types of a call that is under way, which the program may free meanwhile (MPI 4.1, section 6.12).

use crate::datatype::{element_bytes, forget, is_at_hand, layout, remember};
use crate::session::Session;
use ferrorail_base::fiber;
use ferrorail_mpi_abi::Datatype;
use libc::c_void;

/// What a call keeps of its types until it is over.
#[derive(Default)]
pub struct KeptTypes {
    duplicates: Vec<Datatype>,
    /// Arrays of handles as the host has them, in words.
    arrays: Vec<Vec<usize>>,
}

impl KeptTypes {
    /// What the call is to name in place of an array that has a type for each of so many `ranks`: a copy with what
    /// [`KeptTypes::keep`] makes of each that `is_used`. It is made also if that changes none, as Open MPI's Fortran frees the
    /// array that it passes when the call returns.
    ///
    /// # Safety
    /// The array has so many entries.
    pub unsafe fn keep_each(
        &mut self,
        session: &Session,
        (array, ranks): (*const c_void, usize),
        is_used: impl Fn(usize) -> bool,
        persistent: bool,
    ) -> *const c_void {
        let host = session.host();
        // Handles have a word at most.
        let mut copy = vec![0usize; ranks];
        // Ranks in a row often have the same.
        let mut last = None;
        for rank in 0..ranks {
            // SAFETY: the caller's contract.
            let of_program = unsafe { host.handle_in(array, rank) };
            let kept = match last {
                _ if !is_used(rank) => of_program,
                Some((same, kept)) if same == of_program => kept,
                _ => {
                    let kept = self.keep(session, of_program, persistent);
                    last = Some((of_program, kept));
                    kept
                }
            };
            // SAFETY: there is room for as many.
            unsafe { host.write_handle_in(copy.as_mut_ptr().cast(), rank, kept) };
        }
        let address = copy.as_ptr().cast();
        self.arrays.push(copy);
        address
    }

    /// What the call is to name in place of `datatype`: a duplicate of a type that is looked at later. These are types
    /// that the host packs and unpacks, and all where the call may have to wait for a stack, or is `persistent`.
    pub fn keep(&mut self, session: &Session, datatype: usize, persistent: bool) -> usize {
        if element_bytes(session, datatype).is_some() {
            return datatype;
        }
        let host = session.host();
        let of_program = host.datatype(datatype);
        let Some(layout) = layout(session, of_program) else {
            return datatype;
        };
        // Operations are for predefined types, and not for their duplicates.
        if is_at_hand(of_program) {
            return datatype;
        }
        let is_flat = layout.runs().is_some() || layout.dense_at().is_some();
        if is_flat && !persistent && !fiber::is_short_of_stacks() {
            return datatype;
        }
        let Ok(duplicate) = host.duplicate_type(of_program) else {
            return datatype;
        };
        remember(duplicate, layout);
        self.duplicates.push(duplicate);
        duplicate.0
    }

    /// Whether the call names other types than the program's.
    pub fn has_duplicates(&self) -> bool {
        !self.duplicates.is_empty()
    }

    /// Gives them up. By a thread of the program.
    pub fn free(&self, session: &Session) {
        for &datatype in &self.duplicates {
            forget(datatype);
            if let Err(error) = session.host().free_type(datatype) {
                tracing::debug!("{error}");
            }
        }
    }
}
