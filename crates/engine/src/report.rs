//! The statistics report at finalize: a table, or JSON.

mod table;

use crate::agree::gather;
use crate::multicast::MulticastRow;
use crate::rows::{Row, add_fields, merge_all};
use crate::share::ShareRow;
use crate::stats::{CallRow, ConnectionRow, ForwardRow, HostPackingRow, ZeroCopyRow};
use crate::window::statistics::WindowRow;
use crate::{Context, EngineError, Team};
use ferrorail_base::config::StatsSink;
use ferrorail_base::{Rank, complain};
use ferrorail_bootstrap::Oob;
use ferrorail_fabric::{Attributes, Connections};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Traffic of one rail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailRow {
    /// `verbs` or `loopback`.
    pub fabric: String,
    /// Name of the rail.
    pub rail: String,
    /// Messages posted.
    pub messages: u64,
    /// Bytes posted.
    pub bytes: u64,
    /// Times a lane of it failed.
    pub failures: u64,
    /// Times a failed lane was taken into use again.
    pub readmissions: u64,
    /// Operations that other rails repeated.
    pub resent: u64,
    /// Chunks that arrived damaged and were sent again (`FERRORAIL_RELIABLE`).
    #[serde(default)]
    pub damaged: u64,
}

/// What `FERRORAIL_STATS` writes: sums over `ranks` processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Version of ferrorail.
    pub version: String,
    /// Processes the report covers.
    pub ranks: u32,
    /// Nodes, virtual ones included, of the team that reports; 0 if there was none.
    pub nodes: u32,
    /// Calls by collective, algorithm and size class.
    pub collectives: Vec<CallRow>,
    /// How many of the program's collective calls ran here.
    #[serde(default)]
    pub collective_calls: ShareRow,
    /// Traffic by rail.
    pub rails: Vec<RailRow>,
    /// Calls left to the host MPI, by reason.
    pub forwarded: Vec<ForwardRow>,
    /// Data of irregular types.
    #[serde(default)]
    pub host_packing: HostPackingRow,
    /// Messages that were checked end to end (`FERRORAIL_RELIABLE`).
    #[serde(default)]
    pub checked_messages: u64,
    /// User buffers that large messages go straight into, or come from.
    #[serde(default)]
    pub zero_copy: ZeroCopyRow,
    /// Multicasts between nodes.
    #[serde(default)]
    pub multicast: MulticastRow,
    /// Connections, and memory.
    #[serde(default)]
    pub connections: ConnectionRow,
    /// Windows by kind.
    #[serde(default)]
    pub windows: Vec<WindowRow>,
}

impl Row for RailRow {
    fn is_like(&self, other: &Self) -> bool {
        (&self.fabric, &self.rail) == (&other.fabric, &other.rail)
    }

    fn add(&mut self, other: &Self) {
        add_fields!(self, other, messages bytes failures readmissions resent damaged);
    }
}

impl Context {
    /// Ends all use of ferrorail in this process: reports, and leaves `teams` and those that were
    /// `retired` before. `world` is the team of all processes, if it was ever made: the report then
    /// covers them all. Collective over `world` if that is given; without it all processes report
    /// through `others`, and without either rank 0 of the job, `rank`, reports for itself alone.
    pub fn finalize(
        &self,
        world: Option<&Arc<Team>>,
        teams: Vec<Arc<Team>>,
        mut retired: Vec<Arc<Team>>,
        rank: Rank,
        others: Option<&mut dyn Oob>,
    ) {
        // They count their calls.
        let teams: Vec<_> = teams.into_iter().filter(|team| team.retire()).collect();
        match world {
            None => {
                let own = self.own_report();
                let all = others.and_then(|oob| gather(oob, "statistics exchange", &own).ok());
                self.emit(&all.map_or(own, Report::sum), rank);
            }
            Some(world) => {
                if let Err(error) = self.settle(world) {
                    tracing::debug!("at finalize: {error}");
                }
            }
        }
        retired.extend(teams);
        retired.extend(world.filter(|team| team.retire()).cloned());
        self.part(retired);
        self.stop_watchdogs();
    }

