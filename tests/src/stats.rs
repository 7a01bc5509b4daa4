//! The statistics file that `FERRORAIL_STATS=path` leaves, and what it must show.

use crate::list::Environment;
use anyhow::{Context, Result, ensure};
use ferrorail_base::Topology;
use ferrorail_base::config::{FabricChoice, Settings};
use ferrorail_coll::find_collective;
use ferrorail_coll::named::named;
use ferrorail_engine::estimate::{Asked, total};
use ferrorail_engine::{CallRow, ForwardRow, Report, WindowRow};
use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::Path;

/// What the file says; sums over all ranks.
pub struct Stats(Report);

impl Deref for Stats {
    type Target = Report;

    fn deref(&self) -> &Report {
        &self.0
    }
}

/// Nodes that `ranks`, which fill `hosts` one after the other, are grouped into by `FERRORAIL_NODE_SIZE`.
fn nodes(ranks: u32, hosts: u32, settings: &Environment) -> u32 {
    let size = settings.get("FERRORAIL_NODE_SIZE");
    let size = size
        .and_then(|size| size.parse().ok())
        .filter(|&size| size > 0);
    let host = |rank| u64::from(rank * hosts / ranks);
    let hosts: Vec<u64> = (0..ranks).map(host).collect();
    Topology::from_host_keys(&hosts, size).node_count()
}

/// Whether ferrorail leaves the collective to the host, whatever the arguments, or a non-blocking one for what is said to be
/// the host's.
fn is_the_hosts_own(row: &ForwardRow) -> bool {
    let is_of_neighbours = row.collective.starts_with("neighbor_");
    row.reason == "not offered" && is_of_neighbours || row.reason.starts_with("non-blocking")
}

