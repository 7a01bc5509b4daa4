//! What is compared: every algorithm by every protocol. A copy of the library has one of each collective, so that there are
//! as few copies as the collective with most needs.

use crate::bench::operation::Operation;
use crate::bench::variant::{ALGORITHM, By, Variant};
use ferrorail_coll::{Collective, Protocol, algorithms};
use std::fmt;

/// What the shipped rules choose.
pub const SHIPPED: &str = "as shipped";

/// Forms that are compared if they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Also {
    /// Algorithms over the domains of a node: ranks that share a cache or NUMA node.
    Domains,
    /// Those that send multicasts between nodes.
    Multicast,
}

/// An algorithm, by one of its protocols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// As rules spell it.
    pub algorithm: String,
    /// Where its puts land.
    pub protocol: Protocol,
    multicast: bool,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&named(&self.algorithm, self.protocol))
    }
}

/// What stands for `algorithm` by `protocol`.
pub fn named(algorithm: &str, protocol: Protocol) -> String {
    format!("{algorithm} by {}", protocol.name())
}

/// Those of `collective`.
pub fn candidates(collective: Collective, also: &[Also]) -> Vec<Candidate> {
    let mut all = Vec::new();
    for algorithm in algorithms(collective) {
        if algorithm.multicast && !also.contains(&Also::Multicast) {
            continue;
        }
        let by_domains = algorithm.smp_aware && !algorithm.multicast;
        let domains = by_domains && also.contains(&Also::Domains);
        for &protocol in algorithm.protocols {
            let names = [
                Some(algorithm.name.to_owned()),
                domains.then(|| format!("{}:domains", algorithm.name)),
            ];
            all.extend(names.into_iter().flatten().map(|algorithm_name| Candidate {
                algorithm: algorithm_name,
                protocol,
                multicast: algorithm.multicast,
            }));
        }
    }
    all
}

/// Copies of the library that have all candidates of `operations` between them, after one that goes by the shipped rules.
pub fn variants(operations: &[&Operation], also: &[Also]) -> Vec<Variant> {
    let mut variants = vec![Variant {
        label: SHIPPED.to_owned(),
        ..Variant::default()
    }];
    for multicast in [false, true] {
        for protocol in [Protocol::Eager, Protocol::Rendezvous] {
            let kind = (protocol, multicast);
            let of = |operation: &&Operation| {
                let collective = Collective::from_name(operation.name)?;
                let mut of_it = candidates(collective, also);
                of_it.retain(|one| (one.protocol, one.multicast) == kind);
                Some((operation.name, of_it))
            };
            let all: Vec<(&str, Vec<Candidate>)> = operations.iter().filter_map(of).collect();
            variants.extend((0..).map_while(|index| copy(&all, index, kind)));
        }
    }
    variants
}

/// The copy with the candidate number `index` of each collective that has so many, if any has.
fn copy(
    all: &[(&str, Vec<Candidate>)],
    index: usize,
    (protocol, multicast): (Protocol, bool),
) -> Option<Variant> {
    let taken: Vec<(&str, &Candidate)> = all
        .iter()
        .filter_map(|(name, of_it)| Some((*name, of_it.get(index)?)))
        .collect();
    let (_, first) = taken.first()?;
    let forced = taken
        .iter()
        .map(|(name, one)| format!("{name}={}", one.algorithm))
        .collect::<Vec<_>>();
    let zero_copy = match protocol {
        Protocol::Eager => "off",
        Protocol::Rendezvous => "on",
    };
    Some(Variant {
        label: first.to_string(),
        names: taken
            .iter()
            .map(|(name, one)| ((*name).to_owned(), one.to_string()))
            .collect(),
        settings: vec![
            (ALGORITHM.to_owned(), forced.join(",")),
            ("FERRORAIL_ZERO_COPY".to_owned(), zero_copy.to_owned()),
        ],
        by: match multicast {
            true => By::Multicast,
            false => By::Library,
        },
        ..Variant::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::operation::OPERATIONS;
    use crate::bench::variant::check;

    #[test]
    fn every_candidate_is_in_one_copy() {
        let operations: Vec<&Operation> = OPERATIONS.iter().collect();
        for also in [&[][..], &[Also::Domains, Also::Multicast]] {
            let variants = variants(&operations, also);
            assert!(variants[0].settings.is_empty() && variants[0].names.is_empty());
            let mut most = 0;
            for operation in &operations {
                let collective = Collective::from_name(operation.name).unwrap();
                let candidates = candidates(collective, also);
                most = most.max(candidates.len());
                for one in candidates {
                    let forced = format!("{}={}", operation.name, one.algorithm);
                    let has = |variant: &&Variant| {
                        variant.names.get(operation.name) == Some(&one.to_string())
                            && variant.settings[0].1.split(',').any(|part| part == forced)
                    };
                    assert_eq!(variants.iter().filter(has).count(), 1, "{forced}");
                }
            }
            assert!(variants.len() <= most + 4, "{} copies", variants.len());
            for (setting, value) in variants.iter().flat_map(|variant| &variant.settings) {
                check(setting, value).unwrap();
            }
        }
    }

    #[test]
    fn forms_are_there_if_they_are_asked_for() {
        let has = |also: &[Also], name: &str| {
            let of_bcast = candidates(Collective::Bcast, also);
            of_bcast.iter().any(|one| one.algorithm == name)
        };
        assert!(has(&[], "smp_knomial") && !has(&[], "smp_knomial:domains"));
        assert!(has(&[Also::Domains], "smp_knomial:domains"));
        assert!(!has(&[Also::Domains], "smp_multicast"));
        assert!(has(&[Also::Multicast], "smp_multicast"));
    }
}
