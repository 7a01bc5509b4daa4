//! Handles as the host's own values, and the predefined ones that every interface spells otherwise.

use crate::AbiKind;
use crate::library::Library;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// The value is the host's; making one up is as wrong as it is in C.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(pub usize);
    )*};
}

handles! {
    /// `MPI_Comm`.
    Comm;
    /// `MPI_Datatype`.
    Datatype;
    /// `MPI_Info`.
    Info;
    /// `MPI_Op`.
    Op;
    /// `MPI_Request`.
    Request;
    /// `MPI_Win`.
    Win;
    /// `MPI_Group`.
    Group;
}

/// A predefined handle in every interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredefinedHandle {
    /// The standard's name.
    pub name: &'static str,
    /// Open MPI's object; empty where it has none.
    pub open_mpi: &'static str,
    /// MPICH's handle; 0 where it has none.
    pub mpich: u32,
    /// MPI-5 handle; 0 where it has none.
    pub standard: u32,
}

impl PredefinedHandle {
    /// Its value in a `library` of this `kind`.
    pub(crate) fn value(&self, kind: AbiKind, library: &Library) -> Option<usize> {
        let listed = |handle: u32| (handle != 0).then_some(handle as usize);
        match kind {
            AbiKind::OpenMpi if self.open_mpi.is_empty() => None,
            AbiKind::OpenMpi => library.data(self.open_mpi).map(|a| a.as_ptr() as usize),
            AbiKind::Mpich => listed(self.mpich),
            AbiKind::Standard => listed(self.standard),
        }
    }
}

/// Defines a table of predefined handles: the standard's name, Open MPI's object, MPICH's and MPI-5 handle.
macro_rules! predefined_handles {
    ($(#[$doc:meta])* $table:ident: $($name:literal, $open_mpi:literal, $mpich:literal, $standard:literal;)*) => {
        $(#[$doc])*
        pub const $table: &[$crate::PredefinedHandle] = &[$($crate::PredefinedHandle {
            name: $name,
            open_mpi: $open_mpi,
            mpich: $mpich,
            standard: $standard,
        }),*];
    };
}
pub(crate) use predefined_handles;

/// Predefined handles, as values of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct Predefined {
    pub comm_null: Comm,
    pub comm_world: Comm,
    pub comm_self: Comm,
    pub datatype_null: Datatype,
    pub byte: Datatype,
    pub int: Datatype,
    pub uint64: Datatype,
    pub op_null: Op,
    pub op_min: Op,
    pub op_sum: Op,
    pub info_null: Info,
    pub group_null: Group,
    pub request_null: Request,
    pub win_null: Win,
    /// `MPI_ERRORS_RETURN`.
    pub errors_return: usize,
}

impl Predefined {
    /// Those of `kind`.
    ///
    /// # Errors
    /// The name of an Open MPI object that `library` lacks.
    pub(crate) fn load(kind: AbiKind, library: &Library) -> Result<Self, &'static str> {
        let value = |open_mpi: &'static str, mpich, standard| {
            let handle = PredefinedHandle {
                name: open_mpi,
                open_mpi,
                mpich,
                standard,
            };
            handle.value(kind, library).ok_or(open_mpi)
        };
        Ok(Self {
            comm_null: Comm(value("ompi_mpi_comm_null", 0x0400_0000, 0x100)?),
            comm_world: Comm(value("ompi_mpi_comm_world", 0x4400_0000, 0x101)?),
            comm_self: Comm(value("ompi_mpi_comm_self", 0x4400_0001, 0x102)?),
            datatype_null: Datatype(value("ompi_mpi_datatype_null", 0x0c00_0000, 0x200)?),
            byte: Datatype(value("ompi_mpi_byte", 0x4c00_010d, 0x247)?),
            int: Datatype(value("ompi_mpi_int", 0x4c00_0405, 0x209)?),
            uint64: Datatype(value("ompi_mpi_uint64_t", 0x4c00_083e, 0x259)?),
            op_null: Op(value("ompi_mpi_op_null", 0x1800_0000, 0x20)?),
            op_min: Op(value("ompi_mpi_op_min", 0x5800_0002, 0x22)?),
            op_sum: Op(value("ompi_mpi_op_sum", 0x5800_0003, 0x21)?),
            info_null: Info(value("ompi_mpi_info_null", 0x1c00_0000, 0x130)?),
            group_null: Group(value("ompi_mpi_group_null", 0x0800_0000, 0x108)?),
            request_null: Request(value("ompi_request_null", 0x2c00_0000, 0x180)?),
            win_null: Win(value("ompi_mpi_win_null", 0x2000_0000, 0x110)?),
            errors_return: value("ompi_mpi_errors_return", 0x5400_0001, 0x143)?,
        })
    }
}
