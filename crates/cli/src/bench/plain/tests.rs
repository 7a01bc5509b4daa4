//! Plain programs deliver what the benchmark expects of MPI's.

use super::super::buffers::contents;
use super::super::operation::{Form, OPERATIONS};
use super::*;
use ferrorail_base::config::ShmKind;
use ferrorail_engine::raw::{Segment, process_id};

/// Calls of `bytes` by the threads of this process, whose memory is read as another's would be.
fn delivers(operation: &'static Operation, way: Way, size: usize, cores: usize, bytes: usize) {
    // Long ones are computed byte by byte.
    let rounds = if bytes > PIECE { 2 } else { 5 };
    let segment = Segment::create(ShmKind::Auto, Shared::bytes(size)).unwrap();
    let root = size / 2;
    std::thread::scope(|scope| {
        for rank in 0..size {
            let attached = Segment::attach(&segment.handle()).unwrap();
            scope.spawn(move || {
                let place = Place { rank, size, root };
                let kind = Kind::of(operation).unwrap();
                let processes = vec![Cma::of(process_id()); size];
                let shared = Shared::new(attached, size);
                let mut plain = Plain::new((kind, way), place, shared, (processes, cores));
                let (send, recv) = operation.lengths(place, bytes);
                for round in 0..rounds {
                    let (mut sent, mut received) = (vec![0; send], vec![0xff; recv]);
                    contents(&mut sent, rank, round, 0);
                    if operation.form == Form::Bcast && rank == root {
                        contents(&mut received, rank, round, 0);
                    }
                    let buffers = (sent.as_ptr(), received.as_mut_ptr());
                    // SAFETY: the buffers have these lengths.
                    unsafe { plain.call(operation, bytes, buffers) }.unwrap();
                    if let Some(expected) = operation.expected(place, bytes, round) {
                        let name = (operation.name, way, size, bytes, rank);
                        assert!(received == expected, "{name:?} in round {round}");
                    }
                }
            });
        }
    });
}

#[test]
fn every_program_delivers_what_its_collective_does() {
    cma_allow();
    for operation in OPERATIONS {
        for way in Way::ALL.into_iter().filter(|way| way.is_about(operation)) {
            for (size, cores) in [(2, 2), (3, 2), (5, 2), (4, 1)] {
                for bytes in [8, PIECE + (20 << 10)] {
                    delivers(operation, way, size, cores, bytes);
                }
            }
        }
    }
}

#[test]
fn there_is_a_program_of_every_blocking_collective() {
    for operation in OPERATIONS {
        assert!(Way::Slots.is_about(operation), "{}", operation.name);
    }
    let nonblocking = Operation::named("iallreduce").unwrap();
    assert!(Way::ALL.iter().all(|way| !way.is_about(nonblocking)));
    let about = |name| Way::ALL.map(|way| way.is_about(Operation::named(name).unwrap()));
    assert_eq!(about("barrier"), [true, false, false]);
    assert_eq!(about("allreduce"), [true, true, true]);
    assert_eq!(about("bcast"), [true, true, false]);
}
