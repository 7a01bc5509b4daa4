//! Passive synchronisation: four designs of locks.

use super::{CLUSTER, DRAWN, EVENT, PAIR, part};
use crate::bench::figures::{
    Curve, Figure, Finding, Machine, Nodes, OneSided, Part, Quantity, Unit, What, library,
};

/// Two nodes with two processes each.
const SMP: Machine = Machine {
    ranks: 4,
    nodes: Nodes::Count(2),
    ..CLUSTER
};

const LOCK: &str = "FERRORAIL_LOCK";
const THREAD: &str = "Dedicated Thread";
const TEST_AND_SET: &str = "Test&Set";
const MCS: &str = "MCS";
const BY_THREAD: Curve = library(THREAD, &[(LOCK, "thread")]);
const BY_EVENT: Curve = library(EVENT, &[(LOCK, "event")]);
const BY_TEST_AND_SET: Curve = library(TEST_AND_SET, &[(LOCK, "test_and_set")]);
const BY_MCS: Curve = library(MCS, &[(LOCK, "mcs")]);
const LOCKS: &[Curve] = &[BY_THREAD, BY_EVENT, BY_TEST_AND_SET, BY_MCS];
const THREADS: &str = "Multiple Threads";
const LOCKS_AND_THREADS: &[Curve] = &[
    BY_THREAD,
    library(
        THREADS,
        &[(LOCK, "thread"), ("FERRORAIL_SERVICE_THREADS", "window")],
    ),
    BY_EVENT,
    BY_TEST_AND_SET,
    BY_MCS,
];
const AT_ONCE: &str = "Test&Set without back-off";
const LOCKS_AND_AT_ONCE: &[Curve] = &[
    BY_THREAD,
    BY_EVENT,
    BY_TEST_AND_SET,
    library(
        AT_ONCE,
        &[(LOCK, "test_and_set"), ("FERRORAIL_LOCK_BACKOFF", "0")],
    ),
    BY_MCS,
];

const fn passive(benchmark: &'static str, parts: &'static [Part], unit: Unit) -> What {
    compared(benchmark, parts, LOCKS, unit)
}

const fn compared(
    benchmark: &'static str,
    parts: &'static [Part],
    curves: &'static [Curve],
    unit: Unit,
) -> What {
    What::OneSided(OneSided {
        benchmark,
        parts,
        curves,
        messages: "",
        bytes: "",
        unit,
    })
}

