//! Each figure is complete: names, curves, settings, sizes of findings.

use super::findings::Quantity;
use super::*;
use crate::bench::operation::Operation;
use crate::bench::variant::{ALGORITHM, By};
use crate::bench::{cutoffs, sizes, variant};
use ferrorail_coll::find_collective;
use ferrorail_coll::named::{Named, named};

fn check_variant(figure: &Figure, variant: &Variant) {
    let name = &figure.name;
    for (setting, value) in &variant.settings {
        variant::check(setting, value).unwrap();
    }
    let Some(shown) = figure.collectives() else {
        return;
    };
    assert!(variant.of.is_empty() || shown.names.contains(&variant.of));
    let is_raw = variant.by == By::RawMulticast;
    assert!(!is_raw || (variant.settings.is_empty() && shown.names == ["bcast"]));
    for (_, value) in variant.settings.iter().filter(|pair| pair.0 == ALGORITHM) {
        let (collective, algorithm) = value.split_once('=').unwrap();
        let by = match named(find_collective(collective).unwrap(), algorithm).unwrap() {
            Named::One(variant) if variant.algorithm.multicast => By::Multicast,
            _ => By::Library,
        };
        assert_eq!(variant.by, by, "{name}: {}", variant.label);
    }
}

/// Its curves' names, and its sizes; none where something else varies.
fn parts(figure: &Figure) -> (Vec<String>, Vec<usize>) {
    let variants = figure.variants();
    for variant in &variants {
        check_variant(figure, variant);
    }
    let sizes = sizes::parse(&figure.bytes).map_or(Vec::new(), |sizes| sizes.0);
    let labels = variants.into_iter().map(|variant| variant.label);
    let host = [HOST.to_owned()];
    match &figure.what {
        What::Collectives(shown) => {
            for name in &shown.names {
                Operation::named(name).unwrap();
            }
            (labels.chain(host).collect(), sizes)
        }
        What::Transfers(curves) => (curves.iter().map(|curve| curve.0.clone()).collect(), sizes),
        What::OneSided(shown) => {
            let (variants, parameter) = crate::bench::rma::variants(&shown.benchmark);
            for part in &shown.parts {
                assert!(variants.contains(&&*part.variant), "{}", part.variant);
            }
            let own = shown.parts.iter().map(|part| part.curve.clone());
            let labels = labels.chain(own).chain([shown.messages.clone()]);
            let labels = labels.filter(|label| !label.is_empty()).chain(host);
            (labels.collect(), if parameter { vec![] } else { sizes })
        }
        What::Applications => {
            let labels = [HOST, &native_allgather().label, "ferrorail"];
            (labels.map(str::to_owned).into(), Vec::new())
        }
        What::Shown(command) => {
            assert!(command.contains("ferrorail ") && labels.count() == 0);
            (Vec::new(), Vec::new())
        }
    }
}

#[test]
fn figures_are_complete() {
    for figure in all().chain([&*cutoffs::FIGURE]) {
        let name = &figure.name;
        assert!(!figure.title.is_empty() && !figure.command().is_empty());
        assert_eq!(figure.claim.lines().count(), 1);
        for (setting, value) in &figure.machine.rails {
            variant::check(setting, value).unwrap();
        }
        let (labels, sizes) = parts(figure);
        if matches!(figure.what, What::Shown(_)) {
            continue;
        }
        for label in &labels {
            let count = labels.iter().filter(|other| *other == label).count();
            assert_eq!(count, 1, "{name}: {label}");
        }
        assert!(!figure.findings.is_empty(), "{name}");
        for finding in &figure.findings {
            let anywhere = matches!(finding.ours, Quantity::Crossing(..));
            let is_measured = sizes.is_empty() || sizes.contains(&(finding.at as usize));
            assert!(anywhere || is_measured, "{name}: {}", finding.what);
            for label in finding.ours.curves() {
                assert!(labels.iter().any(|known| known == label), "{name}: {label}");
            }
        }
    }
}

#[test]
fn figures_have_names_of_their_own() {
    for figure in all() {
        let alike = all().filter(|other| other.name == figure.name);
        assert_eq!(alike.count(), 1, "{}", figure.name);
        let (paper, _) = figure.name.split_once(':').unwrap();
        assert!(PAPERS.contains(&paper), "{}", figure.name);
    }
}

#[test]
fn curves_have_names_of_their_own_and_are_shown() {
    let files = FILES.map(|text| toml::from_str::<Papers>(text).unwrap());
    let named: usize = files.iter().map(|file| file.curves.len()).sum();
    assert_eq!(ALL.curves.len(), named);
    for name in ALL.curves.keys() {
        assert!(all().any(|figure| figure.curves.contains(name)), "{name}");
    }
}

#[test]
fn figures_are_found_by_name() {
    let named = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        super::named(&names)
    };
    assert!(named(&["bcast", "gather"]).unwrap().is_none());
    let figure = named(&["yu2005:fig10"]).unwrap().unwrap();
    assert_eq!(figure.name, "yu2005:fig10");
    let text = |names| named(names).unwrap_err().to_string();
    assert!(text(&["yu2005:fig77"]).ends_with("did you mean \"yu2005:fig7\"?"));
    assert!(text(&["bcast", "yu2005:fig7"]).contains("in a run of its own"));
}
