//! Predefined datatypes: their handles in each interface, and their bytes without a library call.

use crate::handle::predefined_handles;
use crate::{AbiKind, Datatype, HandleTable, Host};
use libc::{c_int, c_long, c_longlong, c_short};

predefined_handles! {
    /// The predefined datatypes of MPI 4.1 (section 3.2.2, 5.1.5) except `MPI_DATATYPE_NULL`.
    PREDEFINED_DATATYPES:
    "MPI_AINT", "ompi_mpi_aint", 0x4c00_0843, 0x201;
    "MPI_COUNT", "ompi_mpi_count", 0x4c00_0845, 0x202;
    "MPI_OFFSET", "ompi_mpi_offset", 0x4c00_0844, 0x203;
    "MPI_PACKED", "ompi_mpi_packed", 0x4c00_010f, 0x207;
    "MPI_SHORT", "ompi_mpi_short", 0x4c00_0203, 0x208;
    "MPI_INT", "ompi_mpi_int", 0x4c00_0405, 0x209;
    "MPI_LONG", "ompi_mpi_long", 0x4c00_0807, 0x20a;
    "MPI_UNSIGNED_SHORT", "ompi_mpi_unsigned_short", 0x4c00_0204, 0x20c;
    "MPI_UNSIGNED", "ompi_mpi_unsigned", 0x4c00_0406, 0x20d;
    "MPI_UNSIGNED_LONG", "ompi_mpi_unsigned_long", 0x4c00_0808, 0x20e;
    "MPI_UNSIGNED_LONG_LONG", "ompi_mpi_unsigned_long_long", 0x4c00_0819, 0x20f;
    "MPI_FLOAT", "ompi_mpi_float", 0x4c00_040a, 0x210;
    "MPI_C_FLOAT_COMPLEX", "ompi_mpi_c_float_complex", 0x4c00_0840, 0x212;
    "MPI_CXX_FLOAT_COMPLEX", "ompi_mpi_cxx_cplex", 0x4c00_0834, 0x213;
    "MPI_DOUBLE", "ompi_mpi_double", 0x4c00_080b, 0x214;
    "MPI_C_DOUBLE_COMPLEX", "ompi_mpi_c_double_complex", 0x4c00_1041, 0x216;
    "MPI_CXX_DOUBLE_COMPLEX", "ompi_mpi_cxx_dblcplex", 0x4c00_1035, 0x217;
    "MPI_LOGICAL", "ompi_mpi_logical", 0x4c00_041d, 0x218;
    "MPI_INTEGER", "ompi_mpi_integer", 0x4c00_041b, 0x219;
    "MPI_REAL", "ompi_mpi_real", 0x4c00_041c, 0x21a;
    "MPI_COMPLEX", "ompi_mpi_cplex", 0x4c00_081e, 0x21b;
    "MPI_DOUBLE_PRECISION", "ompi_mpi_dblprec", 0x4c00_081f, 0x21c;
    "MPI_DOUBLE_COMPLEX", "ompi_mpi_dblcplex", 0x4c00_1022, 0x21d;
    "MPI_CHARACTER", "ompi_mpi_character", 0x4c00_011a, 0x21e;
    "MPI_LONG_DOUBLE", "ompi_mpi_long_double", 0x4c00_100c, 0x220;
    "MPI_C_LONG_DOUBLE_COMPLEX", "ompi_mpi_c_long_double_complex", 0x4c00_2042, 0x224;
    "MPI_CXX_LONG_DOUBLE_COMPLEX", "ompi_mpi_cxx_ldblcplex", 0x4c00_2036, 0x225;
    "MPI_FLOAT_INT", "ompi_mpi_float_int", 0x8c00_0000, 0x228;
    "MPI_DOUBLE_INT", "ompi_mpi_double_int", 0x8c00_0001, 0x229;
    "MPI_LONG_INT", "ompi_mpi_long_int", 0x8c00_0002, 0x22a;
    "MPI_2INT", "ompi_mpi_2int", 0x4c00_0816, 0x22b;
    "MPI_SHORT_INT", "ompi_mpi_short_int", 0x8c00_0003, 0x22c;
    "MPI_LONG_DOUBLE_INT", "ompi_mpi_longdbl_int", 0x8c00_0004, 0x22d;
    "MPI_2REAL", "ompi_mpi_2real", 0x4c00_0821, 0x230;
    "MPI_2DOUBLE_PRECISION", "ompi_mpi_2dblprec", 0x4c00_1023, 0x231;
    "MPI_2INTEGER", "ompi_mpi_2integer", 0x4c00_0820, 0x232;
    "MPI_C_BOOL", "ompi_mpi_c_bool", 0x4c00_013f, 0x238;
    "MPI_CXX_BOOL", "ompi_mpi_cxx_bool", 0x4c00_0133, 0x239;
    "MPI_WCHAR", "ompi_mpi_wchar", 0x4c00_040e, 0x23c;
    "MPI_INT8_T", "ompi_mpi_int8_t", 0x4c00_0137, 0x240;
    "MPI_UINT8_T", "ompi_mpi_uint8_t", 0x4c00_013b, 0x241;
    "MPI_CHAR", "ompi_mpi_char", 0x4c00_0101, 0x243;
    "MPI_SIGNED_CHAR", "ompi_mpi_signed_char", 0x4c00_0118, 0x244;
    "MPI_UNSIGNED_CHAR", "ompi_mpi_unsigned_char", 0x4c00_0102, 0x245;
    "MPI_BYTE", "ompi_mpi_byte", 0x4c00_010d, 0x247;
    "MPI_INT16_T", "ompi_mpi_int16_t", 0x4c00_0238, 0x248;
    "MPI_UINT16_T", "ompi_mpi_uint16_t", 0x4c00_023c, 0x249;
    "MPI_INT32_T", "ompi_mpi_int32_t", 0x4c00_0439, 0x250;
    "MPI_UINT32_T", "ompi_mpi_uint32_t", 0x4c00_043d, 0x251;
    "MPI_INT64_T", "ompi_mpi_int64_t", 0x4c00_083a, 0x258;
    "MPI_UINT64_T", "ompi_mpi_uint64_t", 0x4c00_083e, 0x259;
    "MPI_LOGICAL1", "ompi_mpi_logical1", 0x4c00_0147, 0x2c0;
    "MPI_INTEGER1", "ompi_mpi_integer1", 0x4c00_012d, 0x2c1;
    "MPI_LOGICAL2", "ompi_mpi_logical2", 0x4c00_0248, 0x2c8;
    "MPI_INTEGER2", "ompi_mpi_integer2", 0x4c00_022f, 0x2c9;
    "MPI_REAL2", "", 0x4c00_0226, 0x2ca;
    "MPI_LOGICAL4", "ompi_mpi_logical4", 0x4c00_0449, 0x2d0;
    "MPI_INTEGER4", "ompi_mpi_integer4", 0x4c00_0430, 0x2d1;
    "MPI_REAL4", "ompi_mpi_real4", 0x4c00_0427, 0x2d2;
    "MPI_COMPLEX4", "", 0x4c00_042e, 0x2d3;
    "MPI_LOGICAL8", "ompi_mpi_logical8", 0x4c00_084a, 0x2d8;
    "MPI_INTEGER8", "ompi_mpi_integer8", 0x4c00_0831, 0x2d9;
    "MPI_REAL8", "ompi_mpi_real8", 0x4c00_0829, 0x2da;
    "MPI_COMPLEX8", "ompi_mpi_complex8", 0x4c00_0828, 0x2db;
    "MPI_LOGICAL16", "", 0x4c00_104b, 0x2e0;
    "MPI_INTEGER16", "ompi_mpi_integer16", 0x4c00_1032, 0x2e1;
    "MPI_REAL16", "ompi_mpi_real16", 0x4c00_102b, 0x2e2;
    "MPI_COMPLEX16", "ompi_mpi_complex16", 0x4c00_102a, 0x2e3;
    "MPI_COMPLEX32", "ompi_mpi_complex32", 0x4c00_202c, 0x2eb;
    "MPI_LONG_LONG_INT", "ompi_mpi_long_long_int", 0x4c00_0809, 0x20b;
    "MPI_2COMPLEX", "ompi_mpi_2cplex", 0, 0;
    "MPI_2DOUBLE_COMPLEX", "ompi_mpi_2dblcplex", 0, 0;
}

