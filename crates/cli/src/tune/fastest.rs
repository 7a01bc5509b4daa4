//! Which way is taken at which size: from what was measured to what is to be chosen.

use super::candidates::{Also, Candidate, SHIPPED, candidates, named};
use crate::bench::row::Row;
use crate::bench::timing::geometric_mean;
use ferrorail_base::units::size_class;
use ferrorail_coll::Collective;
use ferrorail_coll::select::{NOT_MEASURED, Query, Table};
use ferrorail_engine::Facts;
use ferrorail_engine::choice::by_length;
use std::collections::BTreeMap;
use std::fmt;

/// What is another way's must be so many times as fast as what would be chosen without it.
const GAIN: f64 = 1.1;
/// What it takes to hand a call on to the host MPI, in µs: the host's own times are measured without.
const HANDING_ON_US: f64 = 0.3;

/// One size of one collective on a team of one shape: medians, over choices of buffers their geometric means, in µs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub collective: Collective,
    pub facts: Facts,
    /// The longest block that is chosen for together with this one.
    pub bytes: u64,
    pub shipped_us: f64,
    pub host_us: f64,
    pub candidates: Vec<(Candidate, f64)>,
}

/// How a collective is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way<'c> {
    /// As the shipped rules say.
    Shipped,
    /// By the host MPI.
    Host,
    /// By an algorithm of a rule.
    Candidate(&'c Candidate),
}

impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shipped => f.write_str(SHIPPED),
            Self::Host => f.write_str(ferrorail_coll::named::HOST),
            Self::Candidate(candidate) => candidate.fmt(f),
        }
    }
}

impl Way<'_> {
    /// What it takes in `cell`.
    pub fn us(&self, cell: &Cell) -> f64 {
        match self {
            Self::Shipped => cell.shipped_us,
            Self::Host => cell.host_us + HANDING_ON_US,
            Self::Candidate(candidate) => {
                let known = cell.candidates.iter().find(|(one, _)| one == *candidate);
                known.map_or(f64::INFINITY, |(_, us)| *us)
            }
        }
    }
}

/// The way of neighbouring sizes.
#[derive(Debug)]
pub struct Chosen<'c> {
    pub way: Way<'c>,
    /// By size, at least one.
    pub cells: Vec<&'c Cell>,
    /// The longest block of what comes before.
    pub above: Option<u64>,
    /// Whether there are longer ones with another way.
    pub is_last: bool,
}

/// What `rows` say, by shape, collective and size. What the library left to the host although nothing said so is left out.
pub fn cells(rows: &[Row], also: &[Also]) -> Vec<Cell> {
    let mut times: BTreeMap<_, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.counts()) {
        let (Some(facts), Some(collective)) =
            (row.facts, Collective::from_name(row.operation.name))
        else {
            continue;
        };
        let bytes = match collective {
            Collective::Barrier => 0,
            _ => 1 << size_class(row.bytes as u64),
        };
        let key = (facts, collective, bytes);
        let ways = times.entry(key).or_default();
        let ours = ways.entry(row.algorithm.clone()).or_default();
        ours.push(row.ferrorail.median_us());
        if row.algorithm == SHIPPED {
            // Alike in all rows of a cell.
            let host = ways.entry(String::new()).or_default();
            host.push(row.host.median_us());
        }
    }
    let cell = |((facts, collective, bytes), ways): (_, BTreeMap<String, Vec<f64>>)| {
        let us = |name: &str| geometric_mean(ways.get(name)?.iter().copied());
        let timed = |one: Candidate| Some((us(&one.to_string())?, one));
        let shipped = shipped(collective, &facts, bytes);
        let candidates = candidates(collective, also).into_iter();
        let candidates = candidates.filter(|one| shipped.as_ref() != Some(&one.to_string()));
        Some(Cell {
            collective,
            facts,
            bytes,
            shipped_us: us(SHIPPED)?,
            host_us: us("")?,
            candidates: candidates
                .filter_map(timed)
                .map(|(us, one)| (one, us))
                .collect(),
        })
    };
    times.into_iter().filter_map(cell).collect()
}

