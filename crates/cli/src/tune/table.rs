//! The table: rules for what was found, beside those that it had before.

use super::fastest::{Chosen, Way};
use anyhow::{Context, Result};
use ferrorail_coll::named::HOST;
use ferrorail_coll::select::{Limits, Rule, Table, TableError};
use ferrorail_coll::{Collective, Protocol};
use ferrorail_engine::Facts;
use std::io::ErrorKind;
use std::path::Path;

/// What a rule has for a team of the shape that was measured; no limits of sizes.
fn rule_for(collective: Collective, facts: &Facts) -> Rule {
    let above_half = |count: u32| Limits {
        min: Some(u64::from(count / 2 + 1)),
        max: Some(count.into()),
    };
    let exactly = |count: u32| Limits::exactly(count.into());
    let any = Limits::default();
    let rule = Rule {
        collective,
        bytes: any,
        ranks: above_half(facts.ranks),
        nodes: exactly(1),
        // All that follows is alike on teams of one node that have as many ranks.
        node_size: any,
        domains: exactly(facts.domains),
        ranks_per_core: exactly(facts.ranks_per_core),
        attach_percent: any,
        rails: any,
        ports: any,
        algorithm: HOST.to_owned(),
        protocol: Protocol::Eager,
    };
    match facts.nodes {
        1 => rule,
        nodes => Rule {
            nodes: Limits {
                // A team on one node has other rules.
                min: Some(u64::from(nodes / 2 + 1).max(2)),
                max: Some(nodes.into()),
            },
            node_size: above_half(facts.node_size),
            rails: exactly(facts.rails),
            ports: exactly(facts.ports),
            ..rule
        },
    }
}

/// Whether both are for the same collective and shape.
fn is_alike(one: &Rule, other: &Rule) -> bool {
    let shape = |rule: &Rule| Rule {
        bytes: Limits::default(),
        algorithm: String::new(),
        protocol: Protocol::Eager,
        ..rule.clone()
    };
    shape(one) == shape(other)
}

/// What was found about one collective on one shape.
pub struct Found {
    /// A rule of that shape, for comparison.
    shape: Rule,
    /// Those that say what to choose; none where that is what ships.
    rules: Vec<Rule>,
}

