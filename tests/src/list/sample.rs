//! What a run takes of the list that has not the time for all of it.

use super::{Case, List, Row};
use ferrorail_base::random::SplitMix64;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Of the row's cases one for each value of what `every` names, and of their rounds `each_of`; the
/// same for a seed, whatever other rows there are.
pub(super) fn of_row(row: &Row, cases: Vec<Case>, seed: u64) -> Vec<Case> {
    let mut alike: BTreeMap<Vec<String>, Vec<Case>> = BTreeMap::new();
    for case in cases {
        alike.entry(kept(row, &case)).or_default().push(case);
    }
    alike
        .into_iter()
        .filter_map(|(values, mut cases)| {
            let mut draw = draws(seed, &(&row.name, &row.arguments, values));
            let alone = cases.len() == 1;
            let mut case = cases.swap_remove(index(&mut draw, cases.len())?);
            let rounds = case.rounds.len();
            while row.each_of.is_some_and(|most| case.rounds.len() > most) {
                case.rounds.remove(index(&mut draw, case.rounds.len())?);
            }
            case.drawn = row.one_of.is_some() || !alone || case.rounds.len() < rounds;
            Some(case)
        })
        .collect()
}

/// Whether a sample has anything of the row.
pub(super) fn has(list: &List, row: &Row, seed: u64) -> bool {
    let rows = list.row.iter();
    let families = rows.map(|row| (row.one_of.as_deref(), (&row.name, &row.mpi)));
    !row.larger && is_drawn(seed, row.one_of.as_deref(), families, (&row.name, &row.mpi))
}

/// Whether `seed` draws `one` among those of its `family`; what has no family is always there.
pub fn is_drawn<'a, T: PartialEq>(
    seed: u64,
    family: Option<&str>,
    all: impl Iterator<Item = (Option<&'a str>, T)>,
    one: T,
) -> bool {
    let Some(family) = family else { return true };
    let alike = all.filter(|(of, _)| *of == Some(family));
    let alike: Vec<T> = alike.map(|(_, other)| other).collect();
    let drawn = index(&mut draws(seed, &family), alike.len());
    drawn.is_some_and(|drawn| alike[drawn] == one)
}

/// The one of `all` that `seed` draws; none of none.
pub fn one_of<T: Hash>(seed: u64, all: &[T]) -> &[T] {
    let drawn = index(&mut draws(seed, &all), all.len());
    drawn.map_or(&[], |drawn| &all[drawn..=drawn])
}

/// One of `count` indices.
fn index(draw: &mut SplitMix64, count: usize) -> Option<usize> {
    (count > 0).then(|| draw.below(count as u64) as usize)
}

/// What cases of the row have in common of which a sample has one.
fn kept(row: &Row, case: &Case) -> Vec<String> {
    let value = |name: &String| match name.as_str() {
        "mpi" => case.mpi.to_string(),
        "ranks" => case.ranks.to_string(),
        setting => case.environment.get(setting).cloned().unwrap_or_default(),
    };
    let every = row.every.iter().map(value);
    every.collect()
}

/// The draws of `seed` for one question.
fn draws(seed: u64, question: &impl Hash) -> SplitMix64 {
    let mut hasher = DefaultHasher::new();
    question.hash(&mut hasher);
    SplitMix64(seed ^ hasher.finish())
}
