//! Accumulating operations of which the handles say all.

use crate::datatype::plain_bytes;
use crate::operation::{Accumulation, Operations};
use crate::session::Session;
use ferrorail_engine::Update;

/// An operation on plain bytes of one predefined type, by one of ferrorail's own loops.
#[derive(Clone, Copy)]
pub struct PlainUpdate {
    pub(super) op: usize,
    pub(super) datatype: usize,
    pub(super) element_bytes: usize,
    pub(super) update: Update<'static>,
}

impl PlainUpdate {
    /// What these handles, as they came in registers, mean; `None` for all others, wrong ones included.
    pub(super) fn find(session: &Session, op: usize, datatype: usize) -> Option<Self> {
        let element_bytes = plain_bytes(session, 1, datatype).filter(|&bytes| bytes > 0)?;
        let (op_handle, type_handle) = (
            session.host().operation(op),
            session.host().datatype(datatype),
        );
        let update = match Operations::of(session).plain(op_handle, type_handle)? {
            Accumulation::Replace => Update::Replace,
            Accumulation::Keep => Update::Keep,
            Accumulation::Operation(operation) => Update::Kernel(operation.kernel()?),
        };
        Some(Self {
            op,
            datatype,
            element_bytes,
            update,
        })
    }
}
