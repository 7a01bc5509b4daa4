//! The conformance suite, and what is particular to verbs, on real queue pairs.
//!
//! Needs RDMA devices, at least two ports of them: `scripts/soft-roce` runs it with `--ignored`.

mod conformance;

use conformance::Pair;
use ferrorail_base::RailId;
use ferrorail_base::config::{RailChoice, Settings};
use ferrorail_fabric::{AtomicScope, Fabric, FabricError};
use ferrorail_rdma_transport::verbs::{self, VerbsFabric};

fn open(rails: RailChoice) -> Result<VerbsFabric, FabricError> {
    VerbsFabric::open(&Settings {
        rails,
        ..Settings::default()
    })
}

fn pair() -> (VerbsFabric, VerbsFabric) {
    let make = || open(RailChoice::Auto).expect("rails");
    (make(), make())
}

#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn verbs_conform() {
    let seen = conformance::run(pair);
    assert!(
        seen.would_block > 0,
        "thousands of messages never filled a queue"
    );
}

#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn rails_are_described() {
    assert!(verbs::is_available());
    let fabric = open(RailChoice::Count(2)).unwrap();
    assert_eq!(fabric.rails().len(), 2);
    for (plane, rail) in fabric.rails().iter().enumerate() {
        println!("{rail:?}");
        assert_eq!(rail.name, format!("{}:{}", rail.device, rail.port));
        assert_eq!(usize::from(rail.plane), plane);
        assert!((256..=4096).contains(&rail.mtu_bytes) && rail.bandwidth_mb_s > 0);
        assert!(
            rail.address.starts_with("::ffff:"),
            "an IPv4-mapped GID is preferred"
        );
    }
    println!("{:?}", fabric.capabilities());
    assert_ne!(fabric.capabilities().atomics, AtomicScope::None);
}

/// One rail on the one side, both on the other: the common plane carries, the other says so.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn a_missing_rail_does_not_shift_the_others() {
    let names: Vec<String> = pair()
        .0
        .rails()
        .iter()
        .map(|rail| rail.name.clone())
        .collect();
    let mut half = names.clone();
    half[0] = "absent0".to_owned();
    let a = open(RailChoice::Names(names)).unwrap();
    let b = open(RailChoice::Names(half)).unwrap();
    assert_eq!((b.rails().len(), b.rails()[0].plane), (1, 1));
    let pair = Pair::new((a, b));
    assert!(conformance::transfers::put_arrives(&pair, RailId(1)).is_ok());
    let refused = conformance::transfers::put_arrives(&pair, RailId(0)).unwrap_err();
    assert!(refused.to_string().contains("not connected"), "{refused}");
}

#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn a_wrong_key_is_a_typed_error() {
    let pair = Pair::new(pair());
    let error = conformance::transfers::put_with_wrong_key(&pair, RailId(0));
    assert!(matches!(error, FabricError::Completion { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&pair.a.rails()[0].name), "{text}");
    assert!(text.contains("remote access error"), "{text}");
    // The other rail is not concerned.
    assert!(conformance::transfers::put_arrives(&pair, RailId(1)).is_ok());
    assert!(conformance::transfers::put_arrives(&pair, RailId(0)).is_err());
}

/// With devices or without, with libibverbs or without.
#[test]
fn settings_that_leave_no_rail_say_what_there_is() {
    let error = open(RailChoice::Names(vec!["absent0".to_owned()])).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("no usable rail: "), "{text}");
    assert!(text.contains("FERRORAIL_FABRIC=loopback"), "{text}");
    assert_eq!(text.contains(" (active)"), verbs::is_available(), "{text}");
}
