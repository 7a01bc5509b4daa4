//! Qian and Afsahi, Efficient shared memory and RDMA based collectives on multi-rail QsNetII SMP clusters,
//! Cluster Computing, 2008. What the papers of 2007 show as well has its text here.

use super::{
    Collectives, Curve, Figure, Finding, Machine, Nodes, Quantity, Transfer, Transfers, Unit, What,
    library, native,
};
use crate::bench::job_sizes::JobSizes;
use crate::bench::variant::By;

const ALGORITHM: &str = "FERRORAIL_ALGORITHM";
const KB: u64 = 1 << 10;

/// Four nodes of four processors with two rails, whose writes of 4 bytes took 2 us; their slots carried
/// 800 MB/s. Messages were striped from 1 KB on.
pub const CLUSTER: Machine = Machine {
    ranks: 16,
    nodes: Nodes::Count(4),
    rails: &[
        ("FERRORAIL_RAILS", "2"),
        ("FERRORAIL_LOOPBACK_LATENCY", "2000"),
        ("FERRORAIL_LOOPBACK_BANDWIDTH", "800"),
        ("FERRORAIL_STRIPE_THRESHOLD", "1K"),
    ],
};
/// One such node.
const NODE: Machine = Machine {
    ranks: 4,
    nodes: Nodes::Count(1),
    ..CLUSTER
};
/// Two nodes with one process each.
const PAIR: Machine = Machine {
    ranks: 2,
    nodes: Nodes::OneEach,
    ..CLUSTER
};

pub const DIRECT: &str = "Direct";
pub const EXCHANGE: &str = "Standard Exchange";
pub const BRUCK: &str = "Bruck";
const SMP_BRUCK: &str = "SMP-aware Bruck";
const SMP_BROADCAST: &str = "SMP-aware Gather and Broadcast";
pub const ELAN_GATHER: &str = native::ALLGATHER.label;
const ELAN_ALLTOALL: &str = native::ALLTOALL.label;

/// The algorithms of all-gather without regard to nodes.
pub const FLAT: &[Curve] = &[native::ALLGATHER, FLAT_DIRECT, FLAT_EXCHANGE, FLAT_BRUCK];
const FLAT_DIRECT: Curve = library(DIRECT, &[(ALGORITHM, "allgather=direct")]);
const FLAT_EXCHANGE: Curve = library(EXCHANGE, &[(ALGORITHM, "allgather=standard_exchange")]);
const FLAT_BRUCK: Curve = library(BRUCK, &[(ALGORITHM, "allgather=bruck")]);

const ONE_RAIL: &str = "single-rail";
const TWO_RAILS: &str = "dual-rail";

/// Puts both ways over one and two rails.
pub const BOTH_WAYS: Figure = Figure {
    name: "qian2008:fig1",
    title: "RDMA write, both ways",
    claim: "the second rail doubles the bandwidth, of messages from 1 KB on",
    machine: PAIR,
    what: What::Transfers(Transfers {
        curves: &[
            (
                ONE_RAIL,
                Transfer::Put {
                    rails: 1,
                    both_ways: true,
                },
            ),
            (
                TWO_RAILS,
                Transfer::Put {
                    rails: 2,
                    both_ways: true,
                },
            ),
        ],
        bytes: "4:1M",
        unit: Unit::Bandwidth,
    }),
    findings: &[
        Finding::new(
            "dual-rail by single-rail, 1 MB",
            "2",
            KB << 10,
            Quantity::Ratio(TWO_RAILS, ONE_RAIL),
        ),
        Finding::new(
            "dual-rail by single-rail, 4 KB",
            "about 2",
            4 * KB,
            Quantity::Ratio(TWO_RAILS, ONE_RAIL),
        ),
    ],
};

const SHM: &str = "shm_p2p";
const PUT: &str = "elan_put";

/// Copies within a node beside puts.
pub const INTRA_NODE: Figure = Figure {
    name: "qian2008:fig2",
    title: "Communication within a node",
    claim: "shared memory beats RDMA up to 2 KB; k copies at once beat it up to 128 KB",
    machine: NODE,
    what: What::Transfers(Transfers {
        curves: &[
            (SHM, Transfer::SharedBuffer),
            (PUT, Transfer::Ping { rails: 2 }),
            ("1-memcpy", Transfer::Copies(1)),
            ("2-memcpy", Transfer::Copies(2)),
            ("3-memcpy", Transfer::Copies(3)),
            ("4-memcpy", Transfer::Copies(4)),
        ],
        bytes: "4:256K",
        unit: Unit::Time,
    }),
    findings: &[
        Finding::new(
            "shm_p2p not slower than elan_put",
            "up to 2K",
            0,
            Quantity::Crossing(SHM, PUT),
        ),
        Finding::new(
            "4-memcpy not slower than elan_put",
            "up to 128K",
            0,
            Quantity::Crossing("4-memcpy", PUT),
        ),
    ],
};

