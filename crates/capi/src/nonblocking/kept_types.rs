//! Derived types of a call that is under way, which the program may free meanwhile (MPI 4.1, section 6.12).

use crate::datatype::{element_bytes, forget, is_at_hand, layout, remember};
use crate::session::Session;
use ferrorail_base::fiber;
use ferrorail_mpi_abi::Datatype;

/// What a call keeps of its types until it is over.
#[derive(Default)]
pub struct KeptTypes(Vec<Datatype>);

impl KeptTypes {
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
        self.0.push(duplicate);
        duplicate.0
    }

    /// Whether the call names other types than the program's.
    pub fn has_duplicates(&self) -> bool {
        !self.0.is_empty()
    }

    /// Gives them up. By a thread of the program.
    pub fn free(&self, session: &Session) {
        for &datatype in &self.0 {
            forget(datatype);
            if let Err(error) = session.host().free_type(datatype) {
                tracing::debug!("{error}");
            }
        }
    }
}
