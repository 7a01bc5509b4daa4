//! What settings and tuning tables name: an algorithm, if need be with options.
//!
//! ```text
//! bruck                 k as the team has it
//! bruck:ports=1         on one port, whatever the team has
//! smp_knomial:domains   by domains, where nodes have some: they are its nodes on one node, else each node's come first
//! tree_then_ring        one of two algorithms, by the size of a block
//! host                  none: the collective is left to the host MPI
//! ```
//!
//! Those by size are the native baselines that Qian and Afsahi compare with (Cluster Computing 11 (2008),
//! section 3.1): on one port, each up to a size of block and another above it. What a composite runs is
//! rows of the tables of algorithms, which the verifier covers with one port.

mod composite;

pub use composite::{Composite, composites};

use crate::algorithm::Algorithm;
use crate::collective::Collective;
use crate::cost::Model;
use crate::registry::{UnknownAlgorithm, find};
use ferrorail_base::Topology;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// What stands where an algorithm does for collectives that are left to the host MPI.
pub const HOST: &str = "host";
/// Most ports that an algorithm can have.
const PORTS_MAX: u8 = 8;

/// An algorithm and how it is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The algorithm.
    pub algorithm: &'static Algorithm,
    /// Its k, where that is not the team's.
    pub ports: Option<u8>,
    /// Whether it goes by domains, ranks that share a cache or NUMA node: what it takes for nodes are those of a team's
    /// only one; on several nodes it combines those of each first, if it goes [by them](field@Algorithm::by_domains).
    pub domains: bool,
}

impl Variant {
    /// `algorithm` with the team's ports and nodes.
    pub const fn of(algorithm: &'static Algorithm) -> Self {
        Self {
            algorithm,
            ports: None,
            domains: false,
        }
    }

    /// What schedules are built for on a team with these nodes and domains of nodes: what they take for nodes, and the
    /// domains of these.
    pub fn levels<'t>(
        &self,
        nodes: &'t Topology,
        domains: Option<&'t Topology>,
    ) -> (&'t Topology, Option<&'t Topology>) {
        match domains.filter(|_| self.domains) {
            Some(domains) if nodes.node_count() == 1 => (domains, None),
            domains => (nodes, domains),
        }
    }

    /// What its costs follow from on the machine of `model`, in a team on so many nodes: between the domains of one
    /// messages are copies. On several nodes domains are not counted.
    #[must_use]
    pub fn costed_by(&self, model: Model, nodes: u32) -> Model {
        match self.domains && nodes == 1 {
            true => model.within_node(),
            false => model,
        }
    }

    fn key(&self) -> (&'static str, &'static str, Option<u8>, bool) {
        (
            self.algorithm.collective.name(),
            self.algorithm.name,
            self.ports,
            self.domains,
        )
    }
}

impl Hash for Variant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl Ord for Variant {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Variant {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// As settings spell it.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm.name)?;
        if let Some(ports) = self.ports {
            write!(f, ":ports={ports}")?;
        }
        f.write_str(if self.domains { ":domains" } else { "" })
    }
}

/// What a setting names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The same at any size.
    One(Variant),
    /// By size.
    BySize(&'static Composite),
    /// The host MPI's own.
    Host,
}

impl Named {
    /// What runs for blocks of `bytes`; `None` for what the host MPI does.
    pub fn at(self, bytes: u64) -> Option<Variant> {
        match self {
            Self::One(variant) => Some(variant),
            Self::BySize(composite) => Some(composite.at(bytes)),
            Self::Host => None,
        }
    }
}

