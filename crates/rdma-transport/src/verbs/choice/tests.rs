//! Choices on made-up machines.

use super::*;
use crate::verbs::reach::Link;
use proptest::prelude::*;

/// A 100 Gb/s port in a slot that carries two of them.
fn port(device: &str, number: u8, card: &str) -> Port {
    Port {
        device: device.to_owned(),
        number,
        card: card.to_owned(),
        numa_node: None,
        state: State::Active,
        rate_mb_s: 12_500,
        slot_mb_s: 31_507,
        mtu_bytes: 4096,
        address: Some(PortAddress {
            link: Link::RoceV2,
            gid: [0; 16],
        }),
        lid: 0,
    }
}

fn down(port: Port) -> Port {
    Port {
        state: State::Unusable("its link is down".to_owned()),
        ..port
    }
}

fn arranged(ports: &[Port]) -> Vec<Port> {
    let order = arrange(ports);
    order.into_iter().map(|port| ports[port].clone()).collect()
}

/// Names and planes of the rails.
fn rails(ports: &[Port], choice: &RailChoice) -> Vec<(String, u8)> {
    let chosen = choose(ports, choice);
    let rail = |pick: &Pick| (ports[pick.port].name(), pick.plane);
    chosen.picks.iter().map(rail).collect()
}

fn are(rails: &[(String, u8)], expected: &[(&str, u8)]) {
    let rails: Vec<(&str, u8)> = rails
        .iter()
        .map(|(name, plane)| (&**name, *plane))
        .collect();
    assert_eq!(rails, expected);
}

/// Two cards with two ports each, as two functions of one slot: how current ones show.
fn two_dual_port_cards() -> Vec<Port> {
    arranged(&[
        port("mlx5_3", 1, "0000:af:00"),
        port("mlx5_1", 1, "0000:3b:00"),
        port("mlx5_0", 1, "0000:3b:00"),
        port("mlx5_2", 1, "0000:af:00"),
    ])
}

#[test]
fn distinct_cards_come_before_second_ports() {
    let ports = two_dual_port_cards();
    are(
        &rails(&ports, &RailChoice::Count(2)),
        &[("mlx5_0:1", 0), ("mlx5_2:1", 1)],
    );
    let all = [
        ("mlx5_0:1", 0),
        ("mlx5_2:1", 1),
        ("mlx5_1:1", 2),
        ("mlx5_3:1", 3),
    ];
    are(&rails(&ports, &RailChoice::Auto), &all);
    // Older ones show as one device with two ports.
    let ports = arranged(&[
        port("mlx4_0", 1, "0000:3b:00"),
        port("mlx4_0", 2, "0000:3b:00"),
        port("mlx4_1", 1, "0000:af:00"),
        port("mlx4_1", 2, "0000:af:00"),
    ]);
    are(
        &rails(&ports, &RailChoice::Count(3)),
        &[("mlx4_0:1", 0), ("mlx4_1:1", 1), ("mlx4_0:2", 2)],
    );
}

#[test]
fn planes_outlast_links() {
    let mut ports = two_dual_port_cards();
    ports[0] = down(ports[0].clone());
    are(
        &rails(&ports, &RailChoice::Count(2)),
        &[("mlx5_2:1", 1), ("mlx5_1:1", 2)],
    );
    let chosen = choose(&ports, &RailChoice::Auto);
    assert_eq!(chosen.left_out[0].as_deref(), Some("its link is down"));
    assert_eq!(chosen.left_out[1..], [None, None, None]);
}

#[test]
fn ports_share_what_their_slot_carries() {
    let narrow = |port: Port| Port {
        slot_mb_s: 15_753,
        ..port
    };
    let ports: Vec<Port> = two_dual_port_cards().into_iter().map(narrow).collect();
    let chosen = choose(&ports, &RailChoice::Auto);
    let bandwidths = |chosen: &Choice| -> Vec<u64> {
        let picks = chosen.picks.iter();
        picks.map(|pick| pick.bandwidth_mb_s).collect()
    };
    assert_eq!(
        bandwidths(&chosen),
        [12_500, 12_500],
        "second ports add little"
    );
    let reason = chosen.left_out[2].as_deref().unwrap();
    assert!(
        reason.contains("slot of its card carries 15753 MB/s"),
        "{reason}"
    );
    // Who asks for four gets four, and is told what they are worth.
    let chosen = choose(&ports, &RailChoice::Count(4));
    assert_eq!(bandwidths(&chosen), [7_876; 4]);
    assert_eq!(chosen.warnings, [""; 0]);
    let names = ["mlx5_0", "mlx5_1:1", "mlx5_2"].map(str::to_owned).to_vec();
    let chosen = choose(&ports, &RailChoice::Names(names));
    assert_eq!(bandwidths(&chosen), [7_876, 7_876, 12_500]);
}

