//! What is said of rails that a team does not use: whoever lacks them, and by name.

use super::Opened;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A line for each rail that some rank has and not all, with a reason if one of those without it gave
/// one, and what else was refused on some host. Rank 0 of `all` says them: lines that are not of its
/// own host begin with a host's name.
pub(super) fn unused(all: &[Opened]) -> Vec<String> {
    let mut planes: BTreeMap<u8, (&str, usize)> = BTreeMap::new();
    for (plane, name) in all.iter().flat_map(|opened| &opened.rails) {
        planes.entry(*plane).or_insert((name, 0)).1 += 1;
    }
    planes.retain(|_, (_, ranks)| *ranks < all.len());
    let not_everywhere = planes.iter().map(|(&plane, &(name, _))| (plane, name));
    let mut lines: Vec<String> = not_everywhere
        .map(|(plane, name)| missing(all, plane, name))
        .collect();
    let mut said = HashSet::new();
    for refused in all.iter().flat_map(|opened| &opened.refused) {
        let explains = planes.values().any(|(name, _)| is_about(refused, name));
        if explains || !said.insert(refused) {
            continue;
        }
        lines.push(match all[0].refused.contains(refused) {
            true => refused.clone(),
            false => {
                let alike = all.iter().filter(|opened| opened.refused.contains(refused));
                format!("{}: {refused}", hosts(alike))
            }
        });
    }
    lines
}

/// Says that the rail of `plane`, called `name` where it is open, is not open everywhere.
fn missing(all: &[Opened], plane: u8, name: &str) -> String {
    let without = || all.iter().filter(|opened| !opened.has(plane));
    let why = without().find_map(|opened| {
        let line = opened.refused.iter().find(|line| is_about(line, name))?;
        let why = line.split_once(" is not used: ").map_or(&**line, |it| it.1);
        Some((&opened.host, why))
    });
    let hosts = hosts(without());
    let why = match why {
        Some((host, why)) if *host == hosts => format!(": {why}"),
        Some((host, why)) => format!("; {host}: {why}"),
        None => String::new(),
    };
    format!("rail {name} is not used: not open on {hosts}{why}")
}

/// Whether a refusal is of the rail called `name`, or of its device.
fn is_about(refusal: &str, name: &str) -> bool {
    let Some((_, named)) = refusal.split_once("rail ") else {
        return false;
    };
    let named = named.split([' ', ',', ';']).next();
    let device = name.split(':').next();
    named.is_some() && (named == Some(name) || named == device)
}

/// The first of the hosts of `some`, and how many others there are.
fn hosts<'a>(some: impl Iterator<Item = &'a Opened>) -> String {
    let some: Vec<&str> = some.map(|opened| opened.host.as_str()).collect();
    let others = some.iter().collect::<BTreeSet<_>>().len() - 1;
    match others {
        0 => some[0].to_owned(),
        1 => format!("{} and 1 more host", some[0]),
        _ => format!("{} and {others} more hosts", some[0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(host: &str, rails: &[(u8, &str)], refused: &[&str]) -> Opened {
        let owned = |(plane, name): &(u8, &str)| (*plane, (*name).to_owned());
        Opened {
            host: host.into(),
            rails: rails.iter().map(owned).collect(),
            refused: refused.iter().map(|&line| line.to_owned()).collect(),
            numa_node: None,
            local_address: Vec::new(),
        }
    }

    const BOTH: [(u8, &str); 2] = [(0, "mlx5_0:1"), (1, "mlx5_1:1")];

    #[test]
    fn rails_that_all_have_are_not_mentioned() {
        let all = ["a", "a", "b"].map(|host| opened(host, &BOTH, &[]));
        assert!(unused(&all).is_empty());
    }

    #[test]
    fn whoever_lacks_a_rail_is_named() {
        let others = [("b", 1), ("c", 2), ("c", 1), ("d", 1)];
        let mut all = vec![opened("a", &BOTH, &[])];
        all.extend(others.map(|(host, rails)| opened(host, &BOTH[..rails], &[])));
        let line = "rail mlx5_1:1 is not used: not open on b and 2 more hosts";
        assert_eq!(unused(&all), [line]);
        all.truncate(2);
        let line = "rail mlx5_1:1 is not used: not open on b";
        assert_eq!(unused(&all), [line]);
        // Rank 0 speaks also of what it lacks itself.
        all.reverse();
        assert_eq!(unused(&all), [line]);
        // Where no rail is common, each is named.
        all[0] = opened("c", &BOTH[1..], &[]);
        all[1] = opened("b", &BOTH[..1], &[]);
        let lines = [
            "rail mlx5_0:1 is not used: not open on c",
            "rail mlx5_1:1 is not used: not open on b",
        ];
        assert_eq!(unused(&all), lines);
    }

    #[test]
    fn reasons_are_given_with_the_rail() {
        let down = "FERRORAIL_RAILS: rail mlx5_1 is not used: the link is down";
        let failed = "rail mlx5_1:1 is not used: ibv_open_device failed";
        let all = [
            opened("a", &BOTH, &[]),
            opened("b", &BOTH[..1], &[]),
            opened("c", &BOTH[..1], &[down]),
            opened("d", &BOTH[..1], &[failed]),
        ];
        let line = "rail mlx5_1:1 is not used: not open on b and 2 more hosts; c: the link is down";
        assert_eq!(unused(&all), [line]);
        let line = "rail mlx5_1:1 is not used: not open on d: ibv_open_device failed";
        let two = [opened("a", &BOTH, &[]), opened("d", &BOTH[..1], &[failed])];
        assert_eq!(unused(&two), [line]);
    }

    #[test]
    fn other_refusals_say_where() {
        let twice = "FERRORAIL_RAILS: rail mlx5_0 is named twice";
        let unknown = "FERRORAIL_RAILS: rail mlx5_11 does not exist; there is mlx5_1:1 (active)";
        let all = [
            opened("a", &BOTH, &[twice]),
            opened("a", &BOTH, &[twice]),
            opened("b", &BOTH, &[unknown, twice]),
            opened("c", &BOTH, &[unknown]),
        ];
        let lines = [twice.to_owned(), format!("b and 1 more host: {unknown}")];
        assert_eq!(unused(&all), lines);
    }
}
