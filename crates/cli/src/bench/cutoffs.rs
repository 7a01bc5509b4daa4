//! `ferrorail bench cutoffs`: up to which sizes what is best inside this node. Qian and Afsahi find that
//! empirically (2008, sections 4.2 and 5.2): shared memory beside puts, k copies at once, and per-node
//! gather and broadcast. What is found of collectives becomes rules that `FERRORAIL_TUNING` takes.

use super::figures::Figure;
use super::row::Row;
use super::variant::Variant;
use anyhow::{Context, Result, bail};
use ferrorail_base::units::format_bytes;
use ferrorail_coll::select::{Limits, Rule, Table};
use ferrorail_coll::{Protocol, algorithms, find, find_collective};
use std::path::Path;
use std::sync::LazyLock;

/// What it is asked for by.
pub const NAME: &str = "cutoffs";
/// Collectives whose algorithms are compared.
pub const COLLECTIVES: [&str; 2] = ["gather", "bcast"];
/// Another algorithm must be so much faster to be worth a rule.
const GAIN: f64 = 1.1;
/// Teams of one node.
const NODE: Limits = Limits {
    min: None,
    max: Some(1),
};
/// Messages shorter than this do not go straight into user memory, as with forced algorithms.
const ZERO_COPY_BYTES_MIN: u64 = 32 << 10;

/// Shared memory beside puts, and the sizes of all.
pub static FIGURE: LazyLock<Figure> =
    LazyLock::new(|| toml::from_str(include_str!("figures/cutoffs.toml")).expect("a figure"));

/// The algorithms that are compared.
///
/// # Errors
/// None: the collectives exist.
pub fn variants() -> Result<Vec<Variant>> {
    let mut variants = Vec::new();
    for name in COLLECTIVES {
        let candidates = algorithms(find_collective(name)?).iter();
        let here = candidates.filter(|algorithm| !algorithm.multicast);
        variants.extend(here.map(|algorithm| Variant {
            of: name.to_owned(),
            ..Variant::forced(name, algorithm.name)
        }));
    }
    Ok(variants)
}

/// Whether `rule` is one of those that are measured: for one node without domains.
fn is_measured(rule: &Rule) -> bool {
    rule.nodes == NODE && rule.domains == Limits::default()
}

/// What the shipped table has for one node whose ranks have not measured how their long messages go.
fn shipped(collective: &str) -> Option<String> {
    let mut rules = Table::shipped().rules().iter();
    let of_node = |rule: &&Rule| {
        let unlimited = rule.attach_percent == Limits::default();
        rule.collective.name() == collective && is_measured(rule) && unlimited
    };
    Some(rules.find(of_node)?.algorithm.clone())
}

