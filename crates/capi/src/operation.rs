//! What a reduction operation means: ferrorail's own kernels for predefined operations on
//! predefined types, the host's local reduction for all else.

mod number;

use crate::datatype::{self, Elements};
use crate::local_reduction::HostOperation;
use crate::session::Session;
use ferrorail_base::sync::Mutex;
use ferrorail_engine::{Combine, Reducer};
use ferrorail_mpi_abi::{
    Datatype, HandleTable, Op, PREDEFINED_DATATYPES, PREDEFINED_OPERATIONS, PredefinedHandle,
};
use ferrorail_reduce::{Group, Kernel, Number, Operator, kernel};
use number::{is_comparable, number_of};
use std::collections::HashMap;
use std::sync::OnceLock;

/// Largest element that the host is asked about: predefined ones have 32 bytes at most.
const PROBE_BYTES: usize = 256;

/// Predefined operations and the numbers they work on, by handle.
pub struct Operations {
    /// `None` for those that collectives do not take.
    operators: HandleTable<Option<Operator>>,
    numbers: HandleTable<(Group, Number)>,
    /// Bytes of types that can be compared and swapped.
    comparable: HandleTable<usize>,
    /// `MPI_REPLACE` and `MPI_NO_OP`.
    replace: Option<Op>,
    no_op: Option<Op>,
    /// Whether the host applies an operation to a type of which no kernel is known.
    accepted: Mutex<HashMap<(Op, Datatype), bool>>,
}

/// An operation on elements of one type.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    op: Op,
    commutes: Commutes,
    kernel: Option<Kernel>,
}

/// Whether operands may change places: a word, as a byte beside padding is copied in parts, for which processors wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
enum Commutes {
    No,
    Yes,
}

/// What an accumulation does.
#[derive(Clone, Copy, Debug)]
pub enum Accumulation {
    /// `MPI_REPLACE`.
    Replace,
    /// `MPI_NO_OP`.
    Keep,
    /// A reduction.
    Operation(Operation),
}

