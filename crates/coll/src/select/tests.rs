//! What tables accept, refuse and choose.

mod one_node;

use super::*;

use crate::named::variant;
use crate::registry::{algorithms, find};
use ferrorail_base::Topology;

const QUERY: Query = Query {
    collective: Collective::Allgather,
    bytes: 8,
    ranks: 16,
    nodes: 4,
    node_size_max: 4,
    domains: 1,
    ranks_per_core: 1,
    attach_percent: NOT_MEASURED,
    rails: 2,
    ports: 2,
    zero_copy: true,
    multicast: false,
    all_pairs: true,
};

fn chosen(query: Query) -> (&'static str, Protocol) {
    let choice = Table::shipped().choose(&query);
    (choice.variant.algorithm.name, choice.protocol)
}

#[test]
fn shipped_table_has_the_measured_thresholds() {
    let at = |bytes| chosen(Query { bytes, ..QUERY });
    for bytes in [0, 1, 256, 8192, 32768] {
        assert_eq!(at(bytes), ("smp_bruck", Protocol::Eager));
    }
    for bytes in [32769, 65536, u64::MAX] {
        assert_eq!(at(bytes), ("ring", Protocol::Rendezvous));
        let apart = Query {
            bytes,
            nodes: 16,
            node_size_max: 1,
            ..QUERY
        };
        assert_eq!(chosen(apart), ("direct", Protocol::Rendezvous));
        let without = Query {
            bytes,
            zero_copy: false,
            ..QUERY
        };
        assert_eq!(chosen(without), ("smp_bruck", Protocol::Eager));
    }
    for bytes in [0, 8, 1 << 20] {
        let one_node = Query {
            bytes,
            nodes: 1,
            node_size_max: 16,
            ..QUERY
        };
        assert_eq!(chosen(one_node), ("smp_direct", Protocol::Eager));
    }
}

#[test]
fn tables_survive_the_way_through_json() {
    let table = Table::from_json(&Table::shipped().to_json()).expect("valid");
    assert_eq!(table.own_rules(), Table::shipped().rules());
}

