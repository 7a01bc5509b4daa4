//! The tables against each library's own header, as its compiler wrapper sees it.

use ferrorail_mpi_abi::{AbiKind, Combiner, Constants, PREDEFINED_DATATYPES};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// What `tests/constants.c` prints when compiled with `compiler`.
fn header(compiler: &str) -> HashMap<String, i128> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/constants.c");
    let name = format!(
        "constants-{}-{}",
        std::process::id(),
        compiler.replace('/', "-")
    );
    let program = std::env::temp_dir().join(name);
    let status = Command::new(compiler)
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .status();
    let status = status.unwrap_or_else(|error| panic!("{compiler} must be installed: {error}"));
    assert!(status.success(), "{compiler} failed");
    let output = Command::new(&program).output().expect("the program runs");
    std::fs::remove_file(&program).expect("the program is there");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .map(|line| line.split_once(' ').expect("a name and a number"))
        .map(|(name, number)| (name.to_owned(), number.parse().expect("a number")))
        .collect()
}

fn check(kind: AbiKind, compiler: &str) {
    let found = header(compiler);
    let constants = Constants::of(kind);
    let errors = &constants.errors;
    let integers = [
        ("MPI_SUCCESS", constants.success),
        ("MPI_ANY_SOURCE", constants.any_source),
        ("MPI_ANY_TAG", constants.any_tag),
        ("MPI_PROC_NULL", constants.proc_null),
        ("MPI_UNDEFINED", constants.undefined),
        ("MPI_KEYVAL_INVALID", constants.keyval_invalid),
        ("MPI_TAG_UB", constants.tag_ub),
        ("MPI_COMM_TYPE_SHARED", constants.comm_type_shared),
        ("MPI_ORDER_C", constants.order_c),
        ("MPI_THREAD_SINGLE", constants.thread_levels[0]),
        ("MPI_THREAD_FUNNELED", constants.thread_levels[1]),
        ("MPI_THREAD_SERIALIZED", constants.thread_levels[2]),
        ("MPI_THREAD_MULTIPLE", constants.thread_levels[3]),
        ("MPI_ERR_BUFFER", errors.buffer),
        ("MPI_ERR_COUNT", errors.count),
        ("MPI_ERR_TYPE", errors.datatype),
        ("MPI_ERR_TAG", errors.tag),
        ("MPI_ERR_COMM", errors.comm),
        ("MPI_ERR_RANK", errors.rank),
        ("MPI_ERR_REQUEST", errors.request),
        ("MPI_ERR_ROOT", errors.root),
        ("MPI_ERR_OP", errors.op),
        ("MPI_ERR_ARG", errors.arg),
        ("MPI_ERR_UNKNOWN", errors.unknown),
        ("MPI_ERR_TRUNCATE", errors.truncate),
        ("MPI_ERR_OTHER", errors.other),
        ("MPI_ERR_INTERN", errors.intern),
        ("MPI_ERR_NO_MEM", errors.no_mem),
    ];
    let addresses = [
        ("MPI_IN_PLACE", constants.in_place),
        ("MPI_BOTTOM", constants.bottom),
        ("MPI_STATUS_IGNORE", constants.status_ignore),
        ("MPI_STATUSES_IGNORE", constants.statuses_ignore),
        ("status_bytes", constants.status.bytes),
        ("status_source", constants.status.source),
        ("status_tag", constants.status.tag),
        ("status_error", constants.status.error),
        ("handle_bytes", kind.handle_bytes()),
    ];
    for (name, value) in integers {
        assert_eq!(found[name], i128::from(value), "{kind} {name}");
    }
    for (name, combiner) in combiners() {
        let value = found[&format!("MPI_COMBINER_{name}")];
        assert_eq!(Combiner::of(kind, value as i32), combiner, "{kind} {name}");
    }
    for (name, value) in addresses {
        assert_eq!(found[name], value as i128, "{kind} {name}");
    }
    for datatype in PREDEFINED_DATATYPES {
        let listed = match kind {
            AbiKind::OpenMpi => continue,
            AbiKind::Mpich => datatype.mpich,
            AbiKind::Standard => datatype.standard,
        };
        if let Some(&value) = found.get(datatype.name) {
            // MPICH's handles are ints; casts to addresses extend their sign.
            assert_eq!(value as u32, listed, "{kind} {}", datatype.name);
        }
    }
}

fn combiners() -> [(&'static str, Combiner); 16] {
    [
        ("NAMED", Combiner::Named),
        ("DUP", Combiner::Dup),
        ("CONTIGUOUS", Combiner::Contiguous),
        ("VECTOR", Combiner::Vector),
        ("HVECTOR", Combiner::Hvector),
        ("INDEXED", Combiner::Indexed),
        ("HINDEXED", Combiner::Hindexed),
        ("INDEXED_BLOCK", Combiner::IndexedBlock),
        ("HINDEXED_BLOCK", Combiner::HindexedBlock),
        ("STRUCT", Combiner::Struct),
        ("SUBARRAY", Combiner::Subarray),
        ("DARRAY", Combiner::Other),
        ("F90_REAL", Combiner::F90),
        ("F90_COMPLEX", Combiner::F90),
        ("F90_INTEGER", Combiner::F90),
        ("RESIZED", Combiner::Resized),
    ]
}

#[test]
fn open_mpi_constants_are_those_of_its_header() {
    check(AbiKind::OpenMpi, "mpicc.openmpi");
}

#[test]
fn mpich_constants_are_those_of_its_header() {
    check(AbiKind::Mpich, "mpicc.mpich");
}

#[test]
#[ignore = "needs FERRORAIL_TEST_MPICC_ABI=/path/to/mpicc_abi"]
fn standard_constants_are_those_of_its_header() {
    let compiler = std::env::var("FERRORAIL_TEST_MPICC_ABI").expect("FERRORAIL_TEST_MPICC_ABI");
    check(AbiKind::Standard, &compiler);
}
