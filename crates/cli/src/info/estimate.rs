//! `ferrorail info --estimate`: what a communicator would take.

use anyhow::{Result, ensure};
use ferrorail_base::Topology;
use ferrorail_base::config::Settings;
use ferrorail_base::units::format_bytes;
use ferrorail_engine::choice::Left;
use ferrorail_engine::estimate::{Asked, Estimate, Need, Row, estimate};
use std::fmt::Write;

/// Most ranks that are worth imagining.
const RANKS_MAX: u32 = 1 << 20;

/// What the command line says.
pub struct Wanted {
    pub nodes: u32,
    pub node_size: u32,
    pub rails: Option<u8>,
    pub ports: Option<u8>,
}

/// Counts.
pub fn collect(wanted: &Wanted, settings: &Settings) -> Result<Estimate> {
    let ranks = u64::from(wanted.nodes) * u64::from(wanted.node_size);
    ensure!(
        ranks <= u64::from(RANKS_MAX),
        "--nodes times --node-size exceeds {RANKS_MAX} ranks"
    );
    let asked = Asked {
        topology: Topology::from_sizes(&vec![wanted.node_size; wanted.nodes as usize]),
        rails: crate::rail_count(wanted.rails, settings)?,
        ports: wanted.ports,
    };
    Ok(estimate(&asked, settings)?)
}

/// The counts for people.
pub fn text(e: &Estimate) -> String {
    let mut out = format!(
        "{} ranks on {} nodes of {}, {} rails ({}), k = {}\n",
        e.ranks, e.nodes, e.node_size, e.rails, e.fabric, e.ports
    );
    if e.ranks > e.ranks_max {
        let _ = writeln!(
            out,
            "a communicator of more than {} ranks is left to the host MPI: what follows is what it \
             would take",
            e.ranks_max
        );
    }
    let _ = writeln!(
        out,
        "\nMemory of a communicator              per rank       per node"
    );
    let node = u64::from(e.node_size);
    for (name, bytes) in [
        ("scratch", e.scratch_bytes_of_rank),
        ("flags, RTRs, eager slots", e.flag_bytes_of_rank),
    ] {
        let _ = writeln!(
            out,
            "  {name:<34} {:>9} {:>14}",
            size(bytes),
            size(bytes * node)
        );
    }
    let whole = ("node segment", e.segment_bytes_of_node);
    let front = ("  registered at first, for barriers", e.front_bytes_of_node);
    let data = (
        "  registered with the first data",
        e.registered_bytes_of_node,
    );
    let registered = [front, data].into_iter().filter(|_| e.nodes > 1);
    for (name, bytes) in [whole].into_iter().chain(registered) {
        let _ = writeln!(out, "  {name:<34} {:>9} {:>14}", "", size(bytes));
    }
    let _ = writeln!(
        out,
        "\nConnections, {} each, made when a schedule first names a peer on another node\n  \
         {:<78} {:>7} {:>12} {:>9} {:>12} {:>12}",
        size(e.connection_bytes),
        "",
        "peers",
        "queue pairs",
        "memory",
        "queue pairs",
        "memory"
    );
    let _ = writeln!(
        out,
        "  {:<78} {:>7} {:>12} {:>9} {:>12} {:>12}",
        "", "of rank", "of rank", "of rank", "of node", "of node"
    );
    for row in &e.rows {
        need(&mut out, &name(row), &row.need);
    }
    need(
        &mut out,
        "all of these but alltoall and alltoallv",
        &e.without_all_to_all,
    );
    need(&mut out, "all of these", &e.all);
    need(&mut out, "everyone with everyone, at worst", &e.worst);
    let rooted = "of rooted collectives the root is rank 0; other roots connect other ranks";
    let _ = writeln!(out, "  ({rooted})");
    out
}

fn name(row: &Row) -> String {
    let sizes = match (row.from_bytes, row.to_bytes) {
        (0, None) => "all sizes".to_owned(),
        (0, Some(to)) => format!("up to {}", format_bytes(to)),
        (from, _) => format!("above {}", format_bytes(from - 1)),
    };
    let algorithm = match row.left_to_host {
        Some(Left::QueuePairs) => "left to the host (FERRORAIL_QUEUE_PAIRS)".to_owned(),
        Some(Left::Chosen) => "left to the host, as chosen".to_owned(),
        None => format!("{} ({})", row.algorithm, row.protocol),
    };
    format!("{:<20} {algorithm:<44} {sizes}", row.collective)
}

fn need(out: &mut String, name: &str, need: &Need) {
    let _ = writeln!(
        out,
        "  {name:<78} {:>7} {:>12} {:>9} {:>12} {:>12}",
        need.peers_of_rank,
        need.queue_pairs_of_rank,
        size(need.bytes_of_rank),
        need.queue_pairs_of_node,
        size(need.bytes_of_node)
    );
}

/// Three digits of a size.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for suffix in ["B", "KB", "MB", "GB"] {
        if value < 1024.0 {
            return format!(
                "{value:.*} {suffix}",
                usize::from(value < 10.0 && suffix != "B")
            );
        }
        value /= 1024.0;
    }
    format!("{value:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1000), "1000 B");
        assert_eq!(size(1536), "1.5 KB");
        assert_eq!(size(40 << 20), "40 MB");
        assert_eq!(size(3 << 40), "3.0 TB");
    }

    #[test]
    fn the_text_says_what_the_numbers_are() {
        let wanted = Wanted {
            nodes: 4,
            node_size: 2,
            rails: Some(2),
            ports: None,
        };
        let estimate = collect(&wanted, &Settings::default()).expect("the shipped table");
        let text = text(&estimate);
        assert!(
            text.starts_with("8 ranks on 4 nodes of 2, 2 rails (verbs), k = 2\n"),
            "{text}"
        );
        let worst = text
            .lines()
            .find(|line| line.contains("everyone with everyone"));
        let numbers: Vec<&str> = worst.expect("a line").split_whitespace().collect();
        assert_eq!(
            numbers[5..7],
            ["6", "12"],
            "peers and queue pairs of a rank"
        );
        assert!(!text.contains("left to the host"));
        let wanted = Wanted {
            nodes: 1 << 16,
            node_size: 1 << 10,
            ..wanted
        };
        assert!(collect(&wanted, &Settings::default()).is_err());
    }
}
