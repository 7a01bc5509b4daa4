//! Qian and Afsahi, High performance RDMA-based multi-port all-gather on multi-rail QsNetII, HPCS, 2007.

use super::native::{ALLGATHERING, GATHERING, UNSTRIPED};
use super::qian2008::{BOTH_WAYS, BRUCK, CLUSTER, DIRECT, ELAN_GATHER, EXCHANGE, FLAT};
use super::{Collectives, Figure, Finding, Quantity, Unit, What, library};
use crate::bench::job_sizes::JobSizes;

const ONE: (&str, &str) = ("FERRORAIL_RAILS", "1");
const TWO: (&str, &str) = ("FERRORAIL_RAILS", "2");
const GATHER_1: &str = "gather, single-rail";
const GATHER_2: &str = "gather, dual-rail";
const ALLGATHER_1: &str = "all-gather, single-rail";
const ALLGATHER_2: &str = "all-gather, dual-rail";

/// The figures.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "hpcs2007:fig1",
        ..BOTH_WAYS
    },
    Figure {
        name: "hpcs2007:fig2",
        title: "Bandwidth of the native gather and all-gather",
        claim: "gather gains from a second rail, all-gather does not",
        machine: CLUSTER,
        what: What::Collectives(Collectives {
            names: &["gather", "allgather"],
            curves: &[
                library(GATHER_1, &[ONE, GATHERING]).of("gather"),
                library(GATHER_2, &[TWO, GATHERING]).of("gather"),
                library(ALLGATHER_1, &[ONE, UNSTRIPED, ALLGATHERING]).of("allgather"),
                library(ALLGATHER_2, &[TWO, UNSTRIPED, ALLGATHERING]).of("allgather"),
            ],
            bytes: "4:1M",
            job_sizes: JobSizes::Whole,
            unit: Unit::Bandwidth,
        }),
        findings: &[
            Finding::new(
                "gather, dual-rail by single-rail, 256 KB",
                "above 1",
                256 << 10,
                Quantity::Ratio(GATHER_2, GATHER_1),
            ),
            Finding::new(
                "all-gather, dual-rail by single-rail, 256 KB",
                "1",
                256 << 10,
                Quantity::Ratio(ALLGATHER_2, ALLGATHER_1),
            ),
        ],
    },
    Figure::drawing(
        "hpcs2007:fig3",
        "Standard Exchange all-gather, 9 processes, 2 ports",
        "it takes two steps",
        "FERRORAIL_ALGORITHM=allgather=standard_exchange ferrorail explain allgather --bytes 1K --ranks 9 --node-size 1 --rails 2",
    ),
    Figure::drawing(
        "hpcs2007:fig4",
        "Bruck all-gather, 9 processes, 2 ports",
        "it takes two steps and a shift",
        "FERRORAIL_ALGORITHM=allgather=bruck ferrorail explain allgather --bytes 1K --ranks 9 --node-size 1 --rails 2",
    ),
    Figure {
        name: "hpcs2007:fig5",
        title: "All-gather without regard to nodes: performance and scalability",
        claim: "Bruck is the best of three for short messages, Direct the best of all above 2 KB, by up to 1.49",
        machine: CLUSTER,
        what: What::Collectives(Collectives {
            names: &["allgather"],
            curves: FLAT,
            bytes: "4:1M",
            job_sizes: JobSizes::UpTo(&[4, 8, 16]),
            unit: Unit::Time,
        }),
        findings: &[
            Finding::new(
                "elan_gather by Direct, 32 KB",
                "1.49",
                32 << 10,
                Quantity::Ratio(ELAN_GATHER, DIRECT),
            ),
            Finding::new(
                "elan_gather not slower than Direct",
                "up to 2K",
                0,
                Quantity::Crossing(ELAN_GATHER, DIRECT),
            ),
            Finding::new(
                "Direct by Bruck, 4 bytes",
                "above 1",
                4,
                Quantity::Ratio(DIRECT, BRUCK),
            ),
            Finding::new(
                "Standard Exchange by Bruck, 1 KB",
                "above 1 (16 processes)",
                1 << 10,
                Quantity::Ratio(EXCHANGE, BRUCK),
            ),
        ],
    },
];