/// What the shipped rules choose, where that depends on nothing else, as candidates are called.
fn shipped(collective: Collective, facts: &Facts, bytes: u64) -> Option<String> {
    let chosen = |(attach_percent, zero_copy)| {
        let choice = Table::shipped().choose(&Query {
            collective,
            bytes,
            ranks: facts.ranks,
            nodes: facts.nodes,
            node_size_max: facts.node_size,
            domains: facts.domains,
            ranks_per_core: facts.ranks_per_core,
            attach_percent,
            rails: facts.rails as u8,
            ports: facts.ports as u8,
            zero_copy,
            multicast: true,
            all_pairs: true,
        });
        named(&choice.variant.to_string(), choice.protocol)
    };
    let mut all = [
        (0, true),
        (NOT_MEASURED, true),
        (0, false),
        (NOT_MEASURED, false),
    ]
    .map(chosen)
    .into_iter();
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// The ways of all `cells`, sorted as [`cells`] has them; by the host MPI only if it `may_be_host`.
pub fn choose(cells: &[Cell], may_be_host: bool) -> Vec<Chosen<'_>> {
    let mut chosen = Vec::new();
    let same = |a: &Cell, b: &Cell| (a.facts, a.collective) == (b.facts, b.collective);
    for of_it in cells.chunk_by(same) {
        // One choice for all sizes where no rank knows all lengths.
        let groups: Vec<Vec<&Cell>> = match by_length(of_it[0].collective) {
            true => vec![of_it.iter().collect()],
            false => of_it.iter().map(|cell| vec![cell]).collect(),
        };
        let mut runs: Vec<Chosen<'_>> = Vec::new();
        for group in groups {
            let before = runs.last().map_or(Way::Shipped, |last| last.way);
            let way = fastest(&group, before, may_be_host);
            match runs.last_mut() {
                Some(last) if last.way == way => last.cells.extend(group),
                last => {
                    let above = last.map(|last| {
                        last.is_last = false;
                        last.cells[last.cells.len() - 1].bytes
                    });
                    runs.push(Chosen {
                        way,
                        cells: group,
                        above,
                        is_last: true,
                    });
                }
            }
        }
        chosen.extend(runs);
    }
    chosen
}

/// The way of `cells`, which have one: the way of those before, or else what ships, stays where another gains little.
fn fastest<'c>(cells: &[&'c Cell], before: Way<'c>, may_be_host: bool) -> Way<'c> {
    let us = |way: Way<'_>| geometric_mean(cells.iter().map(|cell| way.us(cell))).unwrap_or(0.0);
    let ways = cells[0].candidates.iter();
    let candidates = ways.map(|(candidate, _)| Way::Candidate(candidate));
    let best = candidates.min_by(|a, b| us(*a).total_cmp(&us(*b)));
    // In order of preference.
    let host = may_be_host.then_some(Way::Host);
    let ways = || {
        [Some(Way::Shipped), Some(before), best, host]
            .into_iter()
            .flatten()
    };
    let least = ways().map(us).fold(f64::INFINITY, f64::min);
    let is_near = |way: &Way<'_>| us(*way) < GAIN * least;
    ways().find(is_near).unwrap_or(Way::Shipped)
}

