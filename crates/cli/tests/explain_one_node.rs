//! `ferrorail explain` of teams on one node: pieces, eager slots, domains; and of domains of several.

mod common;
#[path = "common/explanation.rs"]
mod explanation;

use common::expect_code;
use explanation::{explain, json, row};
use serde_json::Value;

#[test]
fn pieces_on_one_node_are_those_that_teams_move() {
    let of = |args: &str| {
        let facts = json(&format!("bcast --ranks 4 {args}"));
        let row = row(&facts, "smp_knomial", "eager");
        let [pieces, scratch] = ["pieces", "scratch_bytes"].map(|name| row[name].as_u64().unwrap());
        assert_eq!(facts["chosen"]["algorithm"], "smp_knomial");
        assert_eq!(facts["chosen"]["eager_bytes"], 64 << 10);
        (pieces, scratch)
    };
    // By eager slots; four pieces; as many as channels hold, and fewer where ranks share cores.
    assert_eq!(of("--bytes 64K"), (1, 0));
    assert_eq!(of("--bytes 128K"), (4, 32 << 10));
    assert_eq!(of("--bytes 1M"), (8, 128 << 10));
    let shared = of("--bytes 1M --ranks-per-core 2");
    assert!(shared.0 < 8, "{shared:?}");
    let set = explain("bcast --ranks 4 --bytes 1M --json")
        .env("FERRORAIL_SCRATCH", "32K")
        .output();
    let facts: Value = serde_json::from_slice(&set.unwrap().stdout).unwrap();
    assert_eq!(row(&facts, "smp_knomial", "eager")["pieces"], 32);

    let said = |args: &str| expect_code(&mut explain(args), 0).0;
    let slots = "blocks of up to 64K go by eager slots";
    assert!(said("bcast --ranks 4").contains(slots));
    assert!(said("bcast --ranks 4 --bytes 4K").contains(slots));
    assert!(!said("bcast --ranks 4 --bytes 128K").contains(slots));
    assert!(!said("bcast --ranks 4 --node-size 2").contains("slots"));
}

#[test]
fn what_few_ranks_measure_decides() {
    let of = |args: &str| json(&format!("alltoall --bytes 1M {args}"));
    let unmeasured = of("--ranks 2");
    assert_eq!(unmeasured["chosen"]["protocol"], "eager");
    assert_eq!(unmeasured["attach_decides"], true);
    let measured = of("--ranks 2 --attach-percent 80");
    assert_eq!(measured["chosen"]["protocol"], "rendezvous");
    assert_eq!(measured["attach_percent"], 80);
    assert_eq!(of("--ranks 4 --node-size 2")["attach_decides"], false);
    let text = expect_code(&mut explain("alltoall --ranks 8 --bytes 1M"), 0).0;
    assert!(text.contains("--attach-percent"), "{text}");
    let decides = |args: &str| json(args)["attach_decides"] == true;
    assert!(decides("gatherv --ranks 2") && decides("alltoallv --ranks 4"));
    assert!(!decides("gatherv --ranks 9") && !decides("allreduce --ranks 2"));
}

#[test]
fn what_settings_rule_out_is_not_explained() {
    let under = |args: &str, name: &str, value: &str| -> Value {
        let mut command = explain(&format!("{args} --json"));
        let (stdout, _) = expect_code(command.env(name, value), 0);
        serde_json::from_str(&stdout).unwrap()
    };
    let no_attach = |args: &str| under(args, "FERRORAIL_CMA", "off");
    let gather = "gather --ranks 4 --rails 2 --bytes 8K --node-size";
    let chosen = |facts: &Value| facts["chosen"]["protocol"].clone();
    assert_eq!(chosen(&json(&format!("{gather} 2"))), "rendezvous");
    assert_eq!(chosen(&no_attach(&format!("{gather} 2"))), "eager");
    // Ranks that are alone on their nodes reach each other over rails.
    assert_eq!(no_attach(&format!("{gather} 1"))["zero_copy"], true);
    for facts in [
        no_attach("alltoall --ranks 2 --bytes 1M"),
        json("alltoall --ranks 1 --bytes 1M"),
    ] {
        assert_eq!(facts["attach_decides"], false);
        assert_eq!(facts["zero_copy"], false);
    }
    let reduce = "reduce --ranks 3 --bytes 1M --ranks-per-core 2";
    let pieces = |facts: &Value| row(facts, "knomial", "eager")["pieces"].as_u64();
    let posix = under(reduce, "FERRORAIL_SHM", "posix");
    assert!(pieces(&posix) > pieces(&json(reduce)), "{posix}");
}

