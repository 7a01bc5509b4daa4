//! Rules of the shipped table for the ranks of one node.

use super::*;

/// What is chosen for ranks of one node.
fn of_all(
    collective: Collective,
    ranks_per_core: u32,
    ranks: u32,
    bytes: u64,
    attach_percent: u32,
) -> (&'static str, Protocol) {
    chosen(Query {
        collective,
        bytes,
        ranks,
        nodes: 1,
        node_size_max: ranks,
        ranks_per_core,
        attach_percent,
        ..QUERY
    })
}

#[test]
fn ranks_that_share_cores_have_rules_of_their_own() {
    let of = |ranks_per_core, ranks, bytes, attach_percent| {
        of_all(
            Collective::Scatter,
            ranks_per_core,
            ranks,
            bytes,
            attach_percent,
        )
    };
    let attach = ("direct", Protocol::Rendezvous);
    let segment = ("smp_direct", Protocol::Eager);
    assert_eq!(of(2, 4, 256 << 10, NOT_MEASURED), attach);
    assert_eq!(of(2, 4, 256 << 10, 150), segment);
    let eight = [NOT_MEASURED, 150].map(|percent| of(2, 8, 64 << 10, percent));
    assert_eq!(eight, [attach, segment]);
    assert_eq!(of(1, 8, 64 << 10, NOT_MEASURED), segment);
    let exchanged = |ranks_per_core, ranks, bytes, attach_percent| {
        let collective = Collective::Alltoall;
        of_all(collective, ranks_per_core, ranks, bytes, attach_percent).1
    };
    for (ranks, bytes) in [(4, 64 << 10), (8, 128 << 10), (16, 128 << 10)] {
        let protocols = [NOT_MEASURED, 50, 150].map(|percent| exchanged(2, ranks, bytes, percent));
        let [unmeasured, fast, slow] = protocols;
        assert_eq!(
            (unmeasured, fast),
            (Protocol::Rendezvous, Protocol::Rendezvous)
        );
        assert_eq!(slow, Protocol::Eager);
        assert_eq!(exchanged(2, ranks, bytes / 2, NOT_MEASURED), slow);
    }
    assert_eq!(exchanged(1, 4, 64 << 10, NOT_MEASURED), Protocol::Eager);
}

#[test]
fn two_ranks_take_what_they_have_measured() {
    let of = |bytes, attach_percent| {
        let choice = Table::shipped().choose(&Query {
            bytes,
            ranks: 2,
            nodes: 1,
            node_size_max: 2,
            attach_percent,
            ..QUERY
        });
        choice.protocol
    };
    assert_eq!(of(1 << 20, 80), Protocol::Rendezvous);
    assert_eq!(of(1 << 20, NOT_MEASURED), Protocol::Eager);
    assert_eq!(of(16 << 10, 80), Protocol::Eager);
}

/// Who times both ways of a class chooses by these two, and else compares one way with itself.
#[test]
fn what_depends_on_the_time_of_attach_differs_between_the_fastest_and_the_slowest() {
    let mut depend = 0;
    for &collective in Collective::ALL {
        for (ranks, ranks_per_core) in [(2, 1), (3, 2), (4, 1), (4, 2), (8, 2), (16, 2), (64, 2)] {
            for bytes in (14..24).map(|class| 1 << class) {
                let ways = [0, 100, 101, ATTACH_SLOWEST, NOT_MEASURED]
                    .map(|percent| of_all(collective, ranks_per_core, ranks, bytes, percent));
                if ways.iter().any(|way| *way != ways[0]) {
                    depend += 1;
                    assert_ne!(
                        ways[0], ways[3],
                        "{collective:?}, {ranks} ranks, {bytes} bytes"
                    );
                }
            }
        }
    }
    assert!(depend > 0);
}