#[test]
fn eight_cards_on_two_numa_nodes_are_eight_rails() {
    let card = |i: u32| Port {
        numa_node: Some(i / 4),
        rate_mb_s: 50_000,
        slot_mb_s: 63_015,
        ..port(&format!("mlx5_{i}"), 1, &format!("0000:{i:02x}:00"))
    };
    // Two storage cards, ten times slower, whose names lie in between.
    let storage = |name| Port {
        rate_mb_s: 3_125,
        ..port(name, 1, name)
    };
    let eight: Vec<Port> = (0..12).filter(|i| i % 6 < 4).map(card).collect();
    let ports = arranged(&[eight, vec![storage("mlx5_4"), storage("mlx5_5")]].concat());
    let expected: Vec<String> = [0, 1, 2, 3, 6, 7, 8, 9]
        .map(|i| format!("mlx5_{i}:1"))
        .into();
    let found = rails(&ports, &RailChoice::Auto);
    assert_eq!(
        found
            .iter()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>(),
        expected
    );
    assert!(found.iter().map(|(_, plane)| *plane).eq(0..8));
    let chosen = choose(&ports, &RailChoice::Auto);
    let reason = chosen.left_out[4].as_deref().unwrap();
    assert!(
        reason.contains("hold others back: 3125 MB/s beside 50000"),
        "{reason}"
    );
}

#[test]
fn a_slow_port_alone_is_used() {
    let slow = Port {
        slot_mb_s: 1_000,
        ..port("mlx5_0", 1, "0000:3b:00")
    };
    let chosen = choose(&[slow], &RailChoice::Auto);
    assert_eq!(chosen.picks[0].bandwidth_mb_s, 1_000);
}

#[test]
fn link_layers_may_mix_each_on_its_plane() {
    let infiniband = Port {
        address: Some(PortAddress {
            link: Link::InfiniBand,
            gid: [0; 16],
        }),
        ..port("ibp0", 1, "ibp0")
    };
    let ports = arranged(&[port("mlx5_0", 1, "mlx5_0"), infiniband]);
    are(
        &rails(&ports, &RailChoice::Auto),
        &[("ibp0:1", 0), ("mlx5_0:1", 1)],
    );
}

#[test]
fn names_sort_naturally() {
    let mut names = ["mlx5_10", "rxe0", "mlx5_2", "mlx5_bond"];
    names.sort_by_key(|name| natural(name));
    assert_eq!(names, ["mlx5_2", "mlx5_10", "mlx5_bond", "rxe0"]);
}

#[test]
fn named_rails_keep_their_order_and_each_failure_is_said() {
    let ports = arranged(&[
        port("a0", 1, "a"),
        down(port("a1", 1, "b")),
        port("a0", 2, "a"),
    ]);
    let names = ["a0:2", "a1", "zz", "a0:2", "a0"].map(str::to_owned);
    let choice = RailChoice::Names(names.to_vec());
    are(&rails(&ports, &choice), &[("a0:2", 0), ("a0:1", 4)]);
    let chosen = choose(&ports, &choice);
    assert_eq!(
        chosen.warnings,
        [
            "rail a1 is not used: its link is down",
            "rail zz does not exist; there is a0:1 (active), a1:1 (its link is down), a0:2 (active)",
            "rail a0:2 is named twice",
        ]
    );
    let chosen = choose(&ports, &RailChoice::Names(vec!["a1".to_owned()]));
    let unnamed = Some("FERRORAIL_RAILS does not name it".to_owned());
    assert_eq!(
        chosen.left_out,
        [unnamed.clone(), Some("its link is down".into()), unnamed]
    );
    let many = RailChoice::Names((0..9).map(|_| "a0".to_owned()).collect());
    let last = choose(&ports, &many).warnings.pop();
    assert_eq!(last.as_deref(), Some("rail a0 is not used: 8 is the most"));
    let (found, warnings) = {
        let chosen = choose(&ports, &RailChoice::Count(3));
        (chosen.picks.len(), chosen.warnings)
    };
    assert_eq!((found, warnings.len()), (2, 1));
    assert_eq!(warnings, ["1 of the 3 rails asked for do not exist"]);
}