/// Values of a handle's lowest byte.
const BYTES: usize = 256;

/// Bytes of those predefined datatypes whose elements lie one after another without gaps.
///
/// Lookup takes a few instructions; what is not found needs [`Host::type_layout`].
#[derive(Debug)]
pub enum DatatypeTable {
    /// Handles are addresses.
    OpenMpi(HandleTable<u32>),
    /// The handle holds the size.
    Mpich,
    /// Indexed by the handle's lowest byte; all handles are below 0x300.
    Standard(Box<[u8; BYTES]>),
}

impl DatatypeTable {
    /// Reads the sizes out of an initialised `host`.
    pub fn load(host: &Host) -> Self {
        match host.kind() {
            AbiKind::Mpich => Self::Mpich,
            AbiKind::Standard => Self::Standard(Box::new(standard_sizes())),
            AbiKind::OpenMpi => {
                let dense = PREDEFINED_DATATYPES.iter().filter_map(|datatype| {
                    let handle = host.handle_named(datatype)?;
                    let layout = host.type_layout(Datatype(handle)).ok()?;
                    let bytes = u32::try_from(layout.bytes).ok()?;
                    (layout.is_dense() && layout.true_lower_bound == 0 && bytes > 0)
                        .then_some((handle, bytes))
                });
                Self::OpenMpi(HandleTable::new(&dense.collect::<Vec<_>>()))
            }
        }
    }

    /// Bytes of one element of a predefined datatype without gaps; `None` for any other.
    #[inline(always)]
    pub fn dense_bytes(&self, datatype: Datatype) -> Option<usize> {
        match self {
            Self::Mpich => mpich_bytes(datatype.0),
            Self::Standard(sizes) => {
                let bytes = *sizes.get(datatype.0.wrapping_sub(0x200))?;
                (bytes != 0).then_some(bytes as usize)
            }
            Self::OpenMpi(table) => table.get(datatype.0).map(|bytes| bytes as usize),
        }
    }
}

