//! The machines of the papers, as virtual nodes and loopback rails of one host stand in for them.

use crate::bench::variant::settings;
use ferrorail_mpi_abi::{Host, MpiError};
use serde::Deserialize;

/// What a paper measured on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Processes that the figure asks for.
    pub ranks: u32,
    /// Nodes that they are spread over evenly, also where fewer take part; none if each has a node of its own.
    pub nodes: Option<usize>,
    /// Settings that make loopback rails alike; the file's where there are none.
    #[serde(default, deserialize_with = "settings")]
    pub rails: Vec<(String, String)>,
}

/// Where nothing is measured.
impl Default for Machine {
    fn default() -> Self {
        Self {
            ranks: 1,
            nodes: None,
            rails: Vec::new(),
        }
    }
}

impl Machine {
    /// Processes of a node, of `ranks`.
    pub fn node_size(&self, ranks: usize) -> usize {
        self.nodes.map_or(1, |nodes| ranks.div_ceil(nodes).max(1))
    }

    /// Settings that model it for `ranks` processes on one host. None where there are several hosts; nor
    /// those that `given` knows, which are the user's.
    pub fn settings(
        &self,
        ranks: usize,
        one_host: bool,
        given: impl Fn(&str) -> bool,
    ) -> Vec<(String, String)> {
        if !one_host {
            return Vec::new();
        }
        let nodes = [
            ("FERRORAIL_FABRIC", "loopback".to_owned()),
            ("FERRORAIL_NODE_SIZE", self.node_size(ranks).to_string()),
        ];
        let nodes = nodes.map(|(name, value)| (name.to_owned(), value));
        let all = nodes.into_iter().chain(self.rails.iter().cloned());
        all.filter(|(name, _)| !given(name)).collect()
    }
}

/// Whether all ranks run under one system. Collective.
///
/// # Errors
/// The MPI library's.
pub fn is_one_host(host: &Host, ranks: usize) -> Result<bool, MpiError> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut mine = [0; 36];
    let bytes = text.len().min(mine.len());
    mine[..bytes].copy_from_slice(&text.as_bytes()[..bytes]);
    let mut all = vec![0; mine.len() * ranks];
    host.allgather_bytes(&mine, &mut all, host.predefined().comm_world)?;
    Ok(all.chunks(mine.len()).all(|other| other == mine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_user_and_real_nodes_win() {
        let machine = Machine {
            ranks: 16,
            nodes: Some(4),
            rails: vec![("FERRORAIL_RAILS".to_owned(), "2".to_owned())],
        };
        let settings = |ranks, one_host, given: &'static str| {
            let settings = machine.settings(ranks, one_host, |name| name == given);
            let texts = settings
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            texts.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(settings(16, false, ""), "");
        assert_eq!(
            settings(16, true, ""),
            "FERRORAIL_FABRIC=loopback FERRORAIL_NODE_SIZE=4 FERRORAIL_RAILS=2"
        );
        assert_eq!(
            settings(6, true, "FERRORAIL_RAILS"),
            "FERRORAIL_FABRIC=loopback FERRORAIL_NODE_SIZE=2"
        );
        assert_eq!(Machine::default().node_size(7), 1);
    }
}