/// Geometric means of times by the host's, as shipped and as chosen.
pub fn means(chosen: &[Chosen<'_>]) -> Option<(f64, f64)> {
    let by_host = |us: fn(&Chosen<'_>, &Cell) -> f64| {
        let runs = chosen.iter();
        geometric_mean(runs.flat_map(|one| {
            let cells = one.cells.iter();
            cells.map(move |cell| us(one, cell) / cell.host_us)
        }))
    };
    let shipped = by_host(|_, cell| cell.shipped_us)?;
    Some((shipped, by_host(|one, cell| one.way.us(cell))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        ranks: 4,
        nodes: 1,
        node_size: 4,
        domains: 1,
        ranks_per_core: 2,
        rails: 1,
        ports: 1,
    };

    fn row(name: &str, bytes: usize, algorithm: &str, us: f64) -> Row {
        Row {
            facts: Some(FACTS),
            ..Row::measured(name, bytes, algorithm, us)
        }
    }

    /// Ways of `rows` with the sizes from which and up to which they hold.
    fn ways(rows: &[Row], may_be_host: bool) -> Vec<(String, Option<u64>, Option<u64>)> {
        let cells = cells(rows, &[]);
        let chosen = choose(&cells, may_be_host);
        let ways = chosen.iter().map(|one| {
            let last = one.cells[one.cells.len() - 1].bytes;
            (
                one.way.to_string(),
                one.above,
                (!one.is_last).then_some(last),
            )
        });
        ways.collect()
    }

    #[test]
    fn what_ships_stays_where_others_gain_little() {
        let rows = [
            row("gather", 4, SHIPPED, 1.0),
            row("gather", 4, "direct by eager", 0.95),
            row("gather", 4, "tree by eager", 3.0),
            row("gather", 60, SHIPPED, 1.5),
            row("gather", 60, "direct by eager", 1.0),
            row("gather", 60, "tree by eager", 0.95),
            row("gather", 256, SHIPPED, 1.5),
            row("gather", 256, "direct by eager", 1.05),
            row("gather", 256, "tree by eager", 1.0),
        ];
        let shipped = (SHIPPED.to_owned(), None, Some(4));
        // What was best before stays as well, although the tree is faster by 5 %.
        let tree = ("tree by eager".to_owned(), Some(4), None);
        assert_eq!(ways(&rows, true), [shipped, tree]);
    }

    #[test]
    fn the_host_must_gain_with_what_handing_on_takes() {
        // The host takes 2 µs.
        let rows = |us| {
            [
                row("bcast", 4, SHIPPED, us),
                row("bcast", 4, "knomial by eager", us),
            ]
        };
        let host = |us, may_be_host| ways(&rows(us), may_be_host)[0].0.clone();
        assert_eq!(host(2.5, true), SHIPPED);
        assert_eq!(host(2.6, true), "host");
        assert_eq!(host(2.6, false), SHIPPED);
    }

    #[test]
    fn forms_by_length_have_one_way_for_all_sizes() {
        let rows = [
            row("gatherv", 4, SHIPPED, 1.0),
            row("gatherv", 4, "direct by eager", 1.2),
            row("gatherv", 4096, SHIPPED, 8.0),
            row("gatherv", 4096, "direct by eager", 4.0),
        ];
        let direct = ("direct by eager".to_owned(), None, None);
        assert_eq!(ways(&rows, true), [direct]);
        let cells = cells(&rows, &[]);
        let (shipped, chosen) = means(&choose(&cells, true)).unwrap();
        // Of the host's 2 µs in both cells.
        assert!((shipped - 2f64.sqrt()).abs() < 1e-9 && (chosen - 1.2f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn what_ships_anyway_is_no_other_way() {
        let rows = [
            row("gather", 4, SHIPPED, 1.5),
            row("gather", 4, "smp_direct by eager", 1.0),
            row("gather", 1 << 20, SHIPPED, 150.0),
            row("gather", 1 << 20, "direct by rendezvous", 100.0),
        ];
        let ways = ways(&rows, false);
        // For long messages that depends on what ranks measure.
        assert_eq!(ways[0].0, SHIPPED);
        assert_eq!(ways[1].0, "direct by rendezvous");
    }

    #[test]
    fn what_was_left_to_the_host_is_no_cell() {
        let forwarded = Row {
            forwarded: true,
            ..row("bcast", 4, SHIPPED, 1.0)
        };
        assert!(cells(&[forwarded], &[]).is_empty());
    }
}
