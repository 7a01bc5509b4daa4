//! `ferrorail explain`: the facts by hand, the choice as teams make it, mistakes in one line.

mod common;
#[path = "common/explanation.rs"]
mod explanation;

use common::expect_code;
use explanation::{explain, json, row};
use ferrorail_coll::{Collective, algorithms};
use serde_json::Value;

const SHAPE: &str = "--ranks 8 --node-size 2 --rails 2";

fn of_shape(more: &str) -> String {
    format!("allgather {SHAPE} {more}")
}

#[test]
fn what_takes_too_many_queue_pairs_is_said_to_be_the_hosts() {
    for asked in ["gatherv 23", "gatherv 24", "gather 23"] {
        let (collective, pairs) = asked.split_once(' ').unwrap();
        let mut command = explain(&format!("{collective} {SHAPE} --bytes 1K"));
        command.env("FERRORAIL_QUEUE_PAIRS", pairs);
        let left = expect_code(&mut command, 0).0.contains("left to the host");
        assert_eq!(left, asked == "gatherv 23", "{asked}");
    }
}

#[test]
fn a_size_is_explained_with_counts_and_bounds() {
    let facts = json(&of_shape("--bytes 1K"));
    assert_eq!(facts["chosen"]["algorithm"], "smp_bruck");
    let because = facts["chosen"]["because"].as_str().unwrap();
    assert!(
        because.contains("of the shipped table: allgather"),
        "{because}"
    );
    assert_eq!(facts["shape"]["nodes"], 4);

    // Four leaders, two ports: rounds of 2 puts and 1 put, of 2 and 2 blocks of 1 KiB.
    let smp = row(&facts, "smp_bruck", "eager");
    assert_eq!(
        (&smp["chosen"], &smp["ratio"]),
        (&Value::from(true), &Value::from(1.0))
    );
    for (name, value) in [
        ("pieces", 1),
        ("rounds", 2),
        ("port_bytes", 4096),
        ("messages_per_rank", 3),
        ("messages", 12),
        ("bytes_per_rank", 6144),
        ("bytes", 4 * 6144),
        ("scratch_bytes", 8192),
    ] {
        assert_eq!(smp[name], value, "{name}: {smp}");
    }
    let bounds = &facts["bounds"];
    // Two rounds of three-fold knowledge for 8 ranks; 7 blocks over two ports.
    assert_eq!(
        (&bounds["rounds"], &bounds["port_bytes"]),
        (&2.into(), &3584.into())
    );
    assert_eq!(
        (&bounds["node_rounds"], &bounds["rail_bytes"]),
        (&1.into(), &3072.into())
    );
    let least = bounds["time_us"].as_f64().unwrap();
    let rows = facts["algorithms"].as_array().unwrap();
    let protocols: usize = algorithms(Collective::Allgather)
        .iter()
        .map(|algorithm| algorithm.protocols.len())
        .sum();
    assert_eq!(rows.len(), protocols);
    let times: Vec<f64> = rows
        .iter()
        .map(|row| row["predicted_us"].as_f64().unwrap())
        .collect();
    assert!(times.is_sorted() && times[0] >= least, "{times:?} {least}");
    let runner_up = rows.iter().find(|row| row["chosen"] == false).unwrap();
    assert_eq!(facts["runner_up"]["algorithm"], runner_up["algorithm"]);

    let (text, _) = expect_code(&mut explain(&of_shape("--bytes 1K")), 0);
    for part in [
        "allgather of 1K bytes, 8 ranks on 4 nodes of 2, rails 2, k 2",
        "* smp_bruck",
        because,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn blocks_beyond_scratch_go_in_pieces() {
    let facts = json(&of_shape("--bytes 64K --zero-copy off"));
    let direct = row(&facts, "direct", "eager");
    // 64 KiB of scratch hold 8 blocks of 8 KiB.
    assert_eq!(
        (&direct["pieces"], &direct["scratch_bytes"]),
        (&8.into(), &65536.into())
    );
    assert_eq!(
        (&direct["messages_per_rank"], &direct["bytes_per_rank"]),
        (&56.into(), &(7 << 16).into())
    );
    let rows = facts["algorithms"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["protocol"] == "eager"));
}

#[test]
fn settings_are_in_force() {
    let mut forced = explain(&of_shape("--bytes 8 --json"));
    forced.env("FERRORAIL_ALGORITHM", "allgather=ring");
    let (stdout, _) = expect_code(&mut forced, 0);
    let facts: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(facts["chosen"]["algorithm"], "ring");
    assert_eq!(
        facts["chosen"]["because"],
        "FERRORAIL_ALGORITHM forces ring"
    );

    let file = std::env::temp_dir().join(format!("ferrorail-explain-{}.json", std::process::id()));
    let table = r#"{"version": 1, "rules": [
        {"collective": "allgather", "bytes": {"max": 64}, "algorithm": "bruck", "protocol": "rendezvous"},
        {"collective": "allgather", "algorithm": "direct", "protocol": "eager"}]}"#;
    std::fs::write(&file, table).unwrap();
    let mut tuned = explain(&of_shape("--json"));
    let (stdout, _) = expect_code(tuned.env("FERRORAIL_TUNING", &file), 0);
    let facts: Value = serde_json::from_str(&stdout).unwrap();
    let rows = facts["thresholds"].as_array().unwrap();
    let found: Vec<_> = rows
        .iter()
        .map(|row| (&row["to_bytes"], &row["algorithm"]))
        .collect();
    assert_eq!(
        found,
        [
            (&64.into(), &"bruck".into()),
            (&Value::Null, &"direct".into())
        ]
    );
    let because = rows[0]["because"].as_str().unwrap();
    assert!(
        because.ends_with("allgather, bytes up to 64: bruck by rendezvous"),
        "{because}"
    );

    std::fs::write(&file, table.replace("bruck", "brook")).unwrap();
    let mut wrong = explain(&of_shape(""));
    let (_, stderr) = expect_code(wrong.env("FERRORAIL_TUNING", &file), 1);
    assert!(stderr.contains("did you mean \"bruck\"?"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn every_collective_and_shape_has_an_explanation() {
    for &collective in Collective::ALL {
        for (ranks, node_size) in [(1, 1), (2, 2), (7, 3), (6, 1), (600, 16)] {
            let shape = format!("--ranks {ranks} --node-size {node_size} --rails 2");
            let args = format!("{} {shape}", collective.name());
            let facts = json(&args);
            let thresholds = facts["thresholds"].as_array().unwrap();
            assert_eq!(thresholds[0]["from_bytes"], 0);
            assert_eq!(thresholds.last().unwrap()["to_bytes"], Value::Null);
            let facts = json(&format!("{args} --bytes 1000"));
            assert!(facts["chosen"]["predicted_us"].as_f64().unwrap() >= 0.0);
            let exact = facts["algorithms"][0]["messages"].is_u64();
            assert_eq!(exact, ranks != 600);
        }
    }
}

#[test]
fn without_a_collective_all_are_listed() {
    let (stdout, _) = expect_code(&mut explain(""), 0);
    for &collective in Collective::ALL {
        assert!(
            stdout
                .lines()
                .any(|line| line.split(' ').next() == Some(collective.name()))
        );
        for algorithm in algorithms(collective) {
            assert!(stdout.contains(algorithm.description), "{algorithm:?}");
        }
    }
}

#[test]
fn windows_are_explained_by_where_targets_are() {
    let of = |more: &str, setting: (&str, &str)| -> Value {
        let mut command = explain(&format!("window {SHAPE} {more} --json"));
        command
            .env("FERRORAIL_FABRIC", "loopback")
            .env(setting.0, setting.1);
        serde_json::from_str(&expect_code(&mut command, 0).0).unwrap()
    };
    let plain = ("FERRORAIL_LOCK", "auto");
    let facts = of("", plain);
    assert_eq!(
        (&facts["lock"], &facts["nodes"]),
        (&"queue".into(), &4.into())
    );
    assert_eq!(facts["rails_atomics"]["exclude"], "those of the CPU too");
    let rows = facts["operations"].as_array().unwrap();
    let words: Vec<_> = rows.iter().map(|row| &row["words"]).collect();
    assert_eq!(words, ["cpu", "cpu", "nic"]);
    assert_eq!(rows[2]["lock_messages"]["most"], serde_json::json!([4, 5]));
    let near = |set| of("--kind create", set)["operations"][1].to_string();
    let nic = near(("FERRORAIL_ATOMICS", "nic"));
    assert!(nic.contains(r#""words":"nic""#) && nic.contains("by the target"));
    assert!(!near(("FERRORAIL_SCATTERED", "origin")).contains("by the target"));
    let mcs = of("--lock mcs --kind shared", plain);
    assert_eq!((&mcs["lock"], &mcs["nodes"]), (&"mcs".into(), &1.into()));
    assert_eq!(mcs["operations"][1]["lock_messages"], Value::Null);
    let mut command = explain(&format!("window {SHAPE}"));
    let (text, _) = expect_code(command.env("FERRORAIL_LOCK", "event"), 0);
    for part in [
        "event: it is asked for",
        "a thread of ferrorail at the target",
        "on other node",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn no_window_is_explained_where_attach_is_forbidden_and_needed() {
    let said = |args: &str, fabric: &str, code: i32| {
        let mut command = explain(&format!("window --ranks 4 {args}"));
        command
            .env("FERRORAIL_CMA", "off")
            .env("FERRORAIL_FABRIC", fabric);
        expect_code(&mut command, code).1
    };
    for kind in ["create", "dynamic"] {
        let shape = format!("--rails 1 --kind {kind} --node-size");
        let (near, far) = (format!("{shape} 2"), format!("{shape} 1"));
        assert!(said(&near, "verbs", 1).contains("FERRORAIL_CMA is off"));
        assert!(said(&far, "loopback", 1).contains("FERRORAIL_CMA is off"));
        assert_eq!(said(&far, "verbs", 0), "");
    }
    assert_eq!(said("--rails 1 --node-size 2", "loopback", 0), "");
    let mut off = explain("window --ranks 4");
    let (_, stderr) = expect_code(off.env("FERRORAIL_ENABLE", "0"), 0);
    assert!(stderr.contains("leaves all to the host"), "{stderr}");
}

#[test]
fn the_head_says_which_team_it_is() {
    let head = |args: &str| {
        let (text, _) = expect_code(&mut explain(args), 0);
        text.lines().next().unwrap().to_owned()
    };
    let shape = "barrier --rails 2 --node-size 3 --ranks";
    let tail = ", rails 2, k 2, zero-copy on";
    let of = |nodes| format!("barrier, {nodes}{tail}");
    assert_eq!(head(&format!("{shape} 6")), of("6 ranks on 2 nodes of 3"));
    let uneven = of("7 ranks on 3 nodes of up to 3");
    assert_eq!(head(&format!("{shape} 7")), uneven);
    let (text, _) = expect_code(&mut explain(&format!("{shape} 7")), 0);
    assert!(
        text.contains("\n  all sizes    smp_dissemination"),
        "{text}"
    );
}

#[test]
fn mistakes_are_told_in_one_line() {
    let expect = |args: &str, line: &str| {
        let (_, stderr) = expect_code(&mut explain(args), 1);
        assert_eq!(stderr, format!("ferrorail: {line}\n"));
    };
    expect(
        "allgater --ranks 4",
        "there is no collective \"allgater\"; did you mean \"allgather\"?",
    );
    expect(
        "windw --ranks 4",
        "there is no collective \"windw\"; did you mean \"window\"?",
    );
    expect("bcast", "explain bcast needs --ranks");
    for asked in ["bcast", "window"] {
        expect(
            &format!("{asked} --ranks 32001"),
            "communicators of more than 32000 ranks are left to the host MPI",
        );
    }
    expect("bcast --ranks 4 --root 4", "--root 4 is not one of 4 ranks");
    let (_, stderr) = expect_code(&mut explain("bcast --ranks 4 --bytes x"), 2);
    assert!(
        stderr.starts_with("error: invalid value 'x' for '--bytes"),
        "{stderr}"
    );
}

/// What rank 0 sends in a round, as (to, blocks), and from whom it receives.
type Round = (Vec<(u64, u64)>, Vec<u64>);

/// The rounds of 16 ranks with two ports in which rank 0 sends.
fn partners(collective: &str) -> Vec<Round> {
    let shape = "--ranks 16 --node-size 1 --rails 2 --ports 2";
    let mut command = explain(&format!("{collective} {shape} --bytes 64 --steps --json"));
    command.env(
        "FERRORAIL_ALGORITHM",
        format!("{collective}=standard_exchange"),
    );
    command.env("FERRORAIL_ZERO_COPY", "off");
    let (stdout, stderr) = expect_code(&mut command, 0);
    assert_eq!(stderr, "");
    let facts: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(facts["algorithm"], "standard_exchange");
    let blocks = |span: &Value| {
        let span = span.as_str().unwrap().trim_end_matches(']');
        let (first, end) = span.split_once('[').unwrap().1.split_once("..").unwrap();
        end.parse::<u64>().unwrap() - first.parse::<u64>().unwrap()
    };
    let mut rounds = Vec::new();
    for steps in facts["rounds"].as_array().unwrap() {
        let of = |name| {
            let steps = steps.as_array().unwrap().iter();
            steps.filter(move |step| step["do"] == name)
        };
        let puts: Vec<_> = of("put")
            .map(|step| (step["to"].as_u64().unwrap(), blocks(&step["from"])))
            .collect();
        let awaited = of("await").map(|step| step["from"].as_u64().unwrap());
        let mut awaited: Vec<_> = awaited.collect();
        awaited.dedup();
        if !puts.is_empty() {
            rounds.push((puts, awaited));
        }
    }
    rounds
}

/// The table in the header of `coll::allgather::standard_exchange`.
#[test]
fn steps_are_the_papers_standard_exchange_allgather_of_sixteen_processes() {
    let expected = vec![
        (vec![(1, 1), (2, 1)], vec![15, 14]),
        (vec![(9, 1), (10, 1)], vec![7, 6]),
        (vec![(11, 1), (12, 1)], vec![5, 4]),
        (vec![(3, 3), (6, 3)], vec![13, 10]),
        (vec![(13, 1), (14, 1)], vec![3, 2]),
        (vec![(15, 1)], vec![1]),
    ];
    assert_eq!(partners("allgather"), expected);
}

/// The table in the header of `coll::alltoall::standard_exchange`.
#[test]
fn steps_are_the_papers_standard_exchange_alltoall_of_sixteen_processes() {
    let expected = vec![
        (vec![(1, 5), (2, 5)], vec![15, 14]),
        (vec![(3, 4), (6, 3)], vec![13, 10]),
        (vec![(9, 3), (12, 4)], vec![7, 4]),
    ];
    assert_eq!(partners("alltoall"), expected);
}

#[test]
fn ports_of_an_algorithm_and_composites_are_in_force() {
    let facts = |forced: &str, bytes: &str| {
        let mut command = explain(&of_shape(&format!("--bytes {bytes} --json")));
        command.env("FERRORAIL_ALGORITHM", forced);
        let (stdout, _) = expect_code(&mut command, 0);
        serde_json::from_str::<Value>(&stdout).unwrap()
    };
    // Eight ranks: Bruck takes three rounds on one port, two on two.
    let one = facts("allgather=bruck:ports=1", "64");
    assert_eq!(one["chosen"]["algorithm"], "bruck:ports=1");
    assert_eq!(row(&one, "bruck:ports=1", "eager")["rounds"], 3);
    assert_eq!(row(&one, "bruck", "eager")["rounds"], 2);
    let native = |bytes| facts("allgather=tree_then_ring", bytes)["chosen"]["algorithm"].clone();
    assert_eq!(native("32K"), "tree_gather_broadcast:ports=1");
    assert_eq!(native("64K"), "ring:ports=1");
    let mut command = explain(&of_shape("--bytes 64"));
    command.env("FERRORAIL_ALGORITHM", "allgather=bruck:ports=0");
    let (_, stderr) = expect_code(&mut command, 0);
    let said =
        "FERRORAIL_ALGORITHM=allgather=bruck:ports=0: \"0\" is no number of ports from 1 to 8";
    assert!(stderr.contains(said), "{stderr}");
}

#[test]
fn steps_are_a_line_each_for_people() {
    let (stdout, _) = expect_code(
        explain(&of_shape("--bytes 64 --steps 7")).env("FERRORAIL_ALGORITHM", "allgather=ring"),
        0,
    );
    assert!(stdout.starts_with("allgather by ring into "), "{stdout}");
    assert!(stdout.contains("rank 7 of 8, k 2"), "{stdout}");
    assert_eq!(stdout.matches("\n    put ").count(), 7, "{stdout}");
    let (_, stderr) = expect_code(&mut explain(&of_shape("--bytes 64 --steps 8")), 1);
    assert!(
        stderr.contains("--steps 8 is not one of 8 ranks"),
        "{stderr}"
    );
}