/// `MPIR_Datatype_get_basic_size`, `src/include/mpir_datatype.h` of MPICH.
#[inline]
fn mpich_bytes(handle: usize) -> Option<usize> {
    if handle & 0xffff_0000 != 0x4c00_0000 {
        return None;
    }
    let bytes = handle >> 8 & 0xff;
    (bytes != 0).then_some(bytes)
}

/// Sizes by the lowest byte of an MPI-5 handle. The C compiler's own types have the sizes it gives
/// them; sized types have theirs in the handle (MPI 5.0, section 20.3). Fortran's default types
/// and `long double` are left to the library.
fn standard_sizes() -> [u8; BYTES] {
    let of_compiler = [
        ("MPI_AINT", size_of::<isize>()),
        ("MPI_COUNT", 8),
        ("MPI_OFFSET", 8),
        ("MPI_PACKED", 1),
        ("MPI_SHORT", size_of::<c_short>()),
        ("MPI_INT", size_of::<c_int>()),
        ("MPI_LONG", size_of::<c_long>()),
        ("MPI_LONG_LONG_INT", size_of::<c_longlong>()),
        ("MPI_UNSIGNED_SHORT", size_of::<c_short>()),
        ("MPI_UNSIGNED", size_of::<c_int>()),
        ("MPI_UNSIGNED_LONG", size_of::<c_long>()),
        ("MPI_UNSIGNED_LONG_LONG", size_of::<c_longlong>()),
        ("MPI_FLOAT", 4),
        ("MPI_C_FLOAT_COMPLEX", 8),
        ("MPI_CXX_FLOAT_COMPLEX", 8),
        ("MPI_DOUBLE", 8),
        ("MPI_C_DOUBLE_COMPLEX", 16),
        ("MPI_CXX_DOUBLE_COMPLEX", 16),
        ("MPI_FLOAT_INT", 8),
        ("MPI_2INT", 8),
        ("MPI_C_BOOL", 1),
        ("MPI_CXX_BOOL", 1),
        ("MPI_WCHAR", size_of::<libc::wchar_t>()),
    ];
    let mut sizes = [0; BYTES];
    for datatype in PREDEFINED_DATATYPES
        .iter()
        .filter(|datatype| datatype.standard != 0)
    {
        let handle = datatype.standard as usize;
        let listed = of_compiler.iter().find(|(name, _)| *name == datatype.name);
        sizes[handle & 0xff] = match (handle, listed) {
            (_, Some(&(_, bytes))) => bytes as u8,
            (0x240..=0x27f | 0x2c0..=0x2ff, None) => 1 << (handle >> 3 & 7),
            _ => 0,
        };
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpich_sizes_are_in_the_handle() {
        let table = DatatypeTable::Mpich;
        let bytes = |handle| table.dense_bytes(Datatype(handle));
        assert_eq!(bytes(0x4c00_0405), Some(4), "MPI_INT");
        assert_eq!(bytes(0x4c00_1023), Some(16), "MPI_2DOUBLE_PRECISION");
        assert_eq!(bytes(0x0c00_0000), None, "MPI_DATATYPE_NULL");
        assert_eq!(bytes(0x8c00_0001), None, "MPI_DOUBLE_INT has a gap");
        assert_eq!(bytes(0x4c00_0010), None, "MPI_LB");
        assert_eq!(bytes(0xcc00_0405), None, "a derived datatype");
        assert_eq!(bytes(0x4400_0000), None, "MPI_COMM_WORLD");
    }

    #[test]
    fn standard_sizes_are_listed_or_in_the_handle() {
        let table = DatatypeTable::Standard(Box::new(standard_sizes()));
        let bytes = |handle| table.dense_bytes(Datatype(handle));
        assert_eq!(bytes(0x209), Some(4), "MPI_INT");
        assert_eq!(bytes(0x20a), Some(size_of::<c_long>()), "MPI_LONG");
        assert_eq!(bytes(0x2e3), Some(16), "MPI_COMPLEX16");
        assert_eq!(bytes(0x247), Some(1), "MPI_BYTE");
        assert_eq!(bytes(0x200), None, "MPI_DATATYPE_NULL");
        assert_eq!(bytes(0x219), None, "MPI_INTEGER is the library's choice");
        assert_eq!(bytes(0x229), None, "MPI_DOUBLE_INT has a gap");
        for handle in [0, 1, 0x101, 0x300, 0x0055_5555_5555_5020] {
            assert_eq!(bytes(handle), None);
        }
    }

    #[test]
    fn handles_are_unique() {
        for (i, a) in PREDEFINED_DATATYPES.iter().enumerate() {
            for b in &PREDEFINED_DATATYPES[..i] {
                assert_ne!(a.name, b.name);
                assert!(a.mpich == 0 || a.mpich != b.mpich, "{} {}", a.name, b.name);
                assert!(
                    a.standard == 0 || a.standard != b.standard,
                    "{} {}",
                    a.name,
                    b.name
                );
            }
        }
    }
}
