//! Active synchronisation, beside an original over send and receive.

use super::{BESIDE_MESSAGES, DRAWN, EVENT, PAIR, part};
use crate::bench::figures::{
    Curve, Figure, Finding, Machine, OneSided, Part, Quantity, Unit, What, library,
};

const MESSAGES_OF_PAIR: Machine = Machine {
    ranks: 2,
    ..BESIDE_MESSAGES
};
const RDMA: &str = "RDMA based";
const ORIGINAL: &str = "original (send/receive)";
const ACTIVE: &[Curve] = &[library(RDMA, &[])];
const BITS: &str = "RDMA based, bit vectors";
/// Posts and completions by counters, as elsewhere, and as the thesis has them (section 3.3.3).
const COUNTERS_AND_BITS: &[Curve] = &[
    library(RDMA, &[(PSCW, "counters")]),
    library(BITS, &[(PSCW, "bit_vectors")]),
];
const PSCW: &str = "FERRORAIL_PSCW";

const fn active(
    benchmark: &'static str,
    parts: &'static [Part],
    bytes: &'static str,
    unit: Unit,
) -> What {
    compared(benchmark, parts, ACTIVE, bytes, unit)
}

const fn compared(
    benchmark: &'static str,
    parts: &'static [Part],
    curves: &'static [Curve],
    bytes: &'static str,
    unit: Unit,
) -> What {
    What::OneSided(OneSided {
        benchmark,
        parts,
        curves,
        messages: ORIGINAL,
        bytes,
        unit,
    })
}

const INFO: &str = "ferrorail info";
const WINDOW: &str = "ferrorail explain window --ranks 2 --node-size 1";

