//! Yu et al., High Performance Broadcast Support in LA-MPI over Quadrics, 2005: figures 1, 2 and 7 to 10.
//! "LA-MPI generic" is a spanning tree of point-to-point messages, "LA-MPI HW" the reliable broadcast over
//! multicast.

use super::{Collectives, Curve, Figure, Finding, HOST, Machine, Nodes, Quantity, Unit, What};
use crate::bench::job_sizes::JobSizes;
use crate::bench::variant::By;

const GENERIC: &str = "LA-MPI generic";
const HW: &str = "LA-MPI HW";
const RAW: &str = "raw multicast";
const CRC32C: &str = "reliable, CRC32C";
const ADDITIVE: &str = "reliable, additive";
const UNRELIABLE: &str = "unreliable";

const MULTICAST: (&str, &str) = ("FERRORAIL_ALGORITHM", "bcast=smp_multicast");

const fn multicast(label: &'static str, settings: &'static [(&str, &str)]) -> Curve {
    Curve {
        label,
        of: "",
        settings,
        by: By::Multicast,
    }
}

const TREE_AND_MULTICAST: &[Curve] = &[
    Curve {
        label: GENERIC,
        of: "",
        settings: &[("FERRORAIL_ALGORITHM", "bcast=knomial")],
        by: By::Library,
    },
    multicast(HW, &[MULTICAST]),
];

const fn ratio(
    what: &'static str,
    paper: &'static str,
    at: u64,
    (curve, base): (&'static str, &'static str),
) -> Finding {
    Finding {
        what,
        paper,
        panel: "",
        at,
        ours: Quantity::Ratio(curve, base),
    }
}

/// Nodes with one process each; rails as they are.
const MACHINE: Machine = Machine {
    ranks: 8,
    nodes: Nodes::OneEach,
    rails: &[],
};

