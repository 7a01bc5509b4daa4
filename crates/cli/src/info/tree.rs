//! The tree of this host's rails: NUMA nodes, cards, ports.

use crate::value::{plain, rows};
use serde_json::Value;
use std::fmt::Write;

/// What is at one place of the tree.
struct Branch {
    title: String,
    below: Vec<Branch>,
}

/// The tree of the rails that `ferrorail info` reports, one line a node. Empty if there is neither a
/// port nor a rail.
pub fn text(host: &Value, rails: &Value) -> String {
    // Rails that are no ports are loopback's, on a card of their own.
    let ports = rows(&rails["ports"]).iter();
    let others = rows(&rails["rails"])
        .iter()
        .filter(|rail| rail["port"] == 0);
    let leaves: Vec<&Value> = ports.chain(others).collect();
    let mut numa_nodes: Vec<&Value> = leaves.iter().map(|leaf| &leaf["numa_node"]).collect();
    // Those close to no node come last.
    numa_nodes.sort_by_key(|node| node.as_u64().unwrap_or(u64::MAX));
    numa_nodes.dedup();
    let mut out = String::new();
    if leaves.is_empty() {
        return out;
    }
    let _ = writeln!(out, "  {}", plain(&host["name"]));
    let branches = numa_nodes.into_iter().map(|node| Branch {
        title: numa_title(node, host),
        below: cards(leaves.iter().filter(|leaf| leaf["numa_node"] == *node)),
    });
    draw(&mut out, "  ", &branches.collect::<Vec<_>>());
    out
}

fn numa_title(node: &Value, host: &Value) -> String {
    match node.as_u64() {
        None => "no NUMA node".to_owned(),
        Some(index) if host["numa_node"] == *node => format!("NUMA node {index}, as this process"),
        Some(index) => format!("NUMA node {index}"),
    }
}

fn cards<'a>(leaves: impl Iterator<Item = &'a &'a Value>) -> Vec<Branch> {
    let mut cards: Vec<(String, Branch)> = Vec::new();
    for leaf in leaves {
        let named = if leaf["card"].is_null() {
            &leaf["device"]
        } else {
            &leaf["card"]
        };
        let card = plain(named);
        let at = cards.iter().position(|(name, _)| *name == card);
        let at = at.unwrap_or_else(|| {
            let title = match leaf["slot_mb_s"].as_u64() {
                None | Some(0) => format!("NIC {card}"),
                Some(slot) => format!("NIC {card}, slot {slot} MB/s"),
            };
            let below = Vec::new();
            cards.push((card, Branch { title, below }));
            cards.len() - 1
        });
        cards[at].1.below.push(Branch {
            title: port(leaf),
            below: Vec::new(),
        });
    }
    cards.into_iter().map(|(_, branch)| branch).collect()
}

/// One line for a port: the rail that it is, or why it is none.
fn port(leaf: &Value) -> String {
    let mut facts = Vec::new();
    if let Some(reason) = leaf["left_out"].as_str() {
        facts.push(format!("not used: {reason}"));
    } else {
        facts.push(format!("rail {}", leaf["plane"]));
    }
    let known = |name: &str| leaf[name].as_u64().filter(|&value| value > 0);
    match known("bandwidth_mb_s").or_else(|| known("rate_mb_s")) {
        Some(speed) => facts.push(format!("{speed} MB/s")),
        None => facts.push("speed unknown".to_owned()),
    }
    if let (Some(share), Some(rate)) = (known("bandwidth_mb_s"), known("rate_mb_s"))
        && share < rate
    {
        facts.push(format!("of {rate} alone"));
    }
    if let Some(link) = leaf["link"].as_str() {
        facts.push(link.to_owned());
    }
    match leaf["address"].as_str() {
        Some("::") => facts.push(format!("LID {}", leaf["lid"])),
        None | Some("") => {}
        Some(address) => facts.push(format!("GID {address}")),
    }
    if let Some(mtu) = known("mtu_bytes") {
        facts.push(format!("MTU {mtu}"));
    }
    format!("{:<12} {}", plain(&leaf["name"]), facts.join(", "))
}

fn draw(out: &mut String, indent: &str, branches: &[Branch]) {
    for (index, branch) in branches.iter().enumerate() {
        let last = index + 1 == branches.len();
        let (corner, beside) = if last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let _ = writeln!(out, "{indent}{corner}{}", branch.title);
        draw(out, &format!("{indent}{beside}"), &branch.below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn port(name: &str, card: &str, numa_node: Option<u32>) -> Value {
        json!({
            "name": name, "device": name, "port": 1, "card": card, "numa_node": numa_node,
            "link": "RoCE v2", "address": "::ffff:10.0.0.1", "lid": 0, "rate_mb_s": 12500,
            "slot_mb_s": 15753, "mtu_bytes": 4096, "plane": 0, "bandwidth_mb_s": 12500,
            "left_out": null,
        })
    }

    #[test]
    fn a_tree_of_nodes_cards_and_ports() {
        let mut second = port("mlx5_1:1", "0000:3b:00", Some(1));
        second["left_out"] = json!("its port is not active: the link is down");
        second["plane"] = Value::Null;
        second["bandwidth_mb_s"] = Value::Null;
        let mut infiniband = port("ibp0:1", "0000:af:00", Some(0));
        infiniband["link"] = json!("InfiniBand");
        infiniband["address"] = json!("::");
        infiniband["lid"] = json!(17);
        infiniband["bandwidth_mb_s"] = json!(7876);
        infiniband["plane"] = json!(1);
        let rails = json!({
            "ports": [port("mlx5_0:1", "0000:3b:00", Some(1)), infiniband, second,
                port("rxe0:1", "rxe0", None)],
            "rails": [{ "name": "mlx5_0:1", "port": 1 }],
        });
        let host = json!({ "name": "node17", "numa_node": 1 });
        let expected = "  node17
  ├─ NUMA node 0
  │  └─ NIC 0000:af:00, slot 15753 MB/s
  │     └─ ibp0:1       rail 1, 7876 MB/s, of 12500 alone, InfiniBand, LID 17, MTU 4096
  ├─ NUMA node 1, as this process
  │  └─ NIC 0000:3b:00, slot 15753 MB/s
  │     ├─ mlx5_0:1     rail 0, 12500 MB/s, RoCE v2, GID ::ffff:10.0.0.1, MTU 4096
  │     └─ mlx5_1:1     not used: its port is not active: the link is down, 12500 MB/s, RoCE v2, \
                        GID ::ffff:10.0.0.1, MTU 4096
  └─ no NUMA node
     └─ NIC rxe0, slot 15753 MB/s
        └─ rxe0:1       rail 0, 12500 MB/s, RoCE v2, GID ::ffff:10.0.0.1, MTU 4096
";
        assert_eq!(text(&host, &rails), expected);
    }

    #[test]
    fn loopback_rails_are_a_card() {
        let rail = |name| json!({ "name": name, "device": "loop", "port": 0, "plane": 0 });
        let rails = json!({ "ports": [], "rails": [rail("loop0"), rail("loop1")] });
        let drawn = text(&json!({ "name": "here" }), &rails);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[2], "     └─ NIC loop");
        assert_eq!(lines[4], "        └─ loop1        rail 0, speed unknown");
        assert_eq!(text(&json!({}), &json!({ "ports": [], "rails": [] })), "");
    }
}
