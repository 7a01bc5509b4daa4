//! A single-rank MPI job inside the test process.

use ferrorail_mpi_abi::{
    AbiKind, Combiner, Datatype, DatatypeTable, Host, PREDEFINED_DATATYPES, RequestList,
};
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

static DELETED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn on_delete(
    _handle: usize,
    _key: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    DELETED.fetch_add(value as usize, Ordering::Relaxed);
    0
}

/// Opens `file`, runs every wrapper on one rank and finalises.
pub fn exercise(file: &str, kind: AbiKind, name: &str) {
    let host = Host::open(Path::new(file)).expect("the library opens");
    assert_eq!(host.kind(), kind);
    assert!(host.version().contains(name), "{}", host.version());
    assert!(
        host.short_version().contains('.'),
        "{}",
        host.short_version()
    );
    assert!(host.path().is_some_and(|path| path.contains(".so")));
    assert!(!host.is_active());
    host.init().expect("MPI_Init_thread");
    assert!(host.is_active());
    communicators(&host);
    datatypes(&host);
    messages(&host);
    let earlier = host.wtime();
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert!(host.wtime() - earlier >= 0.002);
    host.finalize().expect("MPI_Finalize");
    assert!(!host.is_active());
}

fn communicators(host: &Host) {
    let world = host.predefined().comm_world;
    assert_eq!(
        (host.comm_rank(world), host.comm_size(world)),
        (Ok(0), Ok(1))
    );
    assert_eq!(host.is_inter_comm(world), Ok(false));
    // SAFETY: the callback only adds.
    let key = unsafe { host.create_comm_key(on_delete) }.expect("a key");
    let private = host.private_comm(world).expect("a communicator");
    assert_eq!(host.comm_attribute(private, key), Ok(None));
    host.set_comm_attribute(private, key, 7).expect("set");
    assert_eq!(host.comm_attribute(private, key), Ok(Some(7)));
    let copy = host.private_comm(private).expect("a communicator");
    assert_eq!(host.comm_attribute(copy, key), Ok(None));
    let before = DELETED.load(Ordering::Relaxed);
    host.free_comm(private).expect("freed");
    assert_eq!(
        DELETED.load(Ordering::Relaxed),
        before + 7,
        "the callback ran once"
    );
    host.free_comm(copy).expect("freed");
    assert_eq!(host.allreduce_min(-5, world), Ok(-5));
    assert_eq!(host.allreduce_min_each([7, -3], world), Ok([7, -3]));
    host.barrier(world).expect("barrier");
}

fn datatypes(host: &Host) {
    let table = DatatypeTable::load(host);
    let mut dense = 0;
    for datatype in PREDEFINED_DATATYPES {
        let Some(handle) = host.handle_named(datatype).map(Datatype) else {
            continue;
        };
        let Some(bytes) = table.dense_bytes(handle) else {
            continue;
        };
        // Optional Fortran types may be unknown to a library; asking it about one is an error.
        if host.kind() == AbiKind::OpenMpi || (handle.0 & 0xff00_00c0) < 0x2c0 {
            let layout = host.type_layout(handle).expect(datatype.name);
            assert_eq!(
                (layout.bytes, layout.extent),
                (bytes, bytes as isize),
                "{}",
                datatype.name
            );
            assert!(layout.is_dense(), "{}", datatype.name);
        }
        dense += 1;
    }
    assert!(dense > 40, "only {dense} datatypes found");
    let double_int = PREDEFINED_DATATYPES
        .iter()
        .find(|d| d.name == "MPI_DOUBLE_INT")
        .unwrap();
    let double_int = host.handle_named(double_int).map(Datatype);
    let double_int = double_int.expect("MPI_DOUBLE_INT");
    assert_eq!(table.dense_bytes(double_int), None);
    let layout = host.type_layout(double_int).expect("layout");
    assert_eq!((layout.bytes, layout.extent), (12, 16));
    let envelope = host.type_envelope(double_int).expect("envelope");
    assert_eq!(envelope.combiner, Combiner::Named);
    gaps_survive(host, double_int);
}

fn gaps_survive(host: &Host, double_int: Datatype) {
    let comm = host
        .private_comm(host.predefined().comm_self)
        .expect("a communicator");
    let source: Vec<u8> = (0..32).collect();
    let mut packed = [0xee_u8; 24];
    let mut dest = [0xdd_u8; 32];
    // SAFETY: two elements of 16 bytes with 12 bytes of data each.
    unsafe {
        host.pack(
            source.as_ptr(),
            2,
            double_int,
            packed.as_mut_ptr(),
            24,
            comm,
        )
        .expect("packed");
        host.unpack(packed.as_ptr(), 24, dest.as_mut_ptr(), 2, double_int, comm)
            .expect("unpacked");
    }
    assert_eq!(
        (&packed[..12], &packed[12..]),
        (&source[..12], &source[16..28])
    );
    assert_eq!(
        (&dest[..12], &dest[12..16]),
        (&source[..12], &[0xdd; 4][..])
    );
    assert_eq!(
        (&dest[16..28], &dest[28..]),
        (&source[16..28], &[0xdd; 4][..])
    );
    host.free_comm(comm).expect("freed");
}

fn messages(host: &Host) {
    let comm = host
        .private_comm(host.predefined().comm_self)
        .expect("a communicator");
    let outgoing = *b"to oneself";
    let mut incoming = [0; 10];
    let mut requests = RequestList::with_capacity(host.kind(), 2);
    // SAFETY: both buffers outlive the requests, which are complete below.
    unsafe {
        host.start_send(&outgoing, 0, 3, comm, &mut requests)
            .expect("sent");
        while !host.has_message(comm, 3) {}
        host.start_receive(&mut incoming, 0, 3, comm, &mut requests)
            .expect("received");
    }
    while !host.test_all(&mut requests).expect("tested") {}
    assert_eq!(incoming, outgoing);
    assert!(!host.has_message(comm, 3));
    let mut all = [0; 4];
    host.allgather_bytes(&[9, 8, 7, 6], &mut all, comm)
        .expect("gathered");
    assert_eq!(all, [9, 8, 7, 6]);
    assert_eq!(
        host.allgatherv_bytes(b"abc", &[3], comm),
        Ok(b"abc".to_vec())
    );
    host.free_comm(comm).expect("freed");
}
