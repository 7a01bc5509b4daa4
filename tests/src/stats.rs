//! The statistics file that `FERRORAIL_STATS=path` leaves, and what it must show.

use anyhow::{Context, Result, ensure};
use ferrorail_base::Topology;
use ferrorail_base::config::{FabricChoice, Settings};
use ferrorail_engine::estimate::{Asked, total};
use ferrorail_engine::{ConnectionRow, WindowRow};
use serde::Deserialize;
use std::path::Path;

/// The parts that the tests look at; sums over all ranks.
#[derive(Debug, Deserialize)]
pub struct Stats {
    /// Calls that ferrorail carried.
    pub collectives: Vec<Carried>,
    /// Traffic between nodes.
    pub rails: Vec<Rail>,
    /// Calls left to the host MPI.
    pub forwarded: Vec<Forwarded>,
    /// Data that the host MPI packed or unpacked.
    #[serde(default)]
    pub host_packing: HostPacking,
    /// What became of user buffers.
    #[serde(default)]
    pub zero_copy: ZeroCopy,
    /// Connections, and memory.
    #[serde(default)]
    pub connections: ConnectionRow,
    /// Windows, and operations on them.
    #[serde(default)]
    pub windows: Vec<WindowRow>,
}

/// Data of types too irregular for ferrorail.
#[derive(Debug, Default, Deserialize)]
pub struct HostPacking {
    /// Number of buffers.
    pub buffers: u64,
}

/// User buffers that messages go straight into, or come from.
#[derive(Debug, Default, Deserialize)]
pub struct ZeroCopy {
    /// Registrations that were refused.
    pub refused: u64,
    /// Bytes that therefore went in pieces.
    pub bounced_bytes: u64,
}

/// Calls of one collective, algorithm and size class.
#[derive(Debug, Deserialize)]
pub struct Carried {
    /// Such as `allgather`.
    pub collective: String,
    /// Such as `smp_bruck`.
    pub algorithm: String,
    /// Such as `scratch`.
    pub landing: String,
    /// Number of calls.
    pub calls: u64,
}

/// One rail.
#[derive(Debug, Deserialize)]
pub struct Rail {
    /// Its name.
    pub rail: String,
    /// Bytes it carried.
    pub bytes: u64,
    /// Times that a lane of it failed.
    #[serde(default)]
    pub failures: u64,
    /// Chunks of checked messages that it damaged.
    #[serde(default)]
    pub damaged: u64,
    /// Times that one was taken into use again.
    #[serde(default)]
    pub readmissions: u64,
}

/// Calls left to the host MPI for one reason.
#[derive(Debug, Deserialize)]
pub struct Forwarded {
    /// Such as `allgather`.
    pub collective: String,
    /// Why.
    pub reason: String,
    /// Number of calls.
    pub calls: u64,
}

impl Forwarded {
    /// Whether ferrorail leaves the collective to the host, whatever the arguments.
    fn is_of_the_hosts_own(&self) -> bool {
        let name = self.collective.as_str();
        self.reason == "not offered" && (name == "alltoallw" || name.starts_with("neighbor_"))
    }
}