/// Chapters 2 and 3.
pub const FIGURES: &[Figure] = &[
    Figure::drawing(
        "jiang2004:fig2.1",
        "Architecture of InfiniBand",
        DRAWN,
        INFO,
    ),
    Figure::drawing("jiang2004:fig2.2", "RDMA", DRAWN, INFO),
    Figure::drawing("jiang2004:fig2.3", "Put, get and accumulate", DRAWN, WINDOW),
    Figure::drawing("jiang2004:fig2.4", "Active synchronisation", DRAWN, WINDOW),
    Figure::drawing("jiang2004:fig2.5", "Passive synchronisation", DRAWN, WINDOW),
    Figure::drawing("jiang2004:fig2.6", "Structure of MPICH2", DRAWN, INFO),
    Figure::drawing("jiang2004:fig2.7", "Put and get on a pipe", DRAWN, WINDOW),
    Figure::drawing(
        "jiang2004:fig2.8",
        "Put and get on shared memory",
        DRAWN,
        "ferrorail explain window --ranks 2 --node-size 2",
    ),
    Figure::drawing(
        "jiang2004:fig3.1",
        "One-sided communication by send and receive",
        DRAWN,
        WINDOW,
    ),
    Figure::drawing("jiang2004:fig3.2", "Layers of the design", DRAWN, WINDOW),
    Figure::drawing(
        "jiang2004:fig3.3",
        "Event-driven accumulate",
        DRAWN,
        "FERRORAIL_ACCUMULATE=event ferrorail explain window --ranks 2 --node-size 1",
    ),
    Figure::drawing(
        "jiang2004:fig3.4",
        "One-sided communication by RDMA",
        DRAWN,
        WINDOW,
    ),
    Figure {
        name: "jiang2004:fig3.5",
        title: "Ping-pong latency of put",
        claim: "RDMA takes 12.6 us where messages take 15.6, and up to 17 us less for long ones",
        machine: MESSAGES_OF_PAIR,
        what: active("rma-latency", &[part("put", "put")], "4:256K", Unit::Time),
        findings: &[
            Finding::new("RDMA based, 4 bytes", "12.6 us", 4, Quantity::Value(RDMA)),
            Finding::new(
                "original by RDMA based, 4 bytes",
                "1.24",
                4,
                Quantity::Ratio(ORIGINAL, RDMA),
            ),
            Finding::new(
                "original less RDMA based, 64 KB",
                "up to 17 us",
                64 << 10,
                Quantity::Added(ORIGINAL, RDMA),
            ),
        ],
    },
    Figure {
        name: "jiang2004:fig3.6",
        title: "Bi-directional latency",
        claim: "puts by RDMA always beat the original, and two-sided messages above 4 KB",
        machine: MESSAGES_OF_PAIR,
        what: active(
            "rma-latency",
            &[
                part("put_both_ways", "both ways"),
                Part {
                    variant: "messages_both_ways",
                    panel: "both ways",
                    curve: "two-sided",
                },
            ],
            "4:256K",
            Unit::Time,
        ),
        findings: &[
            Finding::new(
                "two-sided not slower than RDMA based",
                "up to 4K",
                0,
                Quantity::Crossing("two-sided", RDMA),
            ),
            Finding::new(
                "original by RDMA based, 4 bytes",
                "above 1",
                4,
                Quantity::Ratio(ORIGINAL, RDMA),
            ),
            Finding::new(
                "original by RDMA based, 64 KB",
                "above 1",
                64 << 10,
                Quantity::Ratio(ORIGINAL, RDMA),
            ),
        ],
    },
    Figure {
        name: "jiang2004:fig3.7",
        title: "Bandwidth of put",
        claim: "RDMA always carries more, by up to 77 %: 865 MB/s of messages of 256 KB",
        machine: MESSAGES_OF_PAIR,
        what: active(
            "rma-bandwidth",
            &[part("put", "put")],
            "4:1M",
            Unit::Bandwidth,
        ),
        findings: &[
            Finding::new(
                "RDMA based, 256 KB",
                "865 MB/s",
                256 << 10,
                Quantity::Value(RDMA),
            ),
            Finding::new(
                "RDMA based by original, 4 KB",
                "up to 1.77",
                4 << 10,
                Quantity::Ratio(RDMA, ORIGINAL),
            ),
        ],
    },
    Figure {
        name: "jiang2004:fig3.8",
        title: "Bandwidth of get",
        claim: "short gets by RDMA read carry less than the original, which writes",
        machine: MESSAGES_OF_PAIR,
        what: active(
            "rma-bandwidth",
            &[part("get", "get")],
            "4:1M",
            Unit::Bandwidth,
        ),
        findings: &[
            Finding::new(
                "RDMA based by original, 64 bytes",
                "below 1",
                64,
                Quantity::Ratio(RDMA, ORIGINAL),
            ),
            Finding::new(
                "RDMA based by original, 256 KB",
                "about 1",
                256 << 10,
                Quantity::Ratio(RDMA, ORIGINAL),
            ),
        ],
    },
    Figure {
        name: "jiang2004:fig3.9",
        title: "Synchronisation overhead",
        claim: "an epoch alone takes 14.78 us by RDMA and 16.52 us by messages; many targets as many origins",
        machine: BESIDE_MESSAGES,
        what: compared(
            "rma-sync-origins",
            &[part("origins", "origins"), part("targets", "targets")],
            COUNTERS_AND_BITS,
            "",
            Unit::Time,
        ),
        findings: &[
            Finding::new("RDMA based, 1 origin", "14.78 us", 1, Quantity::Value(RDMA))
                .in_panel("origins"),
            Finding::new(
                "original by RDMA based, 1 origin",
                "1.12",
                1,
                Quantity::Ratio(ORIGINAL, RDMA),
            )
            .in_panel("origins"),
            Finding::new(
                "original by bit vectors, 1 origin",
                "1.12",
                1,
                Quantity::Ratio(ORIGINAL, BITS),
            )
            .in_panel("origins"),
            Finding::new(
                "original by RDMA based, 1 target",
                "above 1",
                1,
                Quantity::Ratio(ORIGINAL, RDMA),
            )
            .in_panel("targets"),
        ],
    },
    Figure {
        name: "jiang2004:fig3.10",
        title: "Overlap of computation and communication",
        claim: "computation between puts of 64 KB costs RDMA nothing, and delays the original",
        machine: PAIR,
        what: active("rma-overlap", &[part("put", "put")], "", Unit::Time),
        findings: &[
            Finding::new(
                "RDMA based, 16 loops by none",
                "about 1",
                16,
                Quantity::Rise(RDMA),
            ),
            Finding::new(
                "original, 16 loops by none",
                "above 1",
                16,
                Quantity::Rise(ORIGINAL),
            ),
        ],
    },
    Figure {
        name: "jiang2004:fig3.11",
        title: "Process skew",
        claim: "a target that is late costs RDMA nothing, and the original much",
        machine: PAIR,
        what: active("rma-skew", &[part("put", "put")], "", Unit::Bandwidth),
        findings: &[
            Finding::new(
                "RDMA based, 64 loops by none",
                "1",
                64,
                Quantity::Rise(RDMA),
            ),
            Finding::new(
                "original, 64 loops by none",
                "far below 1",
                64,
                Quantity::Rise(ORIGINAL),
            ),
        ],
    },
    Figure {
        name: "jiang2004:fig3.12",
        title: "Bandwidth of several origins together",
        claim: "few origins reach 920 MB/s by RDMA, while messages never pass 895 MB/s",
        machine: BESIDE_MESSAGES,
        what: active("rma-origins", &[part("put", "put")], "", Unit::Bandwidth),
        findings: &[
            Finding::new(
                "RDMA based by original, 1 origin",
                "above 1",
                1,
                Quantity::Ratio(RDMA, ORIGINAL),
            ),
            Finding::new(
                "RDMA based by original, 2 origins",
                "above 1",
                2,
                Quantity::Ratio(RDMA, ORIGINAL),
            ),
        ],
    },
    Figure {
        name: "jiang2004:fig3.13",
        title: "Accumulate",
        claim: "the event-driven accumulate is better for more than 512 integers (2 KB)",
        machine: PAIR,
        what: compared(
            "rma-accumulate",
            &[part("sum", "sum")],
            &[
                library(RDMA, &[("FERRORAIL_ACCUMULATE", "origin")]),
                library(EVENT, &[("FERRORAIL_ACCUMULATE", "event")]),
            ],
            "4:64K",
            Unit::Time,
        ),
        findings: &[
            Finding::new(
                "RDMA based not slower than Event Driven",
                "up to 2K",
                0,
                Quantity::Crossing(RDMA, EVENT),
            ),
            Finding::new(
                "RDMA based by Event Driven, 64 KB",
                "above 1",
                64 << 10,
                Quantity::Ratio(RDMA, EVENT),
            ),
        ],
    },
];
