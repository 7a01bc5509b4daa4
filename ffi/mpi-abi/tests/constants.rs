//! The tables against each library's own header, as its compiler wrapper sees it.

use ferrorail_mpi_abi::{
    AbiKind, Combiner, Constants, PREDEFINED_DATATYPES, PREDEFINED_OPERATIONS, SUCCESS,
    WindowConstants,
};
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
    numbers(&String::from_utf8(output.stdout).expect("text"))
}

fn numbers(text: &str) -> HashMap<String, i128> {
    text.lines()
        .map(|line| line.split_once(' ').expect("a name and a number"))
        .map(|(name, number)| (name.to_owned(), number.parse().expect("a number")))
        .collect()
}

fn check_topologies(found: &HashMap<String, i128>, constants: &Constants) {
    let names = ["MPI_CART", "MPI_GRAPH", "MPI_DIST_GRAPH"];
    for (name, value) in names.iter().zip(constants.topologies) {
        assert_eq!(found[*name], i128::from(value), "{name}");
    }
}

fn check(kind: AbiKind, found: &HashMap<String, i128>) {
    check_window(kind, found);
    let constants = Constants::of(kind);
    check_topologies(found, constants);
    let errors = &constants.errors;
    let integers = [
        ("MPI_SUCCESS", SUCCESS),
        ("MPI_ANY_SOURCE", constants.any_source),
        ("MPI_PROC_NULL", constants.proc_null),
        ("MPI_UNDEFINED", constants.undefined),
        ("MPI_IDENT", constants.same_ranks[0]),
        ("MPI_CONGRUENT", constants.same_ranks[1]),
        ("MPI_KEYVAL_INVALID", constants.keyval_invalid),
        ("MPI_TAG_UB", constants.tag_ub),
        ("MPI_ORDER_C", constants.order_c),
        ("MPI_DISTRIBUTE_BLOCK", constants.distributions[0]),
        ("MPI_DISTRIBUTE_CYCLIC", constants.distributions[1]),
        ("MPI_DISTRIBUTE_NONE", constants.distributions[2]),
        ("MPI_DISTRIBUTE_DFLT_DARG", constants.default_length),
        ("MPI_ROOT", constants.root),
        ("MPI_THREAD_SERIALIZED", constants.thread_serialized),
        ("MPI_THREAD_MULTIPLE", constants.thread_multiple),
        ("MPI_ERR_BUFFER", errors.buffer),
        ("MPI_ERR_COUNT", errors.count),
        ("MPI_ERR_TYPE", errors.datatype),
        ("MPI_ERR_RANK", errors.rank),
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
        ("MPI_STATUS_IGNORE", constants.status_ignore),
        ("MPI_STATUSES_IGNORE", constants.statuses_ignore),
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
    if kind != AbiKind::OpenMpi {
        check_handles(kind, found);
    }
}

/// Handles that are numbers.
fn check_handles(kind: AbiKind, found: &HashMap<String, i128>) {
    let types = PREDEFINED_DATATYPES.iter();
    let types = types.map(|listed| (listed.name, listed.mpich, listed.standard));
    let operations = PREDEFINED_OPERATIONS.iter();
    let operations = operations.map(|listed| (listed.name, listed.mpich, listed.standard));
    for (name, mpich, standard) in types.chain(operations) {
        let listed = match kind {
            AbiKind::Mpich => mpich,
            _ => standard,
        };
        // Not every header has all types of Fortran, and MPICH's says so of some.
        let value = found.get(name);
        if let Some(&value) = value.filter(|&value| *value != found["MPI_DATATYPE_NULL"]) {
            // MPICH's handles are ints; casts to addresses extend their sign.
            assert_eq!(value as u32, listed, "{kind} {name}");
        }
    }
}

fn check_window(kind: AbiKind, found: &HashMap<String, i128>) {
    let constants = WindowConstants::of(kind);
    let errors = &constants.errors;
    let integers = [
        ("MPI_LOCK_EXCLUSIVE", constants.lock_exclusive),
        ("MPI_LOCK_SHARED", constants.lock_shared),
        ("MPI_MODE_NOCHECK", constants.nocheck),
        ("MPI_MODE_NOSTORE", constants.nostore),
        ("MPI_MODE_NOPUT", constants.noput),
        ("MPI_MODE_NOPRECEDE", constants.noprecede),
        ("MPI_MODE_NOSUCCEED", constants.nosucceed),
        ("MPI_WIN_FLAVOR_CREATE", constants.flavors[0]),
        ("MPI_WIN_FLAVOR_ALLOCATE", constants.flavors[1]),
        ("MPI_WIN_FLAVOR_DYNAMIC", constants.flavors[2]),
        ("MPI_WIN_FLAVOR_SHARED", constants.flavors[3]),
        ("MPI_WIN_UNIFIED", constants.unified),
        ("MPI_WIN_BASE", constants.base),
        ("MPI_WIN_SIZE", constants.size),
        ("MPI_WIN_DISP_UNIT", constants.disp_unit),
        ("MPI_WIN_CREATE_FLAVOR", constants.create_flavor),
        ("MPI_WIN_MODEL", constants.model),
        ("MPI_ERR_GROUP", errors.group),
        ("MPI_ERR_SIZE", errors.size),
        ("MPI_ERR_DISP", errors.disp),
        ("MPI_ERR_LOCKTYPE", errors.locktype),
        ("MPI_ERR_ASSERT", errors.assert),
        ("MPI_ERR_RMA_SYNC", errors.rma_sync),
        ("MPI_ERR_RMA_RANGE", errors.rma_range),
        ("MPI_ERR_RMA_ATTACH", errors.rma_attach),
        ("MPI_ERR_RMA_FLAVOR", errors.rma_flavor),
    ];
    for (name, value) in integers {
        assert_eq!(found[name], i128::from(value), "{kind} {name}");
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
        ("DARRAY", Combiner::Darray),
        ("F90_REAL", Combiner::F90),
        ("F90_COMPLEX", Combiner::F90),
        ("F90_INTEGER", Combiner::F90),
        ("RESIZED", Combiner::Resized),
    ]
}

/// What `tests/constants.c` prints with the header of MPI 5.0, which no later version may change.
const STANDARD: &str = include_str!("standard_abi.txt");

#[test]
fn open_mpi_constants_are_those_of_its_header() {
    check(AbiKind::OpenMpi, &header("mpicc.openmpi"));
}

#[test]
fn mpich_constants_are_those_of_its_header() {
    check(AbiKind::Mpich, &header("mpicc.mpich"));
}

#[test]
fn standard_constants_are_those_of_mpi_5() {
    check(AbiKind::Standard, &numbers(STANDARD));
}

#[test]
#[ignore = "needs FERRORAIL_TEST_MPICC_ABI=/path/to/mpicc_abi"]
fn the_header_of_mpi_5_is_what_it_was() {
    let compiler = std::env::var("FERRORAIL_TEST_MPICC_ABI").expect("FERRORAIL_TEST_MPICC_ABI");
    assert_eq!(header(&compiler), numbers(STANDARD));
}
