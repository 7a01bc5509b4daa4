//! What stands for the Elan library's own collectives, which the papers compare with: the composites of
//! `ferrorail_coll::named`, which are on one port and go by size as Qian and Afsahi describe (2008, section
//! 3.1). The one place that says which.

use super::{Curve, library};
use crate::bench::variant::ALGORITHM;

/// `elan_gather()` as a gather.
pub const GATHER: Curve = library("elan_gather", &[GATHERING]).of("gather");
/// `elan_gather()` as an all-gather, which gains nothing from striping (Qian and Afsahi, HPCS 2007, figure 2).
pub const ALLGATHER: Curve = library("elan_gather", &[UNSTRIPED, ALLGATHERING]).of("allgather");
/// `elan_alltoall()`.
pub const ALLTOALL: Curve = library("elan_alltoall", &[UNSTRIPED, EXCHANGING]).of("alltoall");

/// No message is divided.
pub const UNSTRIPED: (&str, &str) = ("FERRORAIL_STRIPE_THRESHOLD", "1G");
/// A gather on one port.
pub const GATHERING: (&str, &str) = (ALGORITHM, "gather=tree_then_direct");
/// An all-gather on one port.
pub const ALLGATHERING: (&str, &str) = (ALGORITHM, "allgather=tree_then_ring");
const EXCHANGING: (&str, &str) = (ALGORITHM, "alltoall=pairwise_then_permission");