impl Stats {
    /// Reads the file.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).context("no statistics were written")?;
        let report = serde_json::from_str(&text);
        report
            .map(Self)
            .with_context(|| format!("statistics: {text}"))
    }

    /// Whether calls were carried.
    pub fn check_taken(&self) -> Result<()> {
        let collectives = self.collectives.iter().map(|row| row.calls);
        let operations = |row: &WindowRow| row.puts + row.gets + row.accumulates;
        let calls: u64 = collectives.chain(self.windows.iter().map(operations)).sum();
        ensure!(calls > 0, "ferrorail carried no call");
        Ok(())
    }

    /// What ran on which shape of team: `RANKS/NODES COLLECTIVE ALGORITHM:PROTOCOL`.
    pub fn ran(&self) -> impl Iterator<Item = String> {
        let rows = self.collectives.iter().filter(|row| row.calls > 0);
        rows.map(|row| {
            let (shape, collective) = (format!("{}/{}", row.ranks, row.nodes), &row.collective);
            format!("{shape} {collective} {}:{}", row.algorithm, row.protocol)
        })
    }

    /// Whether each algorithm that `settings` force ran on a team of all `ranks`, which fill `hosts` one
    /// after the other, in the nodes that they make.
    pub fn check_forced(&self, ranks: u32, hosts: u32, settings: &Environment) -> Result<()> {
        let Some(forced) = settings.get("FERRORAIL_ALGORITHM") else {
            return Ok(());
        };
        let nodes = nodes(ranks, hosts, settings);
        for (collective, algorithm) in forced.split(',').filter_map(|one| one.split_once('=')) {
            let of_it = || {
                let rows = self.collectives.iter();
                rows.filter(|row| row.collective == collective && row.calls > 0)
            };
            let shown = |row: &CallRow| {
                let (algorithm, protocol) = (&row.algorithm, &row.protocol);
                let shape = format!("{} ranks in {} nodes", row.ranks, row.nodes);
                format!("{algorithm}:{protocol} on {shape}")
            };
            let seen: BTreeSet<String> = of_it().map(shown).collect();
            // What goes by size runs one of two.
            let named = named(find_collective(collective)?, algorithm)?;
            let parts = [0, u64::MAX].map(|bytes| named.at(bytes));
            let [Some(small), Some(large)] = parts else {
                self.check_left(collective)?;
                continue;
            };
            let parts = [small, large].map(|variant| variant.to_string());
            ensure!(
                of_it().any(|row| parts.contains(&row.algorithm)
                    && (row.ranks, row.nodes) == (ranks, nodes)
                    && row.chosen_by == "forced"),
                "{algorithm} was forced on {ranks} ranks in {nodes} nodes but never ran (ran: {})",
                seen.into_iter().collect::<Vec<_>>().join(", ")
            );
        }
        Ok(())
    }

    /// Whether at least so many of a hundred collectives were carried.
    pub fn check_share(&self, percent: u64) -> Result<()> {
        let taken: u64 = self.collectives.iter().map(|row| row.calls).sum();
        let left: u64 = self.forwarded.iter().map(|row| row.calls).sum();
        let all = taken + left;
        ensure!(
            taken * 100 >= percent * all,
            "ferrorail carried {taken} of {all} calls, less than {percent} %"
        );
        Ok(())
    }

    /// Whether `collective` was left to the host by choice. What moves nothing, or has one rank, needs no host.
    fn check_left(&self, collective: &str) -> Result<()> {
        let of_it = self
            .collectives
            .iter()
            .filter(|row| row.collective == collective);
        let taken = of_it.filter(|row| row.ranks > 1 && row.bytes > 0).count();
        let left = self.forwarded.iter().any(|row| {
            row.collective == collective && row.reason.starts_with("the host is chosen")
        });
        ensure!(
            taken == 0 && left,
            "{collective} was to be left to the host; taken in {taken} ways, left: {left}"
        );
        Ok(())
    }

    /// Calls left to the host, but for those of collectives that ferrorail does not take at all.
    pub fn unexplained(&self) -> impl Iterator<Item = &ForwardRow> {
        let rows = self.forwarded.iter().filter(|row| row.calls > 0);
        rows.filter(|row| !is_the_hosts_own(row))
    }

    /// Whether calls were forwarded for just the expected reasons. A reason matches by its start,
    /// so that it may go on with particulars.
    pub fn check_forwarded(&self, expected: &[String]) -> Result<()> {
        for row in self.unexplained() {
            let known = expected.iter().any(|reason| row.reason.starts_with(reason));
            let (calls, collective) = (row.calls, &row.collective);
            ensure!(
                known,
                "{calls} calls of {collective} were forwarded: {}",
                row.reason
            );
        }
        for reason in expected {
            let seen = self
                .forwarded
                .iter()
                .any(|row| row.reason.starts_with(reason));
            ensure!(seen, "no call was forwarded with the reason `{reason}`");
        }
        Ok(())
    }

    /// Whether the host packed data, just if that is expected.
    pub fn check_packing(&self, by_host: bool) -> Result<()> {
        let buffers = self.host_packing.buffers;
        ensure!(
            by_host == (buffers > 0),
            "the host packed {buffers} buffers, expected {}",
            if by_host { "some" } else { "none" }
        );
        Ok(())
    }

    /// Whether connections and memory are as estimated for the algorithms that ran, in a job of
    /// `ranks` on one host whose only communicator with collectives is the world.
    pub fn check_estimate(&self, ranks: u32, settings: &Settings) -> Result<()> {
        let asked = Asked {
            topology: Topology::from_host_keys(&vec![0; ranks as usize], settings.node_size),
            rails: self.rails.len() as u8,
            ports: None,
        };
        let used = self.collectives.iter();
        let used = used.map(|row| (&*row.collective, &*row.algorithm, &*row.protocol));
        let estimated = total(&asked, settings, used)?;
        let found = &self.connections;
        let alike = (
            found.peers,
            found.peers_max,
            found.queue_pairs,
            found.segment_bytes,
            found.segment_bytes_registered,
        ) == (
            estimated.peers,
            estimated.peers_max,
            estimated.queue_pairs,
            estimated.segment_bytes,
            estimated.segment_bytes_registered,
        );
        // Devices may make queues larger than they are asked to.
        let bytes = match settings.fabric {
            FabricChoice::Loopback => found.bytes == estimated.bytes,
            _ => (estimated.bytes..=2 * estimated.bytes).contains(&found.bytes),
        };
        ensure!(
            alike && bytes && found.peers > 0,
            "the statistics show {found:?}, the estimate is {estimated:?}"
        );
        Ok(())
    }

    /// Whether that many rails carried bytes.
    pub fn check_rails_used(&self, wanted: usize) -> Result<()> {
        let used = self.rails.iter().filter(|rail| rail.bytes > 0).count();
        ensure!(used == wanted, "{used} rails carried bytes, not {wanted}");
        Ok(())
    }

    /// Whether an acquisition and release of a lock took at most `most` remote messages in the mean,
    /// with every contender on a node other than the target's.
    pub fn check_lock_messages(&self, most: f64) -> Result<()> {
        let sum = |of: fn(&WindowRow) -> u64| self.windows.iter().map(of).sum::<u64>() as f64;
        let each = sum(|row| row.lock_messages) / sum(|row| row.acquired);
        ensure!(
            (2.0..=most).contains(&each),
            "an acquisition and release took {each:.2} remote messages, not 2 to {most}"
        );
        Ok(())
    }

    /// Whether a lane of some rail failed.
    pub fn check_failover(&self) -> Result<()> {
        let failures: u64 = self.rails.iter().map(|rail| rail.failures).sum();
        ensure!(failures > 0, "no lane failed, though that was asked for");
        Ok(())
    }

    /// Whether registrations were refused and messages went in pieces, just if that is expected.
    pub fn check_staged(&self, wanted: bool) -> Result<()> {
        let (refused, staged_bytes) = (self.zero_copy.refused, self.zero_copy.staged_bytes);
        ensure!(
            wanted == (refused > 0) && wanted == (staged_bytes > 0),
            "{refused} registrations were refused, and {staged_bytes} bytes went in pieces"
        );
        Ok(())
    }

    /// Whether some rail damaged chunks that were checked.
    pub fn check_damaged(&self) -> Result<()> {
        let damaged: u64 = self.rails.iter().map(|rail| rail.damaged).sum();
        ensure!(
            damaged > 0,
            "nothing was damaged, though that was asked for"
        );
        Ok(())
    }

    /// Whether the counters of multicasts that `names` says are not 0, or are after `no `.
    pub fn check_multicast(&self, names: &[String]) -> Result<()> {
        let counters = serde_json::to_value(self.multicast)?;
        for name in names {
            let (wanted, name) = match name.strip_prefix("no ") {
                None => (true, &**name),
                Some(name) => (false, name),
            };
            let count = counters[name].as_u64();
            let count = count.with_context(|| format!("multicasts have no counter `{name}`"))?;
            ensure!(wanted == (count > 0), "{count} {name} of multicasts");
        }
        Ok(())
    }

    /// Whether lanes failed, and came back.
    pub fn check_readmissions(&self) -> Result<()> {
        self.check_failover()?;
        let readmissions: u64 = self.rails.iter().map(|rail| rail.readmissions).sum();
        ensure!(readmissions > 0, "no lane was used again");
        Ok(())
    }

    /// Whether two or more rails carried bytes, differing by less than 5 %.
    pub fn check_even_rails(&self) -> Result<()> {
        let bytes = || self.rails.iter().map(|rail| rail.bytes);
        let (least, most) = (bytes().min().unwrap_or(0), bytes().max().unwrap_or(0));
        let shown: Vec<String> = self
            .rails
            .iter()
            .map(|rail| format!("{} {}", rail.rail, rail.bytes))
            .collect();
        let even = self.rails.len() >= 2 && least > 0 && (most - least) * 20 < most;
        ensure!(
            even,
            "bytes are not even over the rails: {}",
            shown.join(", ")
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests;