fn error(rules: &str) -> String {
    let text = format!("{{\"version\": 1, \"rules\": [{rules}]}}");
    match Table::from_json(&text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

const LAST: &str = r#"{"collective": "allgather", "algorithm": "direct", "protocol": "eager"}"#;

#[test]
fn wrong_tables_are_refused_with_the_reason() {
    let named = |name: &str, rest: &str| {
        let row = format!(r#"{{"collective": "allgather", "algorithm": "{name}", {rest}}}"#);
        error(&format!("{row}, {LAST}"))
    };
    assert_eq!(
        named("brook", r#""protocol": "eager""#),
        "tuning table, rule 0: allgather has no algorithm \"brook\"; did you mean \"bruck\"?"
    );
    assert_eq!(
        named("smp_bruck", r#""protocol": "rendezvous""#),
        "tuning table, rule 0: smp_bruck does not offer Rendezvous"
    );
    assert_eq!(
        named("bruck", r#""protocol": "eager""#),
        "tuning table, rule 1: never reached, as rule 0 matches first"
    );
    assert_eq!(
        named(
            "bruck",
            r#""protocol": "eager", "ranks": {"min": 9, "max": 8}"#
        ),
        "tuning table, rule 0: matches nothing, as a minimum exceeds its maximum"
    );
    assert!(named("bruck", r#""protocol": "eager", "size": 3"#).contains("unknown field `size`"));
    let narrow = r#"{"collective": "allgather", "bytes": {"max": 9}, "algorithm": "direct", "protocol": "eager"}"#;
    assert!(
        error(&format!("{narrow}, {}, {LAST}", narrow.replace('9', "8")))
            .contains("rule 1: never reached, as rule 0")
    );
    let version = Table::from_json(r#"{"version": 2, "rules": []}"#);
    assert!(matches!(version, Err(TableError::Version(2))));
}

#[test]
fn a_zero_copy_rule_does_not_hide_the_one_without() {
    let recv = LAST.replace("eager", "rendezvous");
    let text = format!("{{\"version\": 1, \"rules\": [{recv}, {LAST}]}}");
    let table = Table::from_json(&text).expect("both rules can be reached");
    assert_eq!(table.choose(&QUERY).protocol, Protocol::Rendezvous);
    let without = Query {
        zero_copy: false,
        ..QUERY
    };
    assert_eq!(table.choose(&without).protocol, Protocol::Eager);
}

#[test]
fn where_few_may_connect_an_algorithm_with_fewer_peers_is_chosen_if_there_is_one() {
    let large = Query {
        ranks: 4096,
        nodes: 64,
        node_size_max: 64,
        ..QUERY
    };
    let named = |collective, bytes, all_pairs| {
        let query = Query {
            collective,
            bytes,
            all_pairs,
            ..large
        };
        chosen(query).0
    };
    assert_eq!(named(Collective::Alltoall, 4096, true), "direct");
    assert_eq!(named(Collective::Alltoall, 4096, false), "bruck");
    assert_eq!(
        named(Collective::Alltoall, 4097, false),
        "direct",
        "none has fewer"
    );
    assert_eq!(
        named(Collective::Alltoallv, 8, false),
        "direct",
        "none has fewer"
    );
    for collective in [Collective::Gatherv, Collective::Scatterv] {
        assert_eq!(named(collective, 8, false), "direct", "none has fewer");
    }
    for all_pairs in [true, false] {
        assert_eq!(named(Collective::Allgather, 64, all_pairs), "smp_bruck");
    }
}

#[test]
fn thresholds_of_the_other_collectives() {
    let query = |collective, bytes| Query {
        collective,
        bytes,
        ..QUERY
    };
    let named = |collective, bytes, nodes| {
        let query = Query {
            nodes,
            ..query(collective, bytes)
        };
        chosen(query).0
    };
    assert_eq!(named(Collective::Gather, 8, 4), "smp_tree");
    assert_eq!(named(Collective::Gather, 1 << 20, 4), "smp_direct");
    let on_pairs = Query {
        nodes: 8,
        node_size_max: 2,
        ..query(Collective::Gather, 32768)
    };
    assert_eq!(chosen(on_pairs), ("smp_direct", Protocol::Rendezvous));
    assert_eq!(named(Collective::Alltoall, 1024, 4), "smp_direct");
    assert_eq!(named(Collective::Alltoall, 1025, 4), "direct");
    assert_eq!(named(Collective::Alltoall, 512, 8), "bruck");
    assert_eq!(named(Collective::Bcast, 1 << 16, 4), "smp_knomial");
    assert_eq!(named(Collective::Bcast, 1 << 20, 4), "multi_leader_knomial");
    assert_eq!(
        named(Collective::Reduce, 1 << 20, 4),
        "multi_leader_knomial"
    );
    let reduced = |bytes| named(Collective::Allreduce, bytes, 4);
    assert_eq!(reduced(1024), "smp_recursive_multiplying");
    assert_eq!(reduced(4096), "multi_leader_recursive_multiplying");
    assert_eq!(named(Collective::ReduceScatterBlock, 64, 4), "smp_direct");
    assert_eq!(named(Collective::ReduceScatter, 4096, 8), "bruck");
    for collective in Collective::ALL.iter().copied() {
        let algorithm = find(collective, named(collective, 8, 1)).expect("chosen");
        let has_none = algorithms(collective).iter().all(|a| !a.smp_aware);
        let is_smp = algorithm.smp_aware || has_none;
        assert!(is_smp, "{algorithm:?} on one node");
    }
}

#[test]
fn rules_may_say_how_many_ports() {
    let table = |algorithm: &str| {
        Table::from_json(&format!(
            r#"{{ "version": 1, "rules": [ {{ "collective": "allgather", "algorithm": "{algorithm}",
            "protocol": "eager" }} ] }}"#
        ))
    };
    let choice = table("bruck:ports=1").unwrap().choose(&QUERY);
    assert_eq!(choice.variant.to_string(), "bruck:ports=1");
    let choice = table("bruck").unwrap().choose(&QUERY);
    assert_eq!(choice.variant.to_string(), "bruck");
    for (wrong, message) in [
        (
            "bruck:ports=9",
            "rule 0: \"9\" is no number of ports from 1 to 8",
        ),
        ("bruck:port=1", "rule 0: \"port=1\" is no option"),
        (
            "tree_then_ring",
            "rule 0: tree_then_ring goes by size, as rules do",
        ),
    ] {
        let error = table(wrong).err().expect(wrong).to_string();
        assert!(error.contains(message), "{wrong}: {error}");
    }
}

#[test]
fn operations_that_do_not_commute_get_an_algorithm_in_rank_order() {
    let query = Query {
        collective: Collective::Allreduce,
        ..QUERY
    };
    let consecutive = Topology::from_sizes(&[4; 4]);
    let interleaved = Topology::from_host_keys(&[1, 2, 1, 2], None);
    let choice = |topology| {
        let admits = |variant: Variant| !variant.algorithm.commutative_only(topology, None);
        Table::shipped().choose_among(&query, admits)
    };
    assert_eq!(choice(&consecutive), Table::shipped().choose(&query));
    assert!(
        Table::shipped()
            .choose(&query)
            .variant
            .algorithm
            .commutative_only(&interleaved, None)
    );
    assert!(
        !choice(&interleaved)
            .variant
            .algorithm
            .commutative_only(&interleaved, None)
    );
}

#[test]
fn domains_of_one_node_come_first_where_ranks_have_cores() {
    let of = |collective, bytes, domains, ranks_per_core| {
        let choice = Table::shipped().choose(&Query {
            collective,
            bytes,
            ranks: 32,
            nodes: 1,
            node_size_max: 32,
            domains,
            ranks_per_core,
            ..QUERY
        });
        choice.variant.domains
    };
    // Few domains only for longer messages.
    for (collective, from, longest) in [
        (Collective::Bcast, 8 << 10, 1 << 30),
        (Collective::Reduce, 1 << 10, 8 << 10),
        (Collective::Allreduce, 1 << 10, 16 << 10),
    ] {
        for bytes in [from, longest] {
            assert!(of(collective, bytes, 2, 1), "{collective}");
            assert!(!of(collective, bytes, 1, 1), "{collective}");
            assert!(!of(collective, bytes, 2, 2), "{collective}");
        }
        assert!(!of(collective, from - 1, 3, 1) && of(collective, 8, 4, 1));
    }
    assert!(!of(Collective::Barrier, 0, 3, 1) && of(Collective::Barrier, 0, 4, 1));
    assert!(!of(Collective::Allreduce, 16385, 8, 1));
    assert!(!of(Collective::Allgather, 8, 4, 1));
}

#[test]
fn rules_for_the_host_say_what_would_run_otherwise() {
    let host =
        |limits: &str| format!(r#"{{ "collective": "allgather", {limits} "algorithm": "host" }}"#);
    let table = |rules: &str| {
        Table::from_json(&format!(r#"{{ "version": 1, "rules": [{rules}] }}"#)).expect(rules)
    };
    let of = |table: &Table, bytes| {
        let choice = table.choose(&Query { bytes, ..QUERY });
        (choice.host, choice.variant.algorithm.name, choice.rule)
    };
    let short = table(&format!("{}, {LAST}", host(r#""bytes": { "max": 64 },"#)));
    assert_eq!(of(&short, 64), (true, "direct", 0));
    assert_eq!(of(&short, 65), (false, "direct", 1));
    let later = table(&format!(
        "{}, {}, {LAST}",
        LAST.replace(r#""algorithm""#, r#""bytes": { "max": 8 }, "algorithm""#),
        host("")
    ));
    assert_eq!(of(&later, 8), (false, "direct", 0));
    assert_eq!(of(&later, 9), (true, "direct", 1));
    // Shipped rules follow where there is no other.
    let alone = table(&host(""));
    let shipped = Table::shipped().choose(&QUERY).variant.algorithm.name;
    assert_eq!(of(&alone, QUERY.bytes), (true, shipped, 0));
    assert_eq!(alone.rules()[0].to_string(), "allgather: host");
    let bruck = LAST.replace("direct", "bruck");
    assert!(error(&format!("{bruck}, {}", host(""))).contains("rule 1: never reached"));
    assert!(error(&host(r#""protocol": "rendezvous","#)).contains("host does not offer"));
}

#[test]
fn shipped_rules_follow_those_of_a_table() {
    let narrow = LAST.replace(r#""algorithm""#, r#""bytes": { "max": 64 }, "algorithm""#);
    let text = format!("{{\"version\": 1, \"rules\": [{narrow}]}}");
    let table = Table::from_json(&text).expect("valid");
    let chosen = |table: &Table, query: &Query| table.choose(query).variant.algorithm.name;
    assert_eq!(chosen(&table, &QUERY), "direct");
    for (collective, bytes) in [(Collective::Allgather, 65), (Collective::Bcast, 64)] {
        let query = Query {
            collective,
            bytes,
            ..QUERY
        };
        assert_eq!(chosen(&table, &query), chosen(Table::shipped(), &query));
        assert!(!table.has_itself(table.choose(&query).rule));
    }
}

#[test]
fn the_shipped_table_has_a_rule_for_everything() {
    for &collective in Collective::ALL {
        let rules = Table::shipped().rules().iter();
        let mut of_it = rules.filter(|rule| rule.collective == collective);
        let is_last = |rule: &Rule| {
            let variant = variant(collective, &rule.algorithm).expect("an algorithm");
            let algorithm = variant.algorithm;
            let usable = algorithm.rank_order == RankOrder::Always && !algorithm.multicast;
            rule.is_unconditional() && usable
        };
        assert!(of_it.any(is_last), "{collective}");
    }
}