fn any_port() -> impl Strategy<Value = Port> {
    let rate = prop::sample::select(vec![0, 1_250, 12_500, 50_000]);
    let slot = prop::sample::select(vec![0, 4_000, 15_753, 63_015]);
    (0..10u8, 1..3u8, 0..6u8, any::<bool>(), rate, slot).prop_map(
        |(device, number, card, active, rate_mb_s, slot_mb_s)| {
            let port = Port {
                rate_mb_s,
                slot_mb_s,
                ..port(&format!("d{device}"), number, &format!("c{card}"))
            };
            if active { port } else { down(port) }
        },
    )
}

fn machine() -> impl Strategy<Value = Vec<Port>> {
    prop::collection::vec(any_port(), 0..20).prop_map(|mut ports| {
        ports.sort_by_key(Port::name);
        ports.dedup_by_key(|port| port.name());
        arranged(&ports)
    })
}

proptest! {
    /// The order in which a driver lists devices does not matter, and arranging twice changes nothing.
    #[test]
    fn arranging_forgets_the_order(ports in machine(), seed in any::<u64>()) {
        let mut shuffled = ports.clone();
        shuffled.sort_by_key(|port| {
            let bytes = port.name().into_bytes();
            bytes.iter().fold(seed, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
        });
        prop_assert_eq!(arranged(&shuffled), ports.clone());
        prop_assert_eq!(arranged(&ports), ports);
    }

    #[test]
    fn choices_are_sound(ports in machine(), count in 1..=8u8, auto in any::<bool>()) {
        let setting = if auto { RailChoice::Auto } else { RailChoice::Count(count) };
        let Choice { picks, left_out, .. } = choose(&ports, &setting);
        let active = ports.iter().filter(|port| port.is_active()).count();
        if !auto {
            prop_assert_eq!(picks.len(), active.min(usize::from(count)), "as many as asked for");
        }
        prop_assert_eq!(picks.is_empty(), active == 0, "a machine that has a rail uses one");
        prop_assert!(picks.windows(2).all(|w| w[0].port < w[1].port && w[0].plane < w[1].plane));
        prop_assert!(picks.iter().all(|pick| usize::from(pick.plane) < RAILS_MAX));
        // A port either is a rail or is said to be none.
        for (index, port) in ports.iter().enumerate() {
            let picked = picks.iter().any(|pick| pick.port == index);
            prop_assert_eq!(picked, left_out[index].is_none());
            prop_assert!(port.is_active() || !picked);
        }
        // No card is promised more than its slot carries, no rail more than its link.
        for pick in &picks {
            let port = &ports[pick.port];
            prop_assert!(pick.bandwidth_mb_s <= port.rate_mb_s);
            let card = picks.iter().filter(|other| ports[other.port].card == port.card);
            let sum: u64 = card.map(|other| other.bandwidth_mb_s).sum();
            let same_slot = ports.iter().all(|other| {
                other.card != port.card || other.slot_mb_s == port.slot_mb_s
            });
            prop_assert!(port.slot_mb_s == 0 || !same_slot || sum <= port.slot_mb_s);
        }
        // Nothing but the ports' links differs: rails that both machines have are of one plane.
        let mut other = ports.clone();
        if other.len() <= RAILS_MAX {
            for (index, port) in other.iter_mut().enumerate().filter(|(index, _)| index % 3 == 0) {
                if picks.iter().any(|pick| pick.port == index) {
                    *port = down(port.clone());
                }
            }
            for pick in choose(&other, &setting).picks {
                let same = picks.iter().find(|known| known.port == pick.port);
                prop_assert!(same.is_none_or(|same| same.plane == pick.plane));
            }
        }
    }
}