/// The best algorithm from the size before on up to each of these, in order of sizes. What was best before,
/// or else ships, stays where others gain little.
fn best(rows: &[Row], collective: &str) -> Vec<(u64, String)> {
    let of_it = || {
        let rows = rows.iter();
        rows.filter(|row| row.operation.name == collective && row.counts())
    };
    let mut sizes: Vec<usize> = of_it().map(|row| row.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut best: Vec<(u64, String)> = Vec::new();
    for bytes in sizes {
        let here = || of_it().filter(|row| row.bytes == bytes);
        let time = |row: &&Row| row.ferrorail.median_us();
        let fastest = here().min_by(|a, b| time(a).total_cmp(&time(b)));
        let Some(fastest) = fastest else { continue };
        let before = best.last().map(|(_, name)| name.clone());
        let kept = before.or_else(|| shipped(collective)).filter(|name| {
            let same = here().find(|row| row.algorithm == *name);
            same.is_some_and(|same| time(&same) < GAIN * time(&fastest))
        });
        let name = kept.unwrap_or_else(|| fastest.algorithm.clone());
        match best.last_mut() {
            Some(last) if last.1 == name => last.0 = bytes as u64,
            _ => best.push((bytes as u64, name)),
        }
    }
    best
}

/// Rules for one node, after the shipped ones for its domains and before those for several nodes.
fn rules(collective: &str, best: &[(u64, String)]) -> Result<Vec<Rule>> {
    let collective = find_collective(collective)?;
    let shipped = || {
        let rules = Table::shipped().rules().iter();
        rules
            .filter(|rule| rule.collective == collective && !is_measured(rule))
            .cloned()
    };
    let mut rules: Vec<Rule> = shipped().filter(|rule| rule.nodes == NODE).collect();
    for (index, (bytes, name)) in best.iter().enumerate() {
        let algorithm = find(collective, name)?;
        let is_last = index + 1 == best.len();
        let max = (!is_last).then_some(*bytes);
        let rule = |min: Option<u64>, protocol| Rule {
            collective,
            bytes: Limits { min, max },
            ranks: Limits::default(),
            nodes: NODE,
            node_size: Limits::default(),
            domains: Limits::default(),
            ranks_per_core: Limits::default(),
            attach_percent: Limits::default(),
            rails: Limits::default(),
            ports: Limits::default(),
            algorithm: name.clone(),
            protocol,
        };
        let reaches_far = max.is_none_or(|max| max >= ZERO_COPY_BYTES_MIN);
        if algorithm.supports(Protocol::Rendezvous) && reaches_far {
            rules.push(rule(Some(ZERO_COPY_BYTES_MIN), Protocol::Rendezvous));
        }
        rules.push(rule(None, Protocol::Eager));
    }
    rules.extend(shipped().filter(|rule| rule.nodes != NODE));
    Ok(rules)
}

/// Prints what was found, and writes the table.
///
/// # Errors
/// If it cannot be written.
pub fn finish(rows: &[Row], path: Option<&Path>) -> Result<()> {
    outln!("#\n# Best inside this node");
    let mut all = Vec::new();
    for collective in COLLECTIVES {
        let best = best(rows, collective);
        if best.is_empty() {
            bail!("{collective} was not measured");
        }
        let mut from = None;
        for (index, (bytes, name)) in best.iter().enumerate() {
            let first = from.map_or("any size".to_owned(), |bytes| {
                format!("above {}", format_bytes(bytes))
            });
            let last = match index + 1 == best.len() {
                true => String::new(),
                false => format!(" up to {}", format_bytes(*bytes)),
            };
            outln!("# {collective:<8} {first}{last}: {name}");
            from = Some(*bytes);
        }
        all.extend(rules(collective, &best)?);
    }
    let Some(path) = path else {
        outln!("# --tuning FILE writes this as a table for FERRORAIL_TUNING");
        return Ok(());
    };
    let table = Table::from_rules(all)?;
    std::fs::write(path, table.to_json() + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    outln!("# FERRORAIL_TUNING={} uses this", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_coll::select::{NOT_MEASURED, Query};

    fn row(bytes: usize, algorithm: &str, us: f64) -> Row {
        Row::measured("gather", bytes, algorithm, us)
    }

    /// A gather among four ranks.
    fn query(bytes: u64, nodes: u32) -> Query {
        Query {
            collective: find_collective("gather").unwrap(),
            bytes,
            ranks: 4,
            nodes,
            node_size_max: 4 / nodes,
            domains: 1,
            ranks_per_core: 1,
            attach_percent: NOT_MEASURED,
            rails: 1,
            ports: 1,
            zero_copy: true,
            multicast: false,
            all_pairs: true,
        }
    }

    /// What `table` has for it.
    fn chosen(table: &Table, bytes: u64, nodes: u32) -> &'static str {
        table.choose(&query(bytes, nodes)).variant.algorithm.name
    }

    #[test]
    fn what_is_found_is_what_a_table_then_chooses() {
        let rows = [
            row(4, "smp_direct", 1.0),
            row(4, "direct", 2.0),
            row(1024, "smp_direct", 3.0),
            row(1024, "direct", 2.9),
            row(65536, "smp_direct", 30.0),
            row(65536, "direct", 20.0),
        ];
        let best = best(&rows, "gather");
        let expected = [
            (1024, "smp_direct".to_owned()),
            (65536, "direct".to_owned()),
        ];
        assert_eq!(best, expected);
        let table = Table::from_rules(rules("gather", &best).unwrap()).unwrap();
        let table = Table::from_json(&table.to_json()).unwrap();
        assert_eq!(chosen(&table, 4, 1), "smp_direct");
        assert_eq!(chosen(&table, 1024, 1), "smp_direct");
        assert_eq!(chosen(&table, 2048, 1), "direct");
        assert_eq!(chosen(&table, 1 << 20, 1), "direct");
        for bytes in [4, 65536] {
            assert_eq!(chosen(&table, bytes, 2), chosen(Table::shipped(), bytes, 2));
        }
    }

    #[test]
    fn what_ships_for_domains_stays() {
        // 3 % are no gain over what ships for a node without domains.
        let rows = ["smp_knomial", "knomial"].map(|name| {
            let us = if name == "knomial" { 97.0 } else { 100.0 };
            Row::measured("bcast", 4, name, us)
        });
        let best = best(&rows, "bcast");
        assert_eq!(best, [(4, "smp_knomial".to_owned())]);
        let table = Table::from_rules(rules("bcast", &best).unwrap()).unwrap();
        for (domains, expected) in [(1, "smp_knomial"), (4, "smp_knomial:domains")] {
            let query = Query {
                collective: find_collective("bcast").unwrap(),
                domains,
                ..query(4, 1)
            };
            assert_eq!(table.choose(&query).variant.to_string(), expected);
        }
    }

    #[test]
    fn algorithms_of_one_node_are_compared() {
        let variants = variants().unwrap();
        let has = |of: &str, label: &str| {
            variants
                .iter()
                .any(|variant| variant.of == of && variant.label == label)
        };
        assert!(has("gather", "smp_direct") && has("bcast", "smp_knomial"));
        assert!(!has("bcast", "smp_multicast"));
    }
}
