//! The report as text.

use super::Report;
use crate::CallRow;
use crate::choice::by_length;
use crate::rows::merge_all;
use crate::window::statistics;
use ferrorail_base::units::format_bytes;
use ferrorail_coll::Collective;
use std::fmt::Write as _;

/// Calls and bytes are sums; rounds, messages of a rank and time are means per call.
const COLUMNS: &str = concat!(
    "  collective           algorithm                    protocol      up to        calls",
    "            bytes  chosen   rounds messages predicted us\n"
);

/// In the place of lengths that no rank knows, or that there are not.
const UNKNOWN: &str = "-";

/// Whether calls are counted by size.
fn has_lengths(row: &CallRow) -> bool {
    let collective = Collective::from_name(&row.collective);
    collective.is_none_or(|which| which != Collective::Barrier && !by_length(which))
}

impl Report {
    fn add_rails(&self, text: &mut String) {
        for row in &self.rails {
            let _ = writeln!(
                text,
                "  rail {:<12} {:<9} {:>12} messages {:>16} bytes",
                row.rail, row.fabric, row.messages, row.bytes
            );
            if row.failures > 0 {
                let _ = writeln!(
                    text,
                    "       {:<12} failed {} times, used again {} times, {} messages resent",
                    row.rail, row.failures, row.readmissions, row.resent
                );
            }
            if row.damaged > 0 {
                let _ = writeln!(
                    text,
                    "       {:<12} damaged {} chunks",
                    row.rail, row.damaged
                );
            }
        }
        if self.checked_messages > 0 {
            let damaged: u64 = self.rails.iter().map(|row| row.damaged).sum();
            let _ = writeln!(
                text,
                "  checked end to end {:>12} messages, {damaged} chunks damaged and sent again",
                self.checked_messages
            );
        }
        let direct = &self.zero_copy;
        if direct.registered + direct.refused > 0 {
            let _ = writeln!(
                text,
                "  user buffers {:>18} registered {:>8} refused; {} messages of {} bytes in pieces",
                direct.registered, direct.refused, direct.staged_messages, direct.staged_bytes
            );
        }
        let packing = &self.host_packing;
        if packing.buffers > 0 {
            let _ = writeln!(
                text,
                "  packed by the host {:>12} buffers {:>16} bytes: irregular types",
                packing.buffers, packing.bytes
            );
        }
    }

    fn add_multicast(&self, text: &mut String) {
        let row = &self.multicast;
        if row.communicators + row.refused == 0 {
            return;
        }
        let _ = writeln!(
            text,
            "  multicast {:>14} messages {:>9} datagrams {:>16} bytes sent; {} synchronisations",
            row.messages, row.datagrams, row.bytes, row.synchronisations
        );
        if row.rail_bytes.iter().filter(|bytes| **bytes > 0).count() > 1 {
            let used = row.rail_bytes.iter().take_while(|bytes| **bytes > 0);
            let by_rail: Vec<_> = used.map(u64::to_string).collect();
            let _ = writeln!(text, "       bytes by rail {}", by_rail.join(", "));
        }
        let repeated = row.multicast_retransmissions + row.unicast_retransmissions;
        if row.nacks + repeated + row.damaged + row.duplicates > 0 {
            let _ = writeln!(
                text,
                "       {} NACKs, {} datagrams sent again to all, {} to one, {} damaged, {} came twice",
                row.nacks,
                row.multicast_retransmissions,
                row.unicast_retransmissions,
                row.damaged,
                row.duplicates
            );
        }
        if row.failovers + row.rails_lost + row.refused > 0 {
            let _ = writeln!(
                text,
                "       gave way to trees {} times and came back {}, lost a rail {} times and took it back \
                 {}; {} communicators have none",
                row.failovers, row.returns, row.rails_lost, row.rails_returned, row.refused
            );
        }
    }

    fn add_connections(&self, text: &mut String) {
        let row = &self.connections;
        if row.peers > 0 {
            let _ = writeln!(
                text,
                "  connections {:>12} ({} of one rank at most), {} queue pairs, {} bytes",
                row.peers, row.peers_max, row.queue_pairs, row.bytes
            );
        }
        if row.segments > 0 {
            let _ = writeln!(
                text,
                "  node segments {:>10}, {} bytes of flags and scratch, {} of them registered",
                row.segments, row.segment_bytes, row.segment_bytes_registered
            );
        }
    }

    /// The table that `FERRORAIL_STATS=1` prints.
    pub fn table(&self) -> String {
        let nodes = match self.nodes {
            0 => String::new(),
            nodes => format!(", {nodes} nodes"),
        };
        let (version, ranks) = (&self.version, self.ranks);
        let mut text = format!("ferrorail {version} statistics: {ranks} ranks{nodes}\n");
        self.collective_calls.add_to(&mut text);
        if !self.collectives.is_empty() {
            text.push_str(COLUMNS);
        }
        let of_any_shape = |row: &CallRow| CallRow {
            ranks: 0,
            nodes: 0,
            ..row.clone()
        };
        let mut lines = Vec::new();
        merge_all(&mut lines, self.collectives.iter().map(of_any_shape));
        for row in &lines {
            let per_call = |sum: f64| sum / row.calls as f64;
            let lengths = has_lengths(row).then_some((row.size_class_bytes, row.bytes));
            let _ = writeln!(
                text,
                "  {:<20} {:<28} {:<10} {:>8} {:>12} {:>16}  {:<8} {:>6.1} {:>8.1} {:>12.2}",
                row.collective,
                row.algorithm,
                row.protocol,
                lengths.map_or(UNKNOWN.into(), |(class, _)| format_bytes(class)),
                row.calls,
                lengths.map_or(UNKNOWN.into(), |(_, bytes)| bytes.to_string()),
                row.chosen_by,
                per_call(row.rounds as f64),
                per_call(row.messages as f64),
                per_call(row.predicted_total_us),
            );
        }
        statistics::table(&self.windows, &mut text);
        self.add_rails(&mut text);
        self.add_multicast(&mut text);
        self.add_connections(&mut text);
        for row in &self.forwarded {
            let _ = writeln!(
                text,
                "  forwarded {:<20} {:>12} calls {:>16} bytes: {}",
                row.collective, row.calls, row.bytes, row.reason
            );
        }
        if self.forwarded.is_empty() {
            text.push_str("  forwarded 0\n");
        }
        text
    }
}
