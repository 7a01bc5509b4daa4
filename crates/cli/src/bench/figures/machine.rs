//! The machines of the papers, as virtual nodes and loopback rails of one host stand in for them.

use ferrorail_mpi_abi::{Host, MpiError};

/// What a paper measured on.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Processes that the figure asks for.
    pub ranks: u32,
    /// How they are spread.
    pub nodes: Nodes,
    /// Settings that make loopback rails alike.
    pub rails: &'static [(&'static str, &'static str)],
}

/// How processes are spread over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// Evenly over so many, also where fewer processes take part.
    Count(u32),
    /// One on each.
    OneEach,
}

impl Nodes {
    /// Processes of a node, of `ranks`.
    pub fn size(self, ranks: usize) -> usize {
        match self {
            Self::Count(nodes) => ranks.div_ceil(nodes as usize).max(1),
            Self::OneEach => 1,
        }
    }
}

impl Machine {
    /// Where nothing is measured.
    pub const HERE: Self = Self {
        ranks: 1,
        nodes: Nodes::OneEach,
        rails: &[],
    };

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
        let node_size = self.nodes.size(ranks).to_string();
        let nodes = [
            ("FERRORAIL_FABRIC", "loopback"),
            ("FERRORAIL_NODE_SIZE", &node_size),
        ];
        let all = nodes.iter().chain(self.rails);
        let open = all.filter(|(name, _)| !given(name));
        open.map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
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
            nodes: Nodes::Count(4),
            rails: &[("FERRORAIL_RAILS", "2")],
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
        assert_eq!(Nodes::OneEach.size(7), 1);
    }
}
