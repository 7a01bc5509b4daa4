//! Loopback rails: the conformance suite, and what holds between processes and under a model.

mod conformance;
mod multicast;

#[path = "loopback/groups.rs"]
mod groups;
#[path = "loopback/model.rs"]
mod model;
#[path = "loopback/processes.rs"]
mod processes;
#[path = "loopback/support.rs"]
mod support;

use conformance::{Rails, at};
use ferrorail_base::config::Settings;
use ferrorail_base::{ProcessId, RailId};
use ferrorail_fabric::{AtomicScope, FabricError, Notification, Op, RemoteRegion, Tracking};
use ferrorail_rdma_transport::loopback::LoopbackTransport;
use support::{Private, fabrics, object, pair, settings, slice};

#[test]
fn conforms() {
    let seen = conformance::run(|| fabrics(&settings()));
    assert_eq!(seen.would_block, 0, "nothing queues without a model");
}

#[test]
fn conforms_with_a_model() {
    let modelled = Settings {
        loopback_latency_ns: 30_000,
        loopback_bandwidths_mb_s: vec![4000],
        ..settings()
    };
    conformance::run(|| fabrics(&modelled));
}

#[test]
fn abilities_and_rails() {
    let fabric = LoopbackTransport::open(&settings()).unwrap();
    let capabilities = fabric.attributes();
    assert_eq!(capabilities.atomics, AtomicScope::Global);
    assert!(capabilities.same_host_only);
    let names: Vec<&str> = fabric
        .attributes()
        .rails
        .iter()
        .map(|r| r.name.as_str())
        .collect();
    assert_eq!(names, ["loop0", "loop1"]);
    let elsewhere = ProcessId {
        host: 1,
        pid: 1,
        started: 1,
    };
    let error = fabric.open_peer(elsewhere).unwrap_err().to_string();
    assert!(error.contains("FERRORAIL_FABRIC=verbs"), "{error}");
}

/// The status of a completion error.
fn status<T: std::fmt::Debug>(result: Result<T, FabricError>) -> String {
    match result {
        Err(FabricError::Completion { rail, peer, status }) => {
            assert!(rail.starts_with("loop"), "{rail}");
            assert!(peer.starts_with("process "), "{peer}");
            status
        }
        other => panic!("expected a completion error, got {other:?}"),
    }
}

#[test]
fn keys_and_bounds_are_checked() {
    let pair = pair(&settings());
    let (here, there) = (Private::new(1024), Private::new(1024));
    let source = here.register(&pair.a);
    let target = there.register(&pair.b);
    let remote = RemoteRegion::of(&target);
    let put = |region: &RemoteRegion, rail, from, bytes, to| {
        pair.try_start(rail, &Op::put(slice(&source, from, bytes), at(region, to)))
    };
    let [rail0, rail1] = support::RAILS;
    put(&remote, rail0, 0, 1024, 0).unwrap();
    assert!(status(put(&remote, rail0, 1000, 25, 0)).contains("local protection error"));
    assert!(status(put(&remote, rail0, 0, 25, 1000)).contains("remote access error"));
    let wider = RemoteRegion {
        bytes: 4096,
        ..remote
    };
    assert!(status(put(&wider, rail0, 0, 25, 1000)).contains("does not cover"));
    let mut swapped = remote;
    swapped.rkeys.swap(0, 1);
    assert!(status(put(&swapped, rail1, 0, 8, 0)).contains("not in force"));
    let nowhere = put(&remote, RailId(2), 0, 8, 0).unwrap_err();
    assert!(nowhere.to_string().contains("no such rail"), "{nowhere}");

    pair.b.deregister(target);
    assert!(status(put(&remote, rail0, 0, 8, 0)).contains("not in force"));
    let again = there.register(&pair.b);
    assert_ne!(again.rkeys, remote.rkeys);
    assert!(status(put(&remote, rail1, 0, 8, 0)).contains("not in force"));
    pair.b.deregister(again);
    pair.a.deregister(source);
}

#[test]
fn unaligned_words_and_unconnected_peers_are_refused() {
    let pair = pair(&settings());
    let memory = Private::new(64);
    let (mine, theirs) = (memory.register(&pair.a), memory.register(&pair.b));
    let remote = RemoteRegion::of(&theirs);
    let rail = support::RAILS[0];
    let add = Op::fetch_add(at(&remote, 4), 1, slice(&mine, 0, 8), None);
    assert!(status(pair.try_start(rail, &add)).contains("aligned"));
    let notification = Notification {
        word: at(&remote, 60),
        value: 1,
    };
    let outside = Op::notify(slice(&mine, 0, 0), at(&remote, 0), notification);
    assert!(status(pair.try_start(rail, &outside)).contains("remote access error"));
    let (stranger, _) = pair.a.open_peer(conformance::process(99)).unwrap();
    let put = Op::put(slice(&mine, 0, 8), at(&remote, 0));
    // SAFETY: refused before any memory is touched.
    let unconnected = unsafe { pair.a.post(stranger, rail, &put, Tracking::Silent) };
    assert!(status(unconnected).contains("not connected"));
    pair.a.deregister(mine);
    pair.b.deregister(theirs);
}

#[test]
fn memory_outside_its_object_is_not_registered() {
    let fabric = LoopbackTransport::open(&settings()).unwrap();
    let segment = object(4096);
    let mut backing = support::backing(&segment);
    backing.offset = 8;
    // SAFETY: refused; nothing is registered.
    let refused = unsafe { fabric.register(segment.range().as_ptr(), 4096, Some(backing)) };
    assert!(matches!(
        refused,
        Err(FabricError::RegisterMemory { bytes: 4096, .. })
    ));
}

#[test]
fn threads_share_lanes() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 2000;
    for modelled in [false, true] {
        let settings = Settings {
            loopback_latency_ns: u64::from(modelled) * 1000,
            ..settings()
        };
        let pair = pair(&settings);
        let target = Private::new(4096);
        let region = target.register(&pair.b);
        let remote = RemoteRegion::of(&region);
        let mut tickets: Vec<u64> = std::thread::scope(|scope| {
            let work = |thread: usize| {
                let (pair, remote) = (&pair, &remote);
                move || {
                    let results = Private::new(64);
                    let into = results.register(&pair.a);
                    let mut sequences = Vec::new();
                    for round in 0..ROUNDS {
                        let rail = support::RAILS[round % 2];
                        let (word, into) = (at(remote, 8 * thread), slice(&into, 0, 8));
                        let ticket = pair.start(rail, &Op::fetch_add(word, 1, into, None));
                        pair.wait(&pair.a, ticket);
                        assert_eq!(results.load(0), round as u64);
                        sequences.push(ticket.sequence * 2 + u64::from(rail.0));
                    }
                    pair.a.deregister(into);
                    sequences
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(work(t))).collect();
            threads
                .into_iter()
                .flat_map(|t| t.join().unwrap())
                .collect()
        });
        for thread in 0..THREADS {
            assert_eq!(target.load(8 * thread), ROUNDS as u64);
        }
        tickets.sort_unstable();
        let expected = 2..2 + (THREADS * ROUNDS) as u64;
        assert!(
            tickets.into_iter().eq(expected),
            "each ticket once, in order per rail"
        );
        for rail in support::RAILS {
            let counters = pair.a.counters(rail);
            let messages = (THREADS * ROUNDS / 2) as u64;
            assert_eq!(
                (counters.messages, counters.bytes),
                (messages, 8 * messages)
            );
        }
        pair.b.deregister(region);
    }
}