/// Nothing is named like this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// No such algorithm.
    #[error(transparent)]
    Unknown(#[from] UnknownAlgorithm),
    /// An option that there is not.
    #[error(
        "\"{0}\" is no option of an algorithm; there are ports=1 to ports={PORTS_MAX}, and domains"
    )]
    Option(String),
    /// A number of ports that no algorithm can have.
    #[error("\"{0}\" is no number of ports from 1 to {PORTS_MAX}")]
    Ports(String),
    /// Options for what has none.
    #[error("{0} has no options")]
    NoOptions(&'static str),
    /// Domains for what does not go by nodes, or sends multicasts between them.
    #[error(
        "{0} has no domains: only algorithms that combine nodes by shared memory and messages have"
    )]
    NoDomains(&'static str),
    /// Goes by size where a rule does.
    #[error("{0} goes by size, as rules do: name its parts in rules of their own")]
    BySize(&'static str),
    /// The host MPI, where only an algorithm will do.
    #[error("host is no algorithm")]
    Host,
}

/// What `text` names in `collective`.
///
/// # Errors
/// [`NameError`], which says what could be meant.
pub fn named(collective: Collective, text: &str) -> Result<Named, NameError> {
    let mut parts = text.split(':').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let (mut ports, mut domains) = (None, false);
    let mut has_options = false;
    for option in parts {
        has_options = true;
        match option {
            "domains" => domains = true,
            _ => ports = Some(number_of_ports(option)?),
        }
    }
    let composite = composites(collective).find(|composite| composite.name == name);
    let plain = composite.map(|composite| (composite.name, Named::BySize(composite)));
    if let Some((name, named)) = plain.or((name == HOST).then_some((HOST, Named::Host))) {
        return match has_options {
            false => Ok(named),
            true => Err(NameError::NoOptions(name)),
        };
    }
    let algorithm = find(collective, name)?;
    if domains && (!algorithm.smp_aware || algorithm.multicast) {
        return Err(NameError::NoDomains(algorithm.name));
    }
    Ok(Named::One(Variant {
        algorithm,
        ports,
        domains,
    }))
}

/// As [`named`], for one algorithm at all sizes.
///
/// # Errors
/// As [`named`], for a composite, and for the host MPI.
pub fn variant(collective: Collective, text: &str) -> Result<Variant, NameError> {
    match named(collective, text)? {
        Named::One(variant) => Ok(variant),
        Named::BySize(composite) => Err(NameError::BySize(composite.name)),
        Named::Host => Err(NameError::Host),
    }
}

fn number_of_ports(option: &str) -> Result<u8, NameError> {
    let value = option
        .split_once('=')
        .filter(|(name, _)| name.trim() == "ports")
        .ok_or_else(|| NameError::Option(option.to_owned()))?
        .1
        .trim();
    let ports = value.parse().ok();
    ports
        .filter(|ports| (1..=PORTS_MAX).contains(ports))
        .ok_or_else(|| NameError::Ports(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::count;
    use crate::registry::algorithms;
    use crate::schedule::Protocol;

    #[test]
    fn options_follow_a_colon() {
        let bruck = find(Collective::Allgather, "bruck").unwrap();
        for (text, ports) in [
            ("bruck", None),
            ("bruck:ports=1", Some(1)),
            ("bruck : ports = 8", Some(8)),
        ] {
            let found = variant(Collective::Allgather, text).unwrap();
            assert_eq!((found.algorithm, found.ports), (bruck, ports), "{text}");
            let again = variant(Collective::Allgather, &found.to_string());
            assert_eq!(again, Ok(found));
        }
        for text in ["smp_knomial:domains", "smp_knomial:ports=2:domains"] {
            let found = variant(Collective::Bcast, text).unwrap();
            assert!(found.domains);
            assert_eq!(found.to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, message) in [
            ("bruk", "has no algorithm \"bruk\"; did you mean \"bruck\"?"),
            ("bruk:ports=1", "did you mean \"bruck\"?"),
            ("bruck:ports=0", "\"0\" is no number of ports from 1 to 8"),
            ("bruck:ports=9", "\"9\" is no number of ports from 1 to 8"),
            ("bruck:ports=", "\"\" is no number of ports from 1 to 8"),
            ("bruck:ports=two", "\"two\" is no number of ports"),
            ("bruck:ports", "\"ports\" is no option of an algorithm"),
            ("bruck:rails=2", "\"rails=2\" is no option of an algorithm"),
            ("bruck:", "\"\" is no option of an algorithm"),
            ("tree_then_ring:ports=2", "tree_then_ring has no options"),
            ("tree_then_ring:domains", "tree_then_ring has no options"),
            ("host:ports=2", "host has no options"),
            ("bruck:domains", "bruck has no domains"),
            ("smp_multicast:domains", "smp_multicast has no domains"),
        ] {
            let error = named(Collective::Allgather, text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
        let error = variant(Collective::Allgather, "tree_then_ring").unwrap_err();
        assert!(error.to_string().contains("goes by size"), "{error}");
    }

    #[test]
    fn the_host_stands_where_an_algorithm_does() {
        let named = named(Collective::Barrier, "host").unwrap();
        assert_eq!((named, named.at(8)), (Named::Host, None));
        assert_eq!(variant(Collective::Barrier, "host"), Err(NameError::Host));
        let rows = Collective::ALL.iter().flat_map(|&of| algorithms(of));
        assert!(rows.into_iter().all(|row| row.name != HOST));
    }

    #[test]
    fn composites_are_the_papers_baselines_on_one_port() {
        let at = |collective, name, bytes| match named(collective, name).unwrap() {
            Named::BySize(composite) => composite.at(bytes).to_string(),
            other => panic!("{other:?}"),
        };
        let allgather = |bytes| at(Collective::Allgather, "tree_then_ring", bytes);
        assert_eq!(allgather(32 << 10), "tree_gather_broadcast:ports=1");
        assert_eq!(allgather((32 << 10) + 1), "ring:ports=1");
        let gather = |bytes| at(Collective::Gather, "tree_then_direct", bytes);
        assert_eq!(gather(4 << 10), "tree:ports=1");
        assert_eq!(gather((4 << 10) + 1), "direct:ports=1");
        let alltoall = |bytes| at(Collective::Alltoall, "pairwise_then_permission", bytes);
        assert_eq!(alltoall(8 << 10), "pairwise:ports=1");
        assert_eq!(alltoall((8 << 10) + 1), "permission_to_send:ports=1");
    }

    #[test]
    fn composites_are_costed_as_what_they_run() {
        let topology = Topology::from_sizes(&[1; 16]);
        let counts = |collective, name, bytes| {
            let Variant {
                algorithm, ports, ..
            } = named(collective, name).unwrap().at(bytes).unwrap();
            let ports = ports.unwrap();
            let counts = count(&algorithm.build_all(&topology, ports, Protocol::Eager));
            (counts.rounds, counts.port_blocks)
        };
        let allgather = |bytes| counts(Collective::Allgather, "tree_then_ring", bytes);
        // Gather in 4 rounds of 8 blocks at most, broadcast in 4 of 16; a ring of 16.
        assert_eq!(allgather(64), (4 + 4, 15 + 4 * 16));
        assert_eq!(allgather(1 << 20), (15, 15));
        let gather = |bytes| counts(Collective::Gather, "tree_then_direct", bytes);
        assert_eq!((gather(64), gather(1 << 20)), ((4, 15), (15, 15)));
        let alltoall = |bytes| counts(Collective::Alltoall, "pairwise_then_permission", bytes);
        assert_eq!((alltoall(64), alltoall(1 << 20)), ((15, 15), (15, 15)));
    }

    #[test]
    fn names_of_composites_are_no_algorithms() {
        for composite in composite::COMPOSITES {
            let mut rows = algorithms(composite.collective).iter();
            assert!(rows.all(|row| row.name != composite.name));
        }
    }
}
