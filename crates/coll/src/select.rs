//! Chooses an algorithm by a table of rules.
//!
//! A rule states ranges of facts; the first one that matches wins. Facts are those that every rank
//! of a team knows alike, because two ranks that choose differently wait for each other for ever.
//! The shipped table (`select/default_tuning.json`) follows the cost model between nodes, which a
//! test repeats, and measurements inside a node. The rules of a user's own table come before those.
//!
//! ```json
//! { "version": 1, "rules": [
//!   { "collective": "allgather", "bytes": { "max": 8192 }, "nodes": { "min": 2 }, "algorithm": "smp_bruck" },
//!   { "collective": "allgather", "bytes": { "min": 1048577 }, "algorithm": "host" } ] }
//! ```
//!
//! An algorithm may have options there too, as in `bruck:ports=1` ([`crate::named`]). A rule for `host` leaves what it
//! matches to the host MPI; what would run otherwise is still chosen, by the rules that name algorithms.
//! Loading checks that every rule can be reached.

use crate::algorithm::{Algorithm, RankOrder};
use crate::collective::Collective;
use crate::named::{HOST, NameError, Named, Variant, named};
use crate::schedule::Protocol;
use serde::Deserialize;
use std::sync::OnceLock;

#[cfg(test)]
mod against_model;
mod rule;
#[cfg(test)]
mod tests;

use rule::DIMENSIONS;
pub use rule::{Limits, Rule};

/// The version of the format that this library reads and writes.
const VERSION: u32 = 1;

/// [`Query::attach_percent`] where nothing was measured: more than any measured time.
pub const NOT_MEASURED: u32 = 10_000;

/// [`Query::attach_percent`] at which no rule prefers cross-memory attach: the most that is measured.
pub const ATTACH_SLOWEST: u32 = NOT_MEASURED - 1;

/// What an operation is, as far as every rank knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The operation.
    pub collective: Collective,
    /// Bytes of the largest block.
    pub bytes: u64,
    /// Ranks of the team.
    pub ranks: u32,
    /// Its nodes.
    pub nodes: u32,
    /// Ranks of its largest node.
    pub node_size_max: u32,
    /// Domains of the node that has most; 1 where there are none.
    pub domains: u32,
    /// 1 if each rank has a core of its own, 2 if not.
    pub ranks_per_core: u32,
    /// Time that long messages of a node's few ranks take by cross-memory attach, in percent of what they take through the
    /// segment, as measured; else [`NOT_MEASURED`].
    pub attach_percent: u32,
    /// Rails in use.
    pub rails: u8,
    /// k.
    pub ports: u8,
    /// Whether peers can write user memory on all ranks.
    pub zero_copy: bool,
    /// Whether leaders may send each other multicasts.
    pub multicast: bool,
    /// Whether every rank may connect to every other. Where no rule does without, the first that matches counts.
    pub all_pairs: bool,
}

impl Query {
    /// Whether the team can use what `algorithm` takes for granted.
    pub fn admits(&self, algorithm: &Algorithm) -> bool {
        (self.multicast || !algorithm.multicast) && (self.all_pairs || !algorithm.all_pairs)
    }

    /// `variant` as the team runs it: without domains where there are none, or on several nodes where it does not go by them.
    pub fn of(&self, variant: Variant) -> Variant {
        Variant {
            domains: variant.domains
                && self.domains > 1
                && (self.nodes == 1 || variant.algorithm.by_domains),
            ..variant
        }
    }

    fn facts(&self) -> [u64; DIMENSIONS] {
        [
            self.bytes,
            self.ranks.into(),
            self.nodes.into(),
            self.node_size_max.into(),
            self.domains.into(),
            self.ranks_per_core.into(),
            self.attach_percent.into(),
            self.rails.into(),
            self.ports.into(),
        ]
    }
}

/// What was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The algorithm, with the rule's options.
    pub variant: Variant,
    /// One of its protocols.
    pub protocol: Protocol,
    /// Index of the rule that matched, for explanations.
    pub rule: usize,
    /// Whether that leaves the operation to the host MPI. `variant` is what would run otherwise.
    pub host: bool,
}