/// The figures.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "yu2005:fig1",
        title: "Broadcast by a tree and by hardware",
        claim: "a broadcast along a tree of point-to-point messages is slower than one by hardware",
        machine: MACHINE,
        what: What::Collectives(Collectives {
            names: &["bcast"],
            curves: TREE_AND_MULTICAST,
            bytes: "4:16K",
            job_sizes: JobSizes::Whole,
            unit: Unit::Time,
        }),
        findings: &[ratio(
            "LA-MPI generic by LA-MPI HW, 4 bytes",
            "above 1",
            4,
            (GENERIC, HW),
        )],
    },
    Figure {
        name: "yu2005:fig2",
        title: "Reliable and raw multicast",
        claim: "a library's reliable broadcast (libelan) adds more than 150 % to the hardware's",
        machine: MACHINE,
        what: What::Collectives(Collectives {
            names: &["bcast"],
            curves: &[
                Curve {
                    label: RAW,
                    of: "",
                    settings: &[],
                    by: By::RawMulticast,
                },
                multicast(HW, &[MULTICAST]),
            ],
            bytes: "4:16K",
            job_sizes: JobSizes::Whole,
            unit: Unit::Time,
        }),
        findings: &[ratio(
            "reliable by raw, 4 bytes",
            "above 2.5 (libelan)",
            4,
            (HW, RAW),
        )],
    },
    Figure {
        name: "yu2005:fig7",
        title: "Broadcast latency",
        claim: "broadcast over multicast is faster than the tree and the vendors' MPIs, short and long",
        machine: MACHINE,
        what: What::Collectives(Collectives {
            names: &["bcast"],
            curves: TREE_AND_MULTICAST,
            bytes: "4:1M",
            job_sizes: JobSizes::Whole,
            unit: Unit::Time,
        }),
        findings: &[
            ratio(
                "LA-MPI HW by LA-MPI generic, 4 bytes",
                "below 1",
                4,
                (HW, GENERIC),
            ),
            ratio(
                "LA-MPI HW by the host MPI, 4 bytes",
                "below 1",
                4,
                (HW, HOST),
            ),
            ratio(
                "LA-MPI HW by LA-MPI generic, 64 KB",
                "below 1",
                64 << 10,
                (HW, GENERIC),
            ),
        ],
    },
    Figure {
        name: "yu2005:fig8",
        title: "Broadcast by number of processes",
        claim: "broadcast over multicast takes nearly the same time for 2 and for 128 processes",
        machine: MACHINE,
        what: What::Collectives(Collectives {
            names: &["bcast"],
            curves: TREE_AND_MULTICAST,
            bytes: "8",
            job_sizes: JobSizes::Doubling,
            unit: Unit::Time,
        }),
        findings: &[
            Finding {
                what: "LA-MPI HW, largest job by smallest",
                paper: "close to 1",
                panel: "",
                at: 8,
                ours: Quantity::Growth(HW),
            },
            Finding {
                what: "LA-MPI generic, largest job by smallest",
                paper: "logarithmic",
                panel: "",
                at: 8,
                ours: Quantity::Growth(GENERIC),
            },
        ],
    },
    Figure {
        name: "yu2005:fig9",
        title: "Cost of reliability",
        claim: "reliability costs 1 us up to 256 bytes, and the time of checksums for long messages",
        machine: MACHINE,
        what: What::Collectives(Collectives {
            names: &["bcast"],
            curves: &[
                multicast(
                    CRC32C,
                    &[MULTICAST, RELIABLE, ("FERRORAIL_BCAST_CHECKSUM", "crc32c")],
                ),
                multicast(
                    ADDITIVE,
                    &[
                        MULTICAST,
                        RELIABLE,
                        ("FERRORAIL_BCAST_CHECKSUM", "additive"),
                    ],
                ),
                multicast(UNRELIABLE, &[MULTICAST, ("FERRORAIL_BCAST_RELIABLE", "0")]),
            ],
            bytes: "4:1M",
            job_sizes: JobSizes::Whole,
            unit: Unit::Time,
        }),
        findings: &[
            Finding {
                what: "added by reliability, CRC32C, 256 bytes",
                paper: "about 1 us",
                panel: "",
                at: 256,
                ours: Quantity::Added(CRC32C, UNRELIABLE),
            },
            Finding {
                what: "added by reliability, additive, 256 bytes",
                paper: "about 1 us",
                panel: "",
                at: 256,
                ours: Quantity::Added(ADDITIVE, UNRELIABLE),
            },
            ratio(
                "reliable with CRC32C by unreliable, 1 MB",
                "significant",
                1 << 20,
                (CRC32C, UNRELIABLE),
            ),
            ratio(
                "reliable with a sum by unreliable, 1 MB",
                "significant",
                1 << 20,
                (ADDITIVE, UNRELIABLE),
            ),
        ],
    },
    Figure {
        name: "yu2005:fig10",
        title: "Number of channels",
        claim: "8 bytes take 17.1 us with 2 channels and 4.3 us with 16, between 8 processes",
        machine: MACHINE,
        what: What::Collectives(Collectives {
            names: &["bcast"],
            curves: &[
                multicast(
                    "2 channels",
                    &[MULTICAST, ("FERRORAIL_BCAST_CHANNELS", "2")],
                ),
                multicast(
                    "4 channels",
                    &[MULTICAST, ("FERRORAIL_BCAST_CHANNELS", "4")],
                ),
                multicast(
                    "8 channels",
                    &[MULTICAST, ("FERRORAIL_BCAST_CHANNELS", "8")],
                ),
                multicast(
                    "16 channels",
                    &[MULTICAST, ("FERRORAIL_BCAST_CHANNELS", "16")],
                ),
                multicast(
                    "32 channels",
                    &[MULTICAST, ("FERRORAIL_BCAST_CHANNELS", "32")],
                ),
                multicast(
                    "64 channels",
                    &[MULTICAST, ("FERRORAIL_BCAST_CHANNELS", "64")],
                ),
            ],
            bytes: "8",
            job_sizes: JobSizes::Whole,
            unit: Unit::Time,
        }),
        findings: &[
            Finding {
                what: "2 channels",
                paper: "17.1 us",
                panel: "",
                at: 8,
                ours: Quantity::Value("2 channels"),
            },
            Finding {
                what: "16 channels",
                paper: "4.3 us",
                panel: "",
                at: 8,
                ours: Quantity::Value("16 channels"),
            },
            ratio("2 channels by 16", "4.0", 8, ("2 channels", "16 channels")),
        ],
    },
    Figure {
        name: "yu2005:loss",
        title: "Broadcast with losses",
        claim: "what lost datagrams cost; the paper leaves faults to later work",
        machine: MACHINE,
        what: What::Collectives(Collectives {
            names: &["bcast"],
            curves: &[
                multicast("no loss", &[MULTICAST]),
                multicast("0.1 % lost", &[MULTICAST, (FAULTS, "drop=0.001,seed=1")]),
                multicast("1 % lost", &[MULTICAST, (FAULTS, "drop=0.01,seed=1")]),
                multicast("5 % lost", &[MULTICAST, (FAULTS, "drop=0.05,seed=1")]),
            ],
            bytes: "8,4K,64K",
            job_sizes: JobSizes::Whole,
            unit: Unit::Time,
        }),
        findings: &[
            Finding {
                what: "added by a loss of 1 %, 8 bytes",
                paper: "not measured",
                panel: "",
                at: 8,
                ours: Quantity::Added("1 % lost", "no loss"),
            },
            ratio(
                "1 % lost by no loss, 64 KB",
                "not measured",
                64 << 10,
                ("1 % lost", "no loss"),
            ),
        ],
    },
];

const RELIABLE: (&str, &str) = ("FERRORAIL_BCAST_RELIABLE", "1");
const FAULTS: &str = "FERRORAIL_MULTICAST_FAULTS";