impl Operations {
    /// Those of the host; found when first needed.
    #[inline]
    pub fn of(session: &Session) -> &'static Self {
        static KNOWN: OnceLock<Operations> = OnceLock::new();
        KNOWN.get_or_init(|| Self::load(session))
    }

    /// Asks the host for its handles and sizes.
    fn load(session: &Session) -> Self {
        let host = session.host();
        let operators: Vec<_> = PREDEFINED_OPERATIONS
            .iter()
            .filter_map(|operation| Some((host.handle_named(operation)?, operator_of(operation))))
            .collect();
        let (mut numbers, mut comparable) = (Vec::new(), Vec::new());
        for predefined in PREDEFINED_DATATYPES {
            let Some(handle) = host.handle_named(predefined) else {
                continue;
            };
            let Some(layout) = datatype::layout(session, Datatype(handle)) else {
                continue;
            };
            if let Some(number) = number_of(predefined, layout.bytes) {
                numbers.push((handle, number));
            }
            if is_comparable(predefined.name) {
                comparable.push((handle, layout.bytes));
            }
        }
        let named = |name: &str| {
            let operation = PREDEFINED_OPERATIONS.iter().find(|op| op.name == name)?;
            host.handle_named(operation).map(Op)
        };
        Self {
            replace: named("MPI_REPLACE"),
            no_op: named("MPI_NO_OP"),
            operators: HandleTable::new(&operators),
            numbers: HandleTable::new(&numbers),
            comparable: HandleTable::new(&comparable),
            accepted: Mutex::default(),
        }
    }

    /// The loop for `operator` on elements of `datatype`, if ferrorail has one.
    #[inline]
    fn kernel(&self, operator: Operator, datatype: Datatype) -> Option<Kernel> {
        let (group, number) = self.numbers.get(datatype.0)?;
        kernel(operator, number).filter(|_| group.permits(operator))
    }

    /// The loop for the predefined operation `op` on the predefined type `datatype`, handles as they came in registers, if
    /// ferrorail has one.
    #[cold]
    pub fn predefined(&self, session: &Session, op: usize, datatype: usize) -> Option<Kernel> {
        let host = session.host();
        let operator = self.operators.get(host.operation(op).0)??;
        self.kernel(operator, host.datatype(datatype))
    }

    /// `op` on `elements`; `None` if the host, too, refuses it.
    #[inline]
    pub fn find(&self, session: &Session, op: Op, elements: &Elements) -> Option<Operation> {
        let Some(operator) = self.operators.get(op.0) else {
            return defined_by_program(session, op);
        };
        match self.kernel(operator?, elements.datatype) {
            Some(kernel) => Some(Operation::of(op, kernel)),
            None => self.computed_by_host(session, op, elements),
        }
    }

    /// Bytes of an element of `datatype`, if that is one for a compare-and-swap.
    #[inline]
    pub fn comparable_bytes(&self, datatype: Datatype) -> Option<usize> {
        self.comparable.get(datatype.0)
    }

    /// What `op` does in an accumulation, if that is no operation.
    #[inline]
    fn moved(&self, op: Op) -> Option<Accumulation> {
        if Some(op) == self.replace {
            return Some(Accumulation::Replace);
        }
        (Some(op) == self.no_op).then_some(Accumulation::Keep)
    }

    /// What `op` does in an accumulation of elements of `datatype`, if ferrorail has a loop for that.
    #[inline]
    pub fn plain(&self, op: Op, datatype: Datatype) -> Option<Accumulation> {
        self.moved(op).or_else(|| {
            let kernel = self.kernel(self.operators.get(op.0)??, datatype)?;
            Some(Accumulation::Operation(Operation::of(op, kernel)))
        })
    }

    /// What `op` does in an accumulation of `elements`, of a predefined type. `None` if it may not
    /// be used there: operations of the program may not.
    pub fn accumulation(
        &self,
        session: &Session,
        op: Op,
        elements: &Elements,
    ) -> Option<Accumulation> {
        if let Some(moved) = self.moved(op) {
            return Some(moved);
        }
        self.operators.get(op.0)?;
        if elements.count == 0 {
            // Hosts do not ask whether it is for the type either.
            return Some(Accumulation::Keep);
        }
        self.find(session, op, elements)
            .map(Accumulation::Operation)
    }

    /// A predefined operation on a type that Rust has no number for (`MPI_LONG_DOUBLE`), or that
    /// only some hosts allow.
    #[cold]
    fn computed_by_host(
        &self,
        session: &Session,
        op: Op,
        elements: &Elements,
    ) -> Option<Operation> {
        let datatype = elements.datatype;
        let known = self.accepted.lock().get(&(op, datatype)).copied();
        let accepted = known.unwrap_or_else(|| {
            let accepted = host_accepts(session, op, datatype);
            // Handles of other types may come to mean something else.
            let envelope = session.host().type_envelope(datatype);
            if envelope.is_ok_and(|envelope| envelope.combiner.is_predefined()) {
                self.accepted.lock().insert((op, datatype), accepted);
            }
            accepted
        });
        accepted.then_some(Operation {
            op,
            commutes: Commutes::Yes,
            kernel: None,
        })
    }
}

/// An operation made by `MPI_Op_create`.
fn defined_by_program(session: &Session, op: Op) -> Option<Operation> {
    let host = session.host();
    if op == host.predefined().op_null || op.0 == 0 {
        return None;
    }
    Some(Operation {
        op,
        commutes: match host.is_commutative(op).ok()? {
            true => Commutes::Yes,
            false => Commutes::No,
        },
        kernel: None,
    })
}

