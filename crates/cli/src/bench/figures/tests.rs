//! Each figure is complete: names, curves, settings, sizes of findings.

use super::*;
use crate::bench::operation::Operation;
use crate::bench::{sizes, variant};
use ferrorail_coll::find_collective;
use ferrorail_coll::named::{Named, named};

fn check_curve(figure: &Figure, curve: &Curve) {
    let name = figure.name;
    let shown = figure.collectives().unwrap();
    assert!(curve.of.is_empty() || shown.names.contains(&curve.of));
    let is_raw = curve.by == By::RawMulticast;
    assert!(!is_raw || (curve.settings.is_empty() && shown.names == ["bcast"]));
    for (setting, value) in curve.settings {
        variant::check(setting, value).unwrap();
        let forced = value
            .split_once('=')
            .filter(|_| *setting == "FERRORAIL_ALGORITHM");
        let Some((collective, algorithm)) = forced else {
            continue;
        };
        let by = match named(find_collective(collective).unwrap(), algorithm).unwrap() {
            Named::One(variant) if variant.algorithm.multicast => By::Multicast,
            _ => By::Library,
        };
        assert_eq!(curve.by, by, "{name}: {}", curve.label);
    }
}

/// Its curves' names, and its sizes.
fn parts(figure: &Figure) -> (Vec<&'static str>, &'static str) {
    match &figure.what {
        What::Collectives(shown) => {
            for name in shown.names {
                Operation::named(name).unwrap();
            }
            for curve in shown.curves {
                check_curve(figure, curve);
            }
            let labels = shown.curves.iter().map(|curve| curve.label);
            (labels.chain([HOST]).collect(), shown.bytes)
        }
        What::Transfers(shown) => (
            shown.curves.iter().map(|curve| curve.0).collect(),
            shown.bytes,
        ),
        What::OneSided(shown) => {
            let (variants, parameter) = crate::bench::rma::variants(shown.benchmark);
            for part in shown.parts {
                assert!(variants.contains(&part.variant), "{}", part.variant);
            }
            for (setting, value) in shown.curves.iter().flat_map(|curve| curve.settings) {
                variant::check(setting, value).unwrap();
            }
            let own = shown.parts.iter().map(|part| part.curve);
            let labels = shown.curves.iter().map(|curve| curve.label).chain(own);
            let labels = labels.chain([shown.messages, HOST]);
            let labels = labels.filter(|label| !label.is_empty());
            (labels.collect(), if parameter { "" } else { shown.bytes })
        }
        What::Applications => (vec![HOST, NATIVE_ALLGATHER.label, "ferrorail"], ""),
        What::Shown(command) => {
            assert!(command.contains("ferrorail "));
            (Vec::new(), "")
        }
    }
}

#[test]
fn figures_are_complete() {
    for figure in all() {
        let name = figure.name;
        assert_eq!(
            all().filter(|other| other.name == name).count(),
            1,
            "{name}"
        );
        assert!(name.split_once(':').is_some() && !figure.title.is_empty());
        assert!(figure.claim.lines().count() == 1 && !figure.command().is_empty());
        for (setting, value) in figure.machine.rails {
            variant::check(setting, value).unwrap();
        }
        let (labels, bytes) = parts(figure);
        if matches!(figure.what, What::Shown(_)) {
            continue;
        }
        for label in &labels {
            let count = labels.iter().filter(|other| *other == label).count();
            assert_eq!(count, 1, "{name}: {label}");
        }
        // Empty where something else than sizes varies.
        let sizes = sizes::parse(bytes).map_or(Vec::new(), |sizes| sizes.0);
        assert!(!figure.findings.is_empty(), "{name}");
        for finding in figure.findings {
            let anywhere = matches!(finding.ours, Quantity::Crossing(..));
            let at = finding.at as usize;
            assert!(
                anywhere || sizes.is_empty() || sizes.contains(&at),
                "{name}: {}",
                finding.what
            );
            for label in finding.ours.curves() {
                assert!(labels.contains(&label), "{name}: {label}");
            }
        }
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
