//! Which numbers predefined types are.

use ferrorail_mpi_abi::PredefinedHandle;
use ferrorail_reduce::{Group, Number};

/// What kind of number a type is, whatever its size.
enum Kind {
    Signed,
    Unsigned,
    Float,
    Complex,
    FortranLogical,
    /// Value and index.
    Pair(&'static [Number]),
}

/// Group and number of a predefined type of `bytes` bytes of data, if reductions take it and Rust
/// has such a number (MPI 4.1, sections 6.9.2 and 6.9.4).
pub(super) fn number_of(datatype: &PredefinedHandle, bytes: usize) -> Option<(Group, Number)> {
    use Number as N;
    let (group, kind) = kind_of(datatype.name)?;
    let number = match (kind, bytes) {
        (Kind::Signed, 1) => N::I8,
        (Kind::Signed, 2) => N::I16,
        (Kind::Signed, 4) => N::I32,
        (Kind::Signed, 8) => N::I64,
        (Kind::Unsigned, 1) => N::U8,
        (Kind::Unsigned, 2) => N::U16,
        (Kind::Unsigned, 4) => N::U32,
        (Kind::Unsigned, 8) => N::U64,
        (Kind::Float, 4) => N::F32,
        (Kind::Float, 8) => N::F64,
        (Kind::Complex, 8) => N::C32,
        (Kind::Complex, 16) => N::C64,
        (Kind::FortranLogical, 1) => N::L8,
        (Kind::FortranLogical, 2) => N::L16,
        (Kind::FortranLogical, 4) => N::L32,
        (Kind::FortranLogical, 8) => N::L64,
        (Kind::Pair(numbers), _) => *numbers.iter().find(|number| number.bytes() == bytes)?,
        _ => return None,
    };
    Some((group, number))
}

/// Whether a predefined type may be compared and swapped (MPI 4.1, section 12.3.4): integers, logicals,
/// bytes, types of several languages; hosts take characters as well.
pub(super) fn is_comparable(name: &str) -> bool {
    let of_group = |(group, _)| {
        matches!(
            group,
            Group::CInteger
                | Group::FortranInteger
                | Group::MultiLanguage
                | Group::Logical
                | Group::Byte
        )
    };
    matches!(name, "MPI_CHAR" | "MPI_CHARACTER") || kind_of(name).is_some_and(of_group)
}

fn kind_of(name: &str) -> Option<(Group, Kind)> {
    use Number as N;
    Some(match name.strip_prefix("MPI_")? {
        "SIGNED_CHAR" | "SHORT" | "INT" | "LONG" | "LONG_LONG_INT" | "INT8_T" | "INT16_T"
        | "INT32_T" | "INT64_T" => (Group::CInteger, Kind::Signed),
        "UNSIGNED_CHAR" | "UNSIGNED_SHORT" | "UNSIGNED" | "UNSIGNED_LONG"
        | "UNSIGNED_LONG_LONG" | "UINT8_T" | "UINT16_T" | "UINT32_T" | "UINT64_T" => {
            (Group::CInteger, Kind::Unsigned)
        }
        "INTEGER" | "INTEGER1" | "INTEGER2" | "INTEGER4" | "INTEGER8" => {
            (Group::FortranInteger, Kind::Signed)
        }
        "AINT" | "OFFSET" | "COUNT" => (Group::MultiLanguage, Kind::Signed),
        // `long double` may have 8 bytes, and is `double` then.
        "FLOAT" | "DOUBLE" | "LONG_DOUBLE" | "REAL" | "DOUBLE_PRECISION" | "REAL4" | "REAL8" => {
            (Group::Floating, Kind::Float)
        }
        "C_FLOAT_COMPLEX"
        | "C_DOUBLE_COMPLEX"
        | "C_LONG_DOUBLE_COMPLEX"
        | "CXX_FLOAT_COMPLEX"
        | "CXX_DOUBLE_COMPLEX"
        | "COMPLEX"
        | "DOUBLE_COMPLEX"
        | "COMPLEX8"
        | "COMPLEX16" => (Group::Complex, Kind::Complex),
        "LOGICAL" | "LOGICAL1" | "LOGICAL2" | "LOGICAL4" | "LOGICAL8" => {
            (Group::Logical, Kind::FortranLogical)
        }
        "C_BOOL" | "CXX_BOOL" => (Group::Logical, Kind::Unsigned),
        "BYTE" => (Group::Byte, Kind::Unsigned),
        "FLOAT_INT" => (Group::Pair, Kind::Pair(&[N::F32I32])),
        "DOUBLE_INT" => (Group::Pair, Kind::Pair(&[N::F64I32])),
        "LONG_INT" => (Group::Pair, Kind::Pair(&[N::I32I32, N::I64I32])),
        "SHORT_INT" => (Group::Pair, Kind::Pair(&[N::I16I32])),
        "2INT" => (Group::Pair, Kind::Pair(&[N::I32I32])),
        "2INTEGER" => (Group::Pair, Kind::Pair(&[N::I32I32, N::I64I64])),
        "2REAL" | "2DOUBLE_PRECISION" => (Group::Pair, Kind::Pair(&[N::F32F32, N::F64F64])),
        _ => return None,
    })
}
