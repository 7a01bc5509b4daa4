//! Table 1 of Qian and Afsahi (Cluster Computing 2008): what two applications gain from faster all-gathers.

use super::qian2008::{CLUSTER, ELAN_GATHER};
use super::{Figure, Finding, Quantity, What};

/// Native by proposed: the time of the application with what stands for the native all-gather by that with
/// ferrorail's choice.
const SPEED_UP: Quantity = Quantity::Ratio(ELAN_GATHER, "ferrorail");

pub const TABLE1: Figure = Figure {
    name: "qian2008:table1",
    title: "Applications: speed-up by the all-gather algorithms",
    claim: "communication of N-BODY gains 1.09, of RADIX 1.47; the applications 1.01 and 1.13",
    machine: CLUSTER,
    what: What::Applications,
    findings: &[
        Finding::new("N-BODY, application", "1.01", 0, SPEED_UP).in_panel("N-BODY, application"),
        Finding::new("N-BODY, communication", "1.09", 0, SPEED_UP)
            .in_panel("N-BODY, communication"),
        Finding::new("RADIX, application", "1.13", 0, SPEED_UP).in_panel("RADIX, application"),
        Finding::new("RADIX, communication", "1.47", 0, SPEED_UP).in_panel("RADIX, communication"),
    ],
};