const SHM_GATHER: &str = "shm_gather";
const SHM_BCAST: &str = "shm_bcast";
const OVER_RAILS: (&str, &str) = ("FERRORAIL_NODE_SIZE", "1");

/// Gather and broadcast within a node.
pub const NODE_COLLECTIVES: Figure = Figure {
    name: "qian2008:fig3",
    title: "Gather and broadcast within a node",
    claim: "gather through shared memory is as good as the native one up to 8 KB, broadcast better from \
            256 B to 32 KB",
    machine: NODE,
    what: What::Collectives(Collectives {
        names: &["gather", "bcast"],
        curves: &[
            library(ELAN_GATHER, &[OVER_RAILS, native::GATHERING]).of("gather"),
            library(SHM_GATHER, &[(ALGORITHM, "gather=smp_direct")]).of("gather"),
            Curve {
                label: "elan_hbcast",
                of: "bcast",
                settings: &[OVER_RAILS, (ALGORITHM, "bcast=smp_multicast")],
                by: By::Multicast,
            },
            library("elan_bcast", &[OVER_RAILS, (ALGORITHM, "bcast=knomial")]).of("bcast"),
            library(SHM_BCAST, &[(ALGORITHM, "bcast=smp_knomial")]).of("bcast"),
        ],
        bytes: "4:64K",
        job_sizes: JobSizes::Whole,
        unit: Unit::Time,
    }),
    findings: &[
        Finding::new(
            "shm_gather not slower than elan_gather",
            "up to 8K",
            0,
            Quantity::Crossing(SHM_GATHER, ELAN_GATHER),
        ),
        Finding::new(
            "elan_bcast by shm_bcast, 256 B",
            "above 1",
            256,
            Quantity::Ratio("elan_bcast", SHM_BCAST),
        ),
        Finding::new(
            "elan_hbcast by shm_bcast, 32 KB",
            "above 1",
            32 * KB,
            Quantity::Ratio("elan_hbcast", SHM_BCAST),
        ),
    ],
};

/// All-gather by seven algorithms.
pub const ALLGATHER: Figure = Figure {
    name: "qian2008:fig11",
    title: "All-gather: performance and scalability",
    claim: "SMP-aware Gather and Broadcast is best up to 256 B, SMP-aware Bruck from 512 B to 8 KB, Direct \
            from 16 KB to 1 MB",
    machine: CLUSTER,
    what: What::Collectives(Collectives {
        names: &["allgather"],
        curves: &[
            native::ALLGATHER,
            FLAT_DIRECT,
            FLAT_EXCHANGE,
            FLAT_BRUCK,
            library(
                SMP_BROADCAST,
                &[(ALGORITHM, "allgather=smp_gather_broadcast_direct")],
            ),
            library("SMP-aware Direct", &[(ALGORITHM, "allgather=smp_direct")]),
            library(SMP_BRUCK, &[(ALGORITHM, "allgather=smp_bruck")]),
        ],
        bytes: "4:1M",
        job_sizes: JobSizes::UpTo(&[4, 8, 16]),
        unit: Unit::Time,
    }),
    findings: &[
        Finding::new(
            "elan_gather by SMP-aware Gather and Broadcast, 64 B",
            "1 or above",
            64,
            Quantity::Ratio(ELAN_GATHER, SMP_BROADCAST),
        ),
        Finding::new(
            "elan_gather by SMP-aware Bruck, 4 KB",
            "1.96",
            4 * KB,
            Quantity::Ratio(ELAN_GATHER, SMP_BRUCK),
        ),
        Finding::new(
            "Direct by SMP-aware Bruck, 4 KB",
            "above 1",
            4 * KB,
            Quantity::Ratio(DIRECT, SMP_BRUCK),
        ),
        Finding::new(
            "elan_gather by Direct, 32 KB",
            "1.49",
            32 * KB,
            Quantity::Ratio(ELAN_GATHER, DIRECT),
        ),
        Finding::new(
            "SMP-aware Bruck not slower than Direct",
            "up to 8K",
            0,
            Quantity::Crossing(SMP_BRUCK, DIRECT),
        ),
    ],
};