fn host_accepts(session: &Session, op: Op, datatype: Datatype) -> bool {
    let Ok(layout) = session.host().type_layout(datatype) else {
        return false;
    };
    let begin = usize::try_from(layout.true_lower_bound).unwrap_or(usize::MAX);
    let end = begin.saturating_add(usize::try_from(layout.true_extent).unwrap_or(usize::MAX));
    let mut element = [0u128; PROBE_BYTES / size_of::<u128>()];
    // SAFETY: an element of zeros, as long as it says.
    end <= PROBE_BYTES
        && unsafe {
            let element = element.as_mut_ptr().cast();
            session
                .host()
                .accepts(op, datatype, element, session.self_comm)
        }
}

impl Operation {
    /// A predefined one that `kernel` computes.
    #[inline]
    fn of(op: Op, kernel: Kernel) -> Self {
        Self {
            op,
            commutes: Commutes::Yes,
            kernel: Some(kernel),
        }
    }

    /// Whether operands may change places.
    pub fn commutes(&self) -> bool {
        self.commutes == Commutes::Yes
    }

    /// The loop that computes it, if that is one of ferrorail's own.
    pub fn kernel(&self) -> Option<Kernel> {
        self.kernel
    }

    /// Calls `act` with what the engine needs for elements like these. `None` if the host does not
    /// say how they lie.
    #[inline]
    pub fn with_reducer<R>(
        &self,
        session: &Session,
        elements: &Elements,
        act: impl FnOnce(&Reducer<'_>) -> R,
    ) -> Option<R> {
        let host;
        let combine = match self.kernel {
            Some(kernel) => Combine::Kernel(kernel),
            None => {
                host = HostOperation::new(session, self.op, elements)?;
                Combine::Call(&host)
            }
        };
        Some(act(&Reducer {
            element_bytes: elements.layout.bytes,
            commutes: self.commutes(),
            combine,
        }))
    }
}

fn operator_of(operation: &PredefinedHandle) -> Option<Operator> {
    Some(match operation.name {
        "MPI_MAX" => Operator::Max,
        "MPI_MIN" => Operator::Min,
        "MPI_SUM" => Operator::Sum,
        "MPI_PROD" => Operator::Prod,
        "MPI_LAND" => Operator::Land,
        "MPI_BAND" => Operator::Band,
        "MPI_LOR" => Operator::Lor,
        "MPI_BOR" => Operator::Bor,
        "MPI_LXOR" => Operator::Lxor,
        "MPI_BXOR" => Operator::Bxor,
        "MPI_MAXLOC" => Operator::Maxloc,
        "MPI_MINLOC" => Operator::Minloc,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_predefined_operation_is_known() {
        for operation in PREDEFINED_OPERATIONS {
            let is_for_collectives = !["MPI_REPLACE", "MPI_NO_OP"].contains(&operation.name);
            assert_eq!(operator_of(operation).is_some(), is_for_collectives);
        }
    }

    #[test]
    fn numbers_have_the_bytes_of_their_types() {
        let mut known = 0;
        for datatype in PREDEFINED_DATATYPES {
            for bytes in 1..=32 {
                if let Some((group, number)) = number_of(datatype, bytes) {
                    assert_eq!(number.bytes(), bytes, "{}", datatype.name);
                    let allowed = Operator::ALL.into_iter().filter(|&op| group.permits(op));
                    for operator in allowed {
                        assert!(kernel(operator, number).is_some(), "{}", datatype.name);
                    }
                    known += 1;
                }
            }
        }
        assert!(known > 100, "{known}");
        let named = |name| {
            PREDEFINED_DATATYPES
                .iter()
                .find(|d| d.name == name)
                .unwrap()
        };
        assert_eq!(number_of(named("MPI_LONG_DOUBLE"), 16), None);
        assert_eq!(number_of(named("MPI_PACKED"), 1), None);
        assert_eq!(number_of(named("MPI_CHAR"), 1), None, "not for arithmetic");
        let double_int = Some((Group::Pair, Number::F64I32));
        assert_eq!(number_of(named("MPI_DOUBLE_INT"), 12), double_int);
    }
}