impl Stats {
    /// Reads the file.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).context("no statistics were written")?;
        serde_json::from_str(&text).with_context(|| format!("statistics: {text}"))
    }

    /// Whether calls were carried, with every forced algorithm among those that carried them.
    pub fn check_taken(&self, forced: Option<&str>) -> Result<()> {
        let collectives = self.collectives.iter().map(|row| row.calls);
        let operations = |row: &WindowRow| row.puts + row.gets + row.accumulates;
        let calls: u64 = collectives.chain(self.windows.iter().map(operations)).sum();
        ensure!(calls > 0, "ferrorail carried no call");
        let settings = forced.into_iter().flat_map(|text| text.split(','));
        for (collective, algorithm) in settings.filter_map(|one| one.split_once('=')) {
            let of_it = || {
                self.collectives
                    .iter()
                    .filter(|row| row.collective == collective)
            };
            let seen: Vec<&str> = of_it().map(|row| row.algorithm.as_str()).collect();
            ensure!(
                of_it().any(|row| row.algorithm == algorithm && row.calls > 0),
                "{algorithm} was forced but never ran (ran: {})",
                seen.join(", ")
            );
        }
        Ok(())
    }

    /// Calls left to the host, but for those of collectives that ferrorail does not take at all.
    pub fn unexplained(&self) -> impl Iterator<Item = &Forwarded> {
        let rows = self.forwarded.iter().filter(|row| row.calls > 0);
        rows.filter(|row| !row.is_of_the_hosts_own())
    }

    /// Whether calls were forwarded for just the expected reasons. A reason matches by its start,
    /// so that it may go on with particulars.
    pub fn check_forwarded(&self, expected: &[String]) -> Result<()> {
        for row in self.unexplained() {
            let known = expected.iter().any(|reason| row.reason.starts_with(reason));
            let Forwarded {
                collective,
                reason,
                calls,
            } = row;
            ensure!(
                known,
                "{calls} calls of {collective} were forwarded: {reason}"
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
        let used = used.map(|row| (&*row.collective, &*row.algorithm, &*row.landing));
        let estimated = total(&asked, settings, used)?;
        let found = &self.connections;
        let alike = (
            found.peers,
            found.peers_max,
            found.queue_pairs,
            found.segment_bytes,
        ) == (
            estimated.peers,
            estimated.peers_max,
            estimated.queue_pairs,
            estimated.segment_bytes,
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
    pub fn check_bounced(&self, wanted: bool) -> Result<()> {
        let ZeroCopy {
            refused,
            bounced_bytes,
        } = self.zero_copy;
        ensure!(
            wanted == (refused > 0) && wanted == (bounced_bytes > 0),
            "{refused} registrations were refused, and {bounced_bytes} bytes went in pieces"
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
mod tests {
    use super::*;

    fn stats(calls: u64, rails: [u64; 2]) -> Stats {
        let text = format!(
            r#"{{"version":1,"ranks":2,"collectives":[{{"collective":"allgather",
            "algorithm":"ring","landing":"scratch","size_class_bytes":8,"calls":{calls},
            "bytes":1}}],"rails":[{{"rail":"loop0","messages":1,"bytes":{}}},
            {{"rail":"loop1","messages":1,"bytes":{}}}],"forwarded":[{{"collective":"allgather",
            "reason":"inter-communicator","calls":1,"bytes":0}}],"settings":{{}}}}"#,
            rails[0], rails[1]
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn interception_must_show() {
        assert!(stats(1, [1, 1]).check_taken(None).is_ok());
        assert!(stats(0, [1, 1]).check_taken(None).is_err());
        assert!(stats(1, [1, 1]).check_taken(Some("allgather=ring")).is_ok());
        assert!(
            stats(1, [1, 1])
                .check_taken(Some("allgather=bruck"))
                .is_err()
        );
    }

    #[test]
    fn forwarded_calls_must_be_the_expected_ones() {
        let stats = stats(1, [1, 1]);
        assert!(
            stats
                .check_forwarded(&["inter-communicator".into()])
                .is_ok()
        );
        assert!(stats.check_forwarded(&[]).is_err());
        let more = ["inter-communicator".into(), "size".into()];
        assert!(stats.check_forwarded(&more).is_err());
    }

    #[test]
    fn rails_must_be_even() {
        assert!(stats(1, [100, 96]).check_even_rails().is_ok());
        assert!(stats(1, [100, 95]).check_even_rails().is_err());
        assert!(stats(1, [0, 0]).check_even_rails().is_err());
    }

    #[test]
    fn messages_of_locks_are_counted_per_acquisition() {
        let mut stats = stats(1, [0, 0]);
        assert!(stats.check_lock_messages(4.0).is_err());
        let window = |acquired, lock_messages| WindowRow {
            acquired,
            lock_messages,
            ..WindowRow::default()
        };
        stats.windows = vec![window(10, 20), window(10, 40)];
        assert!(stats.check_lock_messages(3.0).is_ok());
        assert!(stats.check_lock_messages(2.9).is_err());
        stats.windows.push(window(100, 0));
        assert!(stats.check_lock_messages(3.0).is_err());
    }

    #[test]
    fn rails_that_carried_bytes_are_counted() {
        assert!(stats(1, [100, 1]).check_rails_used(2).is_ok());
        assert!(stats(1, [100, 0]).check_rails_used(2).is_err());
        assert!(stats(1, [100, 0]).check_rails_used(1).is_ok());
    }
}
