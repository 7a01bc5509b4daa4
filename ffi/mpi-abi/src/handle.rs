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

/// Predefined handles, as values of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct Predefined {
    pub comm_null: Comm,
    pub comm_world: Comm,
    pub comm_self: Comm,
    pub datatype_null: Datatype,
    pub byte: Datatype,
    pub packed: Datatype,
    pub int: Datatype,
    pub double: Datatype,
    pub uint64: Datatype,
    pub op_null: Op,
    pub op_min: Op,
    pub op_max: Op,
    pub op_sum: Op,
    pub info_null: Info,
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
        // Open MPI's object, MPICH's value, MPI-5 value.
        let value = |object: &'static str, mpich: usize, standard: usize| match kind {
            AbiKind::OpenMpi => library
                .data(object)
                .map(|a| a.as_ptr() as usize)
                .ok_or(object),
            AbiKind::Mpich => Ok(mpich),
            AbiKind::Standard => Ok(standard),
        };
        Ok(Self {
            comm_null: Comm(value("ompi_mpi_comm_null", 0x0400_0000, 0x100)?),
            comm_world: Comm(value("ompi_mpi_comm_world", 0x4400_0000, 0x101)?),
            comm_self: Comm(value("ompi_mpi_comm_self", 0x4400_0001, 0x102)?),
            datatype_null: Datatype(value("ompi_mpi_datatype_null", 0x0c00_0000, 0x200)?),
            byte: Datatype(value("ompi_mpi_byte", 0x4c00_010d, 0x247)?),
            packed: Datatype(value("ompi_mpi_packed", 0x4c00_010f, 0x207)?),
            int: Datatype(value("ompi_mpi_int", 0x4c00_0405, 0x209)?),
            double: Datatype(value("ompi_mpi_double", 0x4c00_080b, 0x214)?),
            uint64: Datatype(value("ompi_mpi_uint64_t", 0x4c00_083e, 0x259)?),
            op_null: Op(value("ompi_mpi_op_null", 0x1800_0000, 0x20)?),
            op_min: Op(value("ompi_mpi_op_min", 0x5800_0002, 0x22)?),
            op_max: Op(value("ompi_mpi_op_max", 0x5800_0001, 0x23)?),
            op_sum: Op(value("ompi_mpi_op_sum", 0x5800_0003, 0x21)?),
            info_null: Info(value("ompi_mpi_info_null", 0x1c00_0000, 0x130)?),
            request_null: Request(value("ompi_request_null", 0x2c00_0000, 0x180)?),
            win_null: Win(value("ompi_mpi_win_null", 0x2000_0000, 0x110)?),
            errors_return: value("ompi_mpi_errors_return", 0x5400_0001, 0x143)?,
        })
    }
}