/// A table that cannot be used. Rules are counted from 0.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Not JSON, or not of this form.
    #[error("tuning table: {0}")]
    Syntax(String),
    /// Another format version.
    #[error("tuning table: version {0} is not known; this library reads version {VERSION}")]
    Version(u32),
    /// No such algorithm, or not with such ports.
    #[error("tuning table, rule {rule}: {reason}")]
    Algorithm {
        /// Rule.
        rule: usize,
        /// Says which name is near.
        reason: NameError,
    },
    /// The algorithm's puts cannot land there.
    #[error("tuning table, rule {rule}: {algorithm} does not offer {protocol:?}")]
    Protocol {
        /// Rule.
        rule: usize,
        /// Its algorithm.
        algorithm: &'static str,
        /// Its protocol.
        protocol: Protocol,
    },
    /// A least value above the greatest one: nothing matches.
    #[error("tuning table, rule {rule}: matches nothing, as a minimum exceeds its maximum")]
    Empty {
        /// Rule.
        rule: usize,
    },
    /// An earlier rule matches whatever this one does.
    #[error("tuning table, rule {rule}: never reached, as rule {by} matches first")]
    Unreachable {
        /// Rule.
        rule: usize,
        /// The earlier one.
        by: usize,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    rules: Vec<Rule>,
}

#[derive(Clone, Copy)]
struct Entry {
    bounds: [(u64, u64); DIMENSIONS],
    /// `None` for the host MPI.
    variant: Option<Variant>,
}

impl Entry {
    /// Whether it may serve every operation that `later` may serve: an algorithm may be passed over for an operation that
    /// does not commute, where nodes cannot send each other multicasts, or where not every rank may connect to every other.
    fn serves_all_of(&self, later: &Self) -> bool {
        let needs = |entry: &Self| {
            let algorithm = entry.variant.map(|variant| variant.algorithm);
            algorithm.map_or((RankOrder::Always, false, false), |algorithm| {
                (
                    algorithm.rank_order,
                    algorithm.multicast,
                    algorithm.all_pairs,
                )
            })
        };
        let (mine, theirs) = (needs(self), needs(later));
        // What comes after a rule for the host is what would run otherwise.
        (self.variant.is_some() || later.variant.is_none())
            && mine.0 <= theirs.0
            && mine.1 <= theirs.1
            && mine.2 <= theirs.2
    }
}

/// A checked table.
pub struct Table {
    rules: Vec<Rule>,
    /// How many of them the table itself had; the others are shipped.
    own: usize,
    entries: Vec<Entry>,
}

impl Table {
    /// Reads and checks a table.
    ///
    /// # Errors
    /// [`TableError`] says which rule is wrong and how.
    pub fn from_json(text: &str) -> Result<Self, TableError> {
        Self::from_rules(parse(text)?)
    }