    /// Gathers the report, also after an error that the program handled: others may know nothing of
    /// that. All ranks of a team share `FERRORAIL_STATS`'s being set, so all take part.
    fn settle(&self, world: &Team) -> Result<(), EngineError> {
        let mut state = world.state();
        if !world.map.settings.stats {
            return Ok(());
        }
        if let Some(died) = world.map.dead_peer("finalize") {
            return Err(died);
        }
        state.plans.flush_counts(&world.map, self.stats());
        let mut own = self.own_report();
        own.nodes = world.map.topology.node_count();
        let reports = gather(state.oob(), "statistics exchange", &own)?;
        self.emit(&Report::sum(reports), world.map.rank);
        Ok(())
    }

    fn own_report(&self) -> Report {
        let (collectives, forwarded) = self.stats().rows();
        let mut rails = Vec::new();
        for fabric in self.opened_rails() {
            let Attributes {
                name, rails: infos, ..
            } = fabric.attributes();
            for (info, counters) in infos.iter().zip(fabric.statistics().rails) {
                rails.push(RailRow {
                    fabric: (*name).into(),
                    rail: info.name.clone(),
                    messages: counters.messages,
                    bytes: counters.bytes,
                    failures: counters.failures,
                    readmissions: counters.readmissions,
                    resent: counters.resent,
                    damaged: self.stats().damaged_chunks(name, &info.name),
                });
            }
        }
        Report {
            version: env!("CARGO_PKG_VERSION").into(),
            ranks: 1,
            nodes: 0,
            collective_calls: ShareRow::of(&collectives, &forwarded),
            collectives,
            rails,
            forwarded,
            host_packing: self.stats().host_packing.lock().clone(),
            checked_messages: self.stats().checked_messages(),
            zero_copy: self.stats().zero_copy(),
            multicast: self.multicasts(),
            connections: self.connections(),
            windows: self.stats().windows.lock().clone(),
        }
    }

    /// Connections over all rails opened so far, and memory of teams.
    pub fn connections(&self) -> ConnectionRow {
        let opened = self.opened_rails();
        let all = opened.iter().map(|fabric| fabric.statistics().connections);
        let all = all.fold(Connections::default(), Connections::plus);
        let stats = self.stats();
        ConnectionRow {
            peers: all.peers,
            peers_max: all.peers,
            queue_pairs: all.queue_pairs,
            bytes: all.bytes,
            segments: stats.segments.get(),
            segment_bytes: stats.segment_bytes.get(),
            segment_bytes_registered: stats.segment_bytes_registered.get(),
        }
    }

    fn emit(&self, report: &Report, rank: Rank) {
        if rank != Rank(0) {
            return;
        }
        match &self.settings().stats {
            StatsSink::Off => {}
            StatsSink::Print => complain(format_args!("{}", report.table().trim_end())),
            StatsSink::File(path) => {
                if let Err(said) = report.write(path) {
                    complain(format_args!("ferrorail: FERRORAIL_STATS={said}"));
                }
            }
        }
    }
}

impl Report {
    /// Writes it to a file, as JSON.
    ///
    /// # Errors
    /// Why that cannot be, with the table: what took a whole job to count is not lost for it.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let written = serde_json::to_string_pretty(self)
            .map_err(std::io::Error::other)
            .and_then(|json| std::fs::write(path, json + "\n"));
        written.map_err(|error| {
            let (path, table) = (path.display(), self.table());
            format!("{path}: {error}; here they are:\n{}", table.trim_end())
        })
    }

    /// One report over all processes.
    fn sum(reports: Vec<Self>) -> Self {
        let mut reports = reports.into_iter();
        let mut sum = reports.next().expect("a team has a rank");
        for report in reports {
            add_fields!(sum, report, ranks checked_messages);
            add_fields!(sum.host_packing, report.host_packing, buffers bytes);
            sum.collective_calls.add(&report.collective_calls);
            sum.zero_copy.add(&report.zero_copy);
            sum.multicast.add(&report.multicast);
            sum.connections.add(&report.connections);
            merge_all(&mut sum.windows, report.windows);
            merge_all(&mut sum.collectives, report.collectives);
            merge_all(&mut sum.rails, report.rails);
            merge_all(&mut sum.forwarded, report.forwarded);
        }
        sum
    }
}