/// The figures.
pub const FIGURES: &[Figure] = &[
    BOTH_WAYS,
    Figure {
        name: "qian2008:sec4.1",
        title: "RDMA latency",
        claim: "a write of 4 bytes takes 2 to 2.77 us over one rail or two, a read slightly longer",
        machine: PAIR,
        what: What::Transfers(Transfers {
            curves: &[
                ("write, single-rail", Transfer::Ping { rails: 1 }),
                ("write, dual-rail", Transfer::Ping { rails: 2 }),
                ("read, single-rail", Transfer::Get),
            ],
            bytes: "4:4K",
            unit: Unit::Time,
        }),
        findings: &[
            Finding::new(
                "write of 4 bytes",
                "2 to 2.77 us",
                4,
                Quantity::Value("write, single-rail"),
            ),
            Finding::new(
                "read by write, 4 bytes",
                "above 1",
                4,
                Quantity::Ratio("read, single-rail", "write, single-rail"),
            ),
        ],
    },
    INTRA_NODE,
    NODE_COLLECTIVES,
    Figure::drawing(
        "qian2008:fig4",
        "Standard Exchange all-gather, 9 processes, 2 ports",
        "it takes two steps",
        "FERRORAIL_ALGORITHM=allgather=standard_exchange ferrorail explain allgather --bytes 1K --ranks 9 --node-size 1 --rails 2",
    ),
    Figure::drawing(
        "qian2008:fig5",
        "Bruck all-gather, 9 processes, 2 ports",
        "it takes two steps and a shift",
        "FERRORAIL_ALGORITHM=allgather=bruck ferrorail explain allgather --bytes 1K --ranks 9 --node-size 1 --rails 2",
    ),
    Figure::drawing(
        "qian2008:fig6",
        "Bruck all-to-all, 9 processes, 2 ports",
        "blocks travel by the digits of their distance",
        "FERRORAIL_ALGORITHM=alltoall=bruck ferrorail explain alltoall --bytes 1K --ranks 9 --node-size 1 --rails 2",
    ),
    Figure::drawing(
        "qian2008:fig7",
        "SMP-aware Gather and Broadcast, 4 nodes of 4",
        "only first processes of nodes send over rails",
        "FERRORAIL_ALGORITHM=allgather=smp_gather_broadcast_direct ferrorail explain allgather --bytes 256 --ranks 16 --node-size 4 --rails 2",
    ),
    Figure::drawing(
        "qian2008:fig8",
        "SMP-aware Direct all-gather, 4 nodes of 4",
        "only first processes of nodes send over rails",
        "FERRORAIL_ALGORITHM=allgather=smp_direct ferrorail explain allgather --bytes 4K --ranks 16 --node-size 4 --rails 2",
    ),
    Figure {
        name: "qian2008:fig9",
        title: "Gather: performance and scalability",
        claim: "the tree is better up to 256 B; Direct beats elan_gather from 1 KB on, by up to 2.15",
        machine: CLUSTER,
        what: What::Collectives(Collectives {
            names: &["gather"],
            curves: &[
                native::GATHER,
                library("tree", &[(ALGORITHM, "gather=tree")]),
                library(DIRECT, &[(ALGORITHM, "gather=direct")]),
            ],
            bytes: "4:1M",
            job_sizes: JobSizes::UpTo(&[4, 8, 16]),
            unit: Unit::Time,
        }),
        findings: &[
            Finding::new(
                "elan_gather by Direct, 4 KB",
                "2.15",
                4 * KB,
                Quantity::Ratio(ELAN_GATHER, DIRECT),
            ),
            Finding::new(
                "elan_gather by tree, 4 KB",
                "above 1",
                4 * KB,
                Quantity::Ratio(ELAN_GATHER, "tree"),
            ),
            Finding::new(
                "tree not slower than Direct",
                "up to 256",
                0,
                Quantity::Crossing("tree", DIRECT),
            ),
        ],
    },
    Figure {
        name: "qian2008:fig10",
        title: "All-to-all: performance and scalability",
        claim: "Bruck is the best of three up to 64 B; Direct beats elan_alltoall above 256 B, by up to 2.26",
        machine: CLUSTER,
        what: What::Collectives(Collectives {
            names: &["alltoall"],
            curves: &[
                native::ALLTOALL,
                library(DIRECT, &[(ALGORITHM, "alltoall=direct")]),
                library(EXCHANGE, &[(ALGORITHM, "alltoall=standard_exchange")]),
                library(BRUCK, &[(ALGORITHM, "alltoall=bruck")]),
            ],
            bytes: "4:256K",
            job_sizes: JobSizes::UpTo(&[4, 8, 16]),
            unit: Unit::Time,
        }),
        findings: &[
            Finding::new(
                "elan_alltoall by Direct, 2 KB",
                "2.26",
                2 * KB,
                Quantity::Ratio(ELAN_ALLTOALL, DIRECT),
            ),
            Finding::new(
                "Bruck not slower than Direct",
                "up to 64",
                0,
                Quantity::Crossing(BRUCK, DIRECT),
            ),
            Finding::new(
                "Bruck by Standard Exchange, 8 KB",
                "above 1",
                8 * KB,
                Quantity::Ratio(BRUCK, EXCHANGE),
            ),
        ],
    },
    ALLGATHER,
];