/// The rules for `chosen`.
pub fn rules(chosen: &[Chosen<'_>]) -> Vec<Found> {
    let found = chosen.iter().map(|one| {
        let cell = one.cells[0];
        let shape = rule_for(cell.collective, &cell.facts);
        let last = one.cells[one.cells.len() - 1].bytes;
        let limited = Rule {
            bytes: Limits {
                min: one.above.map(|above| above + 1),
                max: (!one.is_last).then_some(last),
            },
            ..shape.clone()
        };
        let rules = match one.way {
            Way::Shipped => vec![],
            Way::Host => vec![limited],
            Way::Candidate(candidate) => vec![Rule {
                algorithm: candidate.algorithm.clone(),
                protocol: candidate.protocol,
                ..limited
            }],
        };
        Found { shape, rules }
    });
    found.collect()
}

/// The table that was there before.
#[derive(Default)]
pub struct Before {
    rules: Vec<Rule>,
}

impl Before {
    /// What is in the file `path`, if there is one.
    ///
    /// # Errors
    /// If it cannot be read, or is no table.
    pub fn read(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).context(path.display().to_string()),
        };
        let table = Table::from_json(&text).with_context(|| path.display().to_string())?;
        Ok(Self {
            rules: table.own_rules().to_vec(),
        })
    }

    /// The table with what was `found` instead of what it had for the same shapes and collectives.
    fn with(self, found: Vec<Found>) -> Result<Table> {
        let mut kept = self.rules;
        kept.retain(|rule| !found.iter().any(|one| is_alike(rule, &one.shape)));
        let mut rules: Vec<Rule> = found.into_iter().flat_map(|one| one.rules).collect();
        rules.extend(kept);
        loop {
            match Table::from_rules(rules.clone()) {
                // Now another one always comes first.
                Err(TableError::Unreachable { rule, .. }) => drop(rules.remove(rule)),
                table => return Ok(table?),
            }
        }
    }

    /// Writes that to the file `path`.
    ///
    /// # Errors
    /// If it cannot be written, or if the rules do not go together.
    pub fn write_with(self, found: Vec<Found>, path: &Path) -> Result<()> {
        let table = self.with(found)?;
        std::fs::write(path, table.to_json())
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_coll::select::{NOT_MEASURED, Query};

    const NODE: Facts = Facts {
        ranks: 8,
        nodes: 1,
        node_size: 8,
        domains: 1,
        ranks_per_core: 2,
        rails: 1,
        ports: 1,
    };

    fn found(facts: &Facts, algorithm: &str, max: Option<u64>) -> Found {
        let shape = rule_for(Collective::Gather, facts);
        let rule = Rule {
            bytes: Limits { min: None, max },
            algorithm: algorithm.to_owned(),
            ..shape.clone()
        };
        Found {
            shape,
            rules: vec![rule],
        }
    }

    /// What `table` has for a gather of 64 bytes on such a team; `host` if it leaves that to the host.
    fn chosen(table: &Table, ranks: u32, nodes: u32) -> &'static str {
        let choice = table.choose(&Query {
            collective: Collective::Gather,
            bytes: 64,
            ranks,
            nodes,
            node_size_max: ranks / nodes,
            domains: 1,
            ranks_per_core: 2,
            attach_percent: NOT_MEASURED,
            rails: 1,
            ports: 1,
            zero_copy: true,
            multicast: false,
            all_pairs: true,
        });
        match choice.host {
            true => HOST,
            false => choice.variant.algorithm.name,
        }
    }

    #[test]
    fn rules_are_for_teams_of_about_that_shape() {
        let table = Before::default()
            .with(vec![found(&NODE, HOST, None)])
            .unwrap();
        let table = Table::from_json(&table.to_json()).unwrap();
        assert_eq!([5, 8].map(|ranks| chosen(&table, ranks, 1)), [HOST; 2]);
        for (ranks, nodes) in [(4, 1), (9, 1), (8, 2)] {
            let shipped = chosen(Table::shipped(), ranks, nodes);
            assert_eq!(chosen(&table, ranks, nodes), shipped, "{ranks} on {nodes}");
        }
        let apart = Facts {
            nodes: 4,
            node_size: 2,
            ..NODE
        };
        let table = Before::default()
            .with(vec![found(&apart, HOST, None)])
            .unwrap();
        assert_eq!(
            [(8, 4), (6, 3)].map(|(n, v)| chosen(&table, n, v)),
            [HOST; 2]
        );
        assert_ne!(chosen(&table, 4, 2), HOST);
        assert_ne!(chosen(&table, 8, 1), HOST);
    }

    #[test]
    fn rules_for_other_shapes_stay() {
        let four = Facts {
            ranks: 4,
            node_size: 4,
            ..NODE
        };
        let both = vec![found(&NODE, HOST, Some(64)), found(&four, "tree", None)];
        let first = Before::default().with(both).unwrap();
        let before = Before {
            rules: first.own_rules().to_vec(),
        };
        // Now what ships is best for 8.
        let shipped = Found {
            shape: rule_for(Collective::Gather, &NODE),
            rules: vec![],
        };
        let table = before.with(vec![shipped]).unwrap();
        assert_eq!(table.own_rules(), &first.own_rules()[1..]);
        assert_eq!(chosen(&table, 4, 1), "tree");
        // One that is never reached behind the new ones goes.
        let narrow = Rule {
            attach_percent: Limits::exactly(80),
            ..rule_for(Collective::Gather, &NODE)
        };
        let before = Before {
            rules: vec![narrow],
        };
        let table = before.with(vec![found(&NODE, HOST, None)]).unwrap();
        assert_eq!(table.own_rules().len(), 1);
    }
}
