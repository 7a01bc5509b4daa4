//! Rules of the shipped table for the ranks of one node.

use super::*;

#[test]
fn ranks_that_share_cores_have_rules_of_their_own() {
    let of_all = |collective, ranks_per_core, ranks, bytes, attach_percent| {
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
    };
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
