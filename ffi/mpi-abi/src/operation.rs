//! Predefined reduction operations: their handles in each interface; and tables by handle.

use crate::{AbiKind, Host, Op};

/// One predefined operation in every interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredefinedOperation {
    /// The standard's name.
    pub name: &'static str,
    /// Open MPI's object.
    pub open_mpi: &'static str,
    /// MPICH's handle.
    pub mpich: u32,
    /// MPI-5 handle.
    pub standard: u32,
}

macro_rules! operations {
    ($($name:literal, $open_mpi:literal, $mpich:literal, $standard:literal;)*) => {
        /// The predefined operations of MPI 4.1 (sections 6.9.2 and 6.9.4) that collectives take.
        pub const PREDEFINED_OPERATIONS: &[PredefinedOperation] = &[$(PredefinedOperation {
            name: $name,
            open_mpi: $open_mpi,
            mpich: $mpich,
            standard: $standard,
        }),*];
    };
}

operations! {
    "MPI_MAX", "ompi_mpi_op_max", 0x5800_0001, 0x23;
    "MPI_MIN", "ompi_mpi_op_min", 0x5800_0002, 0x22;
    "MPI_SUM", "ompi_mpi_op_sum", 0x5800_0003, 0x21;
    "MPI_PROD", "ompi_mpi_op_prod", 0x5800_0004, 0x24;
    "MPI_LAND", "ompi_mpi_op_land", 0x5800_0005, 0x30;
    "MPI_BAND", "ompi_mpi_op_band", 0x5800_0006, 0x28;
    "MPI_LOR", "ompi_mpi_op_lor", 0x5800_0007, 0x31;
    "MPI_BOR", "ompi_mpi_op_bor", 0x5800_0008, 0x29;
    "MPI_LXOR", "ompi_mpi_op_lxor", 0x5800_0009, 0x32;
    "MPI_BXOR", "ompi_mpi_op_bxor", 0x5800_000a, 0x2a;
    "MPI_MINLOC", "ompi_mpi_op_minloc", 0x5800_000b, 0x38;
    "MPI_MAXLOC", "ompi_mpi_op_maxloc", 0x5800_000c, 0x39;
    "MPI_REPLACE", "ompi_mpi_op_replace", 0x5800_000d, 0x3c;
    "MPI_NO_OP", "ompi_mpi_op_no_op", 0x5800_000e, 0x3d;
}

impl PredefinedOperation {
    /// Whether collectives take it: the others are for accumulation in windows.
    pub fn is_for_collectives(&self) -> bool {
        !matches!(self.name, "MPI_REPLACE" | "MPI_NO_OP")
    }
}

impl Host {
    /// An operation handle as a C program passed it in a register.
    #[inline]
    pub fn operation(&self, register: usize) -> Op {
        Op(register & self.kind().handle_mask())
    }

    /// This library's handle of a predefined operation.
    pub fn operation_named(&self, operation: &PredefinedOperation) -> Option<Op> {
        match self.kind() {
            AbiKind::OpenMpi => self.data(operation.open_mpi).map(Op),
            AbiKind::Mpich => Some(Op(operation.mpich as usize)),
            AbiKind::Standard => Some(Op(operation.standard as usize)),
        }
    }
}

/// Facts by handle, looked up in a few instructions: a hash table with linear probing.
#[derive(Clone, Debug)]
pub struct HandleTable<V> {
    /// A power of two of slots, of which at least half are free.
    slots: Box<[Option<(usize, V)>]>,
    shift: u32,
}

impl<V: Copy> HandleTable<V> {
    /// A table of `entries`. Of several with one handle, the last counts.
    pub fn new(entries: &[(usize, V)]) -> Self {
        let slots = (2 * entries.len()).next_power_of_two().max(2);
        let mut table = Self {
            slots: vec![None; slots].into_boxed_slice(),
            shift: u64::BITS - slots.ilog2(),
        };
        for &(handle, value) in entries {
            let slot = table.place(handle);
            table.slots[slot] = Some((handle, value));
        }
        table
    }

    /// The fact on `handle`.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<V> {
        self.slots[self.place(handle)].map(|(_, value)| value)
    }

    /// The slot where `handle` is, or would be.
    #[inline]
    fn place(&self, handle: usize) -> usize {
        let hash = (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = (hash >> self.shift) as usize;
        while self.slots[slot].is_some_and(|(other, _)| other != handle) {
            slot = (slot + 1) % self.slots.len();
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_unique() {
        for (i, a) in PREDEFINED_OPERATIONS.iter().enumerate() {
            for b in &PREDEFINED_OPERATIONS[..i] {
                assert_ne!(a.name, b.name);
                assert_ne!(a.open_mpi, b.open_mpi);
                assert_ne!(a.mpich, b.mpich);
                assert_ne!(a.standard, b.standard);
            }
        }
    }

    #[test]
    fn tables_find_all_and_only_their_own() {
        for count in [0, 1, 2, 3, 14, 80] {
            let handle = |i: usize| 0x7f00_1234_0000 + 320 * i;
            let entries: Vec<(usize, usize)> = (0..count).map(|i| (handle(i), i)).collect();
            let table = HandleTable::new(&entries);
            for i in 0..count {
                assert_eq!(table.get(handle(i)), Some(i));
                assert_eq!(table.get(handle(i) + 8), None);
            }
            assert_eq!(table.get(0), None);
        }
    }

    #[test]
    fn the_last_entry_of_a_handle_counts() {
        let table = HandleTable::new(&[(5, 'a'), (6, 'b'), (5, 'c')]);
        assert_eq!((table.get(5), table.get(6)), (Some('c'), Some('b')));
    }
}
