//! Which ports become rails, and which of them lead to each other.

use super::DEVICES;
use super::conformance::transfers::put_arrives;
use super::conformance::{self, Pair};
use ferrorail_base::RailId;
use ferrorail_base::config::{RailChoice, Settings};
use std::sync::{Arc, PoisonError, RwLockWriteGuard};

use crate::conformance::Rails;
use ferrorail_rdma_transport::failover::Failover;
use ferrorail_rdma_transport::verbs::{self, VerbsTransport};
use std::process::Command;
use std::time::{Duration, Instant};

/// A third rail on a network of its own, which is gone afterwards.
struct ThirdRail {
    _alone: RwLockWriteGuard<'static, ()>,
}

impl ThirdRail {
    fn new() -> Self {
        let rail = Self {
            _alone: DEVICES.write().unwrap_or_else(PoisonError::into_inner),
        };
        for line in [
            "ip link add tr0 type veth peer name tr1",
            "ip address add 198.18.77.1/24 dev tr0",
            "ip link set tr1 up",
            "ip link set tr0 up",
            "rdma link add rxe77 type rxe netdev tr0",
        ] {
            assert!(run(line), "{line}");
        }
        // A link takes a moment to come up.
        let start = Instant::now();
        let third = Settings {
            rails: RailChoice::Names(vec!["rxe77".to_owned()]),
            ..Settings::default()
        };
        while VerbsTransport::open(&third).is_err() {
            assert!(start.elapsed() < Duration::from_secs(30), "no third rail");
            std::thread::sleep(Duration::from_millis(50));
        }
        rail
    }
}

impl Drop for ThirdRail {
    fn drop(&mut self) {
        run("rdma link delete rxe77");
        run("ip link delete tr0");
    }
}

fn run(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    Command::new(words[0])
        .args(&words[1..])
        .status()
        .is_ok_and(|status| status.success())
}

/// Rails named in different orders: the plane whose ends lie in different subnets is refused, with
/// both ends and a remedy; the other carries. Where none is left, that is the error.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn planes_between_subnets_are_refused() {
    let _third = ThirdRail::new();
    let named = |process, names: [&str; 2]| {
        let settings = Settings {
            rails: RailChoice::Names(names.map(str::to_owned).to_vec()),
            ..Settings::default()
        };
        let fabric = VerbsTransport::open(&settings).expect("rails");
        Failover::new(Arc::new(fabric), conformance::process(process), &settings)
    };
    let (a, b) = (named(1, ["rxe0", "rxe1"]), named(2, ["rxe77", "rxe1"]));
    let foreseen = a.could_reach(&b.attributes().address).expect("ends");
    assert_eq!(foreseen.planes, 0b10);
    let [line] = foreseen.refused.as_slice() else {
        panic!("one line: {:?}", foreseen.refused);
    };
    println!("{line}");
    for part in [
        "rail rxe0:1 of ",
        "(RoCE v2, ::ffff:198.18.0.1)",
        "rail rxe77:1 of ",
        "(RoCE v2, ::ffff:198.18.77.1)",
        "their subnets differ, and no route of that interface leads there; name rails",
    ] {
        assert!(line.contains(part), "{part}");
    }
    let pair = Pair::new((a, b));
    let (_, address) = pair.b.open_peer(conformance::process(1)).expect("a peer");
    let reach = pair.a.connect(pair.ab, &address).expect("connected");
    assert_eq!(reach, foreseen);
    let bytes = |rail| pair.a.counters(RailId(rail)).bytes;
    for rail in [0, 1] {
        put_arrives(&pair, RailId(rail)).expect("the plane that is left");
    }
    assert_eq!((bytes(0), bytes(1) > 0), (0, true));

    let (a, b) = (named(1, ["rxe0", "rxe1"]), named(2, ["rxe1", "rxe0"]));
    let foreseen = a.could_reach(&b.attributes().address).expect("ends");
    assert_eq!((foreseen.planes, foreseen.refused.len()), (0, 2));
    let (ab, _) = a.open_peer(conformance::process(2)).expect("a peer");
    let (_, address) = b.open_peer(conformance::process(1)).expect("a peer");
    let error = a.connect(ab, &address);
    let text = error.expect_err("no plane is left").to_string();
    assert!(text.contains("rxe0:1") && text.contains("rxe1:1"), "{text}");
}

/// What the choice knows of soft-RoCE ports.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn ports_are_described_without_opening_them() {
    let settings = Settings {
        rails: RailChoice::Names(vec!["rxe1".to_owned()]),
        ..Settings::default()
    };
    let (ports, choice) = verbs::ports(&settings).expect("libibverbs");
    let names: Vec<String> = ports.iter().map(verbs::Port::name).collect();
    assert_eq!(names[..2], ["rxe0:1", "rxe1:1"]);
    assert_eq!(
        choice.left_out[0].as_deref(),
        Some("FERRORAIL_RAILS does not name it")
    );
    assert_eq!(
        (choice.left_out[1].as_ref(), choice.picks[0].port),
        (None, 1)
    );
    for port in &ports[..2] {
        println!("{port:?}");
        assert_eq!(port.state, verbs::State::Active);
        assert!(port.rate_mb_s > 0);
        assert_eq!(port.address.expect("an address").link, verbs::Link::RoceV2);
    }
}