    /// Checks `rules`, and has the shipped ones follow.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_rules(rules: Vec<Rule>) -> Result<Self, TableError> {
        let mut table = Self::checked(rules)?;
        let shipped = Self::shipped();
        table.rules.extend_from_slice(&shipped.rules);
        table.entries.extend_from_slice(&shipped.entries);
        Ok(table)
    }

    /// Whether rule `index` is one that the table itself had, rather than a shipped one.
    pub fn has_itself(&self, index: usize) -> bool {
        index < self.own
    }

    fn checked(rules: Vec<Rule>) -> Result<Self, TableError> {
        let mut entries = Vec::with_capacity(rules.len());
        for (index, rule) in rules.iter().enumerate() {
            entries.push(check(index, rule)?);
            let covers = |&by: &usize| {
                rules[by].covers(rule) && Entry::serves_all_of(&entries[by], &entries[index])
            };
            if let Some(by) = (0..index).find(covers) {
                return Err(TableError::Unreachable { rule: index, by });
            }
        }
        Ok(Self {
            own: rules.len(),
            rules,
            entries,
        })
    }

    /// The table that ships with the library.
    pub fn shipped() -> &'static Self {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(|| {
            parse(include_str!("select/default_tuning.json"))
                .and_then(Self::checked)
                .expect("the shipped table passes its tests")
        })
    }

    /// The rules, in order, those that the table itself had first.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Those that the table itself had.
    pub fn own_rules(&self) -> &[Rule] {
        &self.rules[..self.own]
    }

    /// What the table itself had as a file, with a line for each rule.
    pub fn to_json(&self) -> String {
        let rules = self.own_rules().iter();
        let rules: Vec<String> = rules
            .map(|rule| serde_json::to_string(rule).expect("rules are plain data"))
            .map(|rule| format!("\n    {rule}"))
            .collect();
        let rules = rules.join(",");
        format!("{{\n  \"version\": {VERSION},\n  \"rules\": [{rules}\n  ]\n}}\n")
    }

    /// The choice of the first rule that matches. Allocates nothing.
    pub fn choose(&self, query: &Query) -> Choice {
        self.choose_among(query, |_| true)
    }

    /// As [`choose`](Self::choose), of rules with algorithms that `admits` says yes to.
    ///
    /// # Panics
    /// If it says no to all that may combine operands in rank order on any team.
    pub fn choose_among(&self, query: &Query, admits: impl Fn(Variant) -> bool) -> Choice {
        let facts = query.facts();
        let usable = |variant: Variant, query: &Query| {
            query.admits(variant.algorithm) && admits(query.of(variant))
        };
        let matches = |(rule, entry): &(&Rule, &Entry), query: &Query| {
            rule.collective == query.collective
                && (rule.protocol == Protocol::Eager || query.zero_copy)
                && (entry.variant).is_none_or(|variant| usable(variant, query))
                && facts
                    .iter()
                    .zip(entry.bounds)
                    .all(|(&fact, (min, max))| min <= fact && fact <= max)
        };
        let matching = |query: Query| {
            let rules = self.rules.iter().zip(&self.entries).enumerate();
            rules.filter(move |(_, pair)| matches(pair, &query))
        };
        let unlimited = Query {
            all_pairs: true,
            ..*query
        };
        let algorithm = |(index, (_, entry)): (usize, (&Rule, &Entry))| {
            entry.variant.map(|variant| (index, variant))
        };
        let (index, variant) = matching(*query)
            .find_map(algorithm)
            .or_else(|| matching(unlimited).find_map(algorithm))
            .expect("the shipped table is total, and facts are at least 1");
        let first = matching(*query).next();
        let host = first.filter(|(_, (_, entry))| entry.variant.is_none());
        Choice {
            variant: query.of(variant),
            protocol: self.rules[index].protocol,
            rule: host.map_or(index, |(rule, _)| rule),
            host: host.is_some(),
        }
    }
}

fn parse(text: &str) -> Result<Vec<Rule>, TableError> {
    let document: Document =
        serde_json::from_str(text).map_err(|error| TableError::Syntax(error.to_string()))?;
    if document.version != VERSION {
        return Err(TableError::Version(document.version));
    }
    Ok(document.rules)
}

fn check(index: usize, rule: &Rule) -> Result<Entry, TableError> {
    let wrong = |reason| TableError::Algorithm {
        rule: index,
        reason,
    };
    let variant = match named(rule.collective, &rule.algorithm).map_err(wrong)? {
        Named::Host => None,
        Named::One(variant) => Some(variant),
        Named::BySize(composite) => return Err(wrong(NameError::BySize(composite.name))),
    };
    let name = variant.map_or(HOST, |variant| variant.algorithm.name);
    let is_offered = match variant {
        Some(variant) => variant.algorithm.supports(rule.protocol),
        None => rule.protocol == Protocol::Eager,
    };
    if !is_offered {
        return Err(TableError::Protocol {
            rule: index,
            algorithm: name,
            protocol: rule.protocol,
        });
    }
    let bounds = rule.bounds();
    if bounds.iter().any(|(min, max)| min > max) {
        return Err(TableError::Empty { rule: index });
    }
    Ok(Entry { bounds, variant })
}