/// Chapter 4.
pub const FIGURES: &[Figure] = &[
    Figure::drawing(
        "jiang2004:fig4.1",
        "Locks by a dedicated thread",
        DRAWN,
        "ferrorail explain window --ranks 2 --node-size 1 --lock thread",
    ),
    Figure::drawing(
        "jiang2004:fig4.2",
        "Test&Set",
        DRAWN,
        "ferrorail explain window --ranks 2 --node-size 1 --lock test_and_set",
    ),
    Figure::drawing(
        "jiang2004:fig4.3",
        "MCS",
        DRAWN,
        "ferrorail explain window --ranks 2 --node-size 1 --lock mcs",
    ),
    Figure {
        name: "jiang2004:fig4.4",
        title: "Overhead of passive synchronisation",
        claim: "Test&Set is the cheapest (12.83 us), then the dedicated thread, MCS, the event-driven thread",
        machine: PAIR,
        what: passive(
            "rma-lock",
            &[
                part("lock_unlock", "lock and unlock"),
                part("lock", "lock"),
                part("unlock", "unlock"),
            ],
            Unit::Time,
        ),
        findings: &[
            Finding::new("Test&Set", "12.83 us", 8, Quantity::Value(TEST_AND_SET))
                .in_panel("lock and unlock"),
            Finding::new(
                "Dedicated Thread by Test&Set",
                "above 1",
                8,
                Quantity::Ratio(THREAD, TEST_AND_SET),
            )
            .in_panel("lock and unlock"),
            Finding::new(
                "MCS by Dedicated Thread",
                "above 1",
                8,
                Quantity::Ratio(MCS, THREAD),
            )
            .in_panel("lock and unlock"),
            Finding::new(
                "Event Driven by MCS",
                "above 1",
                8,
                Quantity::Ratio(EVENT, MCS),
            )
            .in_panel("lock and unlock"),
        ],
    },
    Figure {
        name: "jiang2004:fig4.5",
        title: "Delay of synchronisation",
        claim: "a lock passes on fastest by MCS, then by Test&Set; threads are slower",
        machine: Machine {
            ranks: 3,
            ..CLUSTER
        },
        what: passive(
            "rma-delay",
            &[part("exclusive", "release to acquisition")],
            Unit::Time,
        ),
        findings: &[
            Finding::new(
                "Test&Set by MCS",
                "above 1",
                0,
                Quantity::Ratio(TEST_AND_SET, MCS),
            ),
            Finding::new(
                "Dedicated Thread by MCS",
                "above 1",
                0,
                Quantity::Ratio(THREAD, MCS),
            ),
            Finding::new(
                "Event Driven by MCS",
                "above 1",
                0,
                Quantity::Ratio(EVENT, MCS),
            ),
        ],
    },
    Figure {
        name: "jiang2004:fig4.6",
        title: "Concurrency",
        claim: "locks of several windows do not disturb each other with atomics; threads slow down by number, \
                also one for each window",
        machine: CLUSTER,
        what: compared(
            "rma-windows",
            &[part("lock_unlock", "lock and unlock")],
            LOCKS_AND_THREADS,
            Unit::Time,
        ),
        findings: &[
            Finding::new(
                "Test&Set, 2 origins by 1",
                "1",
                2,
                Quantity::Rise(TEST_AND_SET),
            ),
            Finding::new("MCS, 2 origins by 1", "1", 2, Quantity::Rise(MCS)),
            Finding::new(
                "Dedicated Thread, 2 origins by 1",
                "above 1",
                2,
                Quantity::Rise(THREAD),
            ),
            Finding::new(
                "Multiple by Dedicated Thread, 2 origins",
                "1 or above",
                2,
                Quantity::Ratio(THREADS, THREAD),
            ),
        ],
    },
    Figure {
        name: "jiang2004:fig4.7",
        title: "Messages of a lock and unlock under contention",
        claim: "with 7 contenders Test&Set takes 9 without back-off and 3 with it, MCS about 7, threads as with 1",
        machine: CLUSTER,
        what: compared(
            "rma-messages",
            &[part("lock_unlock", "lock and unlock")],
            LOCKS_AND_AT_ONCE,
            Unit::Messages,
        ),
        findings: &[
            Finding::new(
                "Test&Set with back-off, 7 contenders",
                "3",
                7,
                Quantity::Value(TEST_AND_SET),
            ),
            Finding::new(
                "Test&Set without back-off, 7 contenders",
                "9",
                7,
                Quantity::Value(AT_ONCE),
            ),
            Finding::new("MCS, 7 contenders", "about 7", 7, Quantity::Value(MCS)),
            Finding::new(
                "Dedicated Thread, 7 contenders by 1",
                "1",
                7,
                Quantity::Rise(THREAD),
            ),
        ],
    },
    Figure {
        name: "jiang2004:fig4.8",
        title: "Target with computing threads",
        claim: "threads that compute at the target slow down locks of the dedicated thread, and no others",
        machine: PAIR,
        what: passive(
            "rma-cpu",
            &[part("lock_unlock", "lock and unlock")],
            Unit::Time,
        ),
        findings: &[
            Finding::new(
                "Test&Set, 4 threads by 1",
                "1",
                4,
                Quantity::Rise(TEST_AND_SET),
            ),
            Finding::new("MCS, 4 threads by 1", "1", 4, Quantity::Rise(MCS)),
            Finding::new(
                "Dedicated Thread, 4 threads by 1",
                "above 1",
                4,
                Quantity::Rise(THREAD),
            ),
            Finding::new(
                "Event Driven, 4 threads by 1",
                "about 1",
                4,
                Quantity::Rise(EVENT),
            ),
        ],
    },
    Figure {
        name: "jiang2004:sec4.4.6",
        title: "Use of a core by idle processes",
        claim: "a dedicated thread takes a core for itself even while nothing happens; others take none",
        machine: PAIR,
        what: passive("rma-idle", &[part("asleep", "asleep")], Unit::Percent),
        findings: &[
            Finding::new("Dedicated Thread", "100 %", 0, Quantity::Value(THREAD)),
            Finding::new("Event Driven", "about 0", 0, Quantity::Value(EVENT)),
            Finding::new("MCS", "0", 0, Quantity::Value(MCS)),
        ],
    },
    Figure {
        name: "jiang2004:fig4.9",
        title: "One or two processes per node",
        claim: "atomics take the same with two processes on a node, the dedicated thread takes longer",
        machine: SMP,
        what: passive(
            "rma-pairs",
            &[part("lock_unlock", "lock and unlock")],
            Unit::Time,
        ),
        findings: &[
            Finding::new(
                "Test&Set, 2 pairs by 1",
                "1",
                2,
                Quantity::Rise(TEST_AND_SET),
            ),
            Finding::new("MCS, 2 pairs by 1", "1", 2, Quantity::Rise(MCS)),
            Finding::new(
                "Dedicated Thread, 2 pairs by 1",
                "above 1",
                2,
                Quantity::Rise(THREAD),
            ),
        ],
    },
];