#[test]
fn domains_of_a_node_are_its_nodes() {
    let of = |args: &str| json(&format!("allreduce --ranks 16 --bytes 1K {args}"));
    let facts = of("--domain-size 4");
    assert_eq!(
        (&facts["domains"], &facts["shape"]["nodes"]),
        (&4.into(), &1.into())
    );
    let name = "smp_recursive_multiplying:domains";
    assert_eq!(facts["chosen"]["algorithm"], name);
    assert_eq!(facts["chosen"]["eager_bytes"], Value::Null);
    // Between four leaders two exchanges; flat, one rank reads what all have written.
    let [over, flat] = [name, "smp_recursive_multiplying"].map(|name| row(&facts, name, "eager"));
    assert_eq!((&over["rounds"], &flat["rounds"]), (&2.into(), &0.into()));

    // Not of ranks that share cores, not of one domain or of few.
    for other in [
        "--domain-size 4 --ranks-per-core 2",
        "--domain-size 16",
        "--domain-size 2 --node-size 4",
        "",
    ] {
        let chosen = of(other)["chosen"]["algorithm"].clone();
        assert!(
            !chosen.as_str().unwrap().contains("domains"),
            "{other}: {chosen}"
        );
    }
    let mut by_setting = explain("barrier --ranks 16");
    by_setting.env("FERRORAIL_DOMAINS", "4");
    let said = expect_code(&mut by_setting, 0).0;
    assert!(said.contains("16 ranks on one node in 4 domains"), "{said}");
    assert!(said.contains("smp_dissemination:domains"), "{said}");
    let steps = expect_code(
        &mut explain("bcast --ranks 4 --domain-size 2 --bytes 8K --steps 2"),
        0,
    )
    .0;
    assert!(steps.contains("await                from 0"), "{steps}");
}

#[test]
fn domains_of_several_nodes_are_combined_first() {
    let of = |args: &str| json(&format!("--ranks 64 --node-size 32 --rails 1 {args}"));
    for (collective, chosen) in [
        ("allreduce --bytes 64", "smp_recursive_multiplying:domains"),
        ("barrier --bytes 1", "smp_dissemination:domains"),
        ("bcast --bytes 64", "smp_knomial:domains"),
        ("reduce --bytes 64", "smp_knomial:domains"),
        ("allgather --bytes 64", "smp_bruck"),
    ] {
        let facts = of(&format!("{collective} --domain-size 8"));
        assert_eq!(
            (&facts["domains"], &facts["shape"]["nodes"]),
            (&4.into(), &2.into())
        );
        assert_eq!(facts["chosen"]["algorithm"], chosen, "{collective}");
    }
    let flat = of("allreduce --bytes 64")["chosen"]["algorithm"].clone();
    assert_eq!(flat, "smp_recursive_multiplying");
    // The node's leader combines its own eight, and what the leaders of three other domains and of the other node have.
    let text = |args: &str| expect_code(&mut explain(args), 0).0;
    let steps = |args: &str| {
        text(&format!(
            "{args} --ranks 64 --node-size 32 --rails 1 --bytes 64"
        ))
    };
    let over = steps("allreduce --domain-size 8 --steps 0");
    assert_eq!(over.matches("  reduce ").count(), 7 + 3 + 1, "{over}");
    let flat = steps("allreduce --steps 0");
    assert_eq!(flat.matches("  reduce ").count(), 31 + 1, "{flat}");
    let said = text("barrier --ranks 64 --node-size 32 --rails 1 --domain-size 8");
    assert!(said.contains("2 nodes of 32 in 4 domains"), "{said}");
}
