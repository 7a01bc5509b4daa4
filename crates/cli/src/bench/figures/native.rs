//! What stands for the Elan library's own collectives, which the papers compare with: one port, and the
//! algorithm for each size that Qian and Afsahi describe (2008, section 3.1). The one place that says so.

use super::{Curve, library};

/// `elan_gather()` as a gather.
pub const GATHER: Curve = library("elan_gather", &[ONE_PORT, (TUNING, GATHERING)]).of("gather");
/// `elan_gather()` as an all-gather, which gains nothing from striping (Qian and Afsahi, HPCS 2007, figure 2).
pub const ALLGATHER: Curve = library(
    "elan_gather",
    &[ONE_PORT, UNSTRIPED, (TUNING, ALLGATHERING)],
)
.of("allgather");
/// `elan_alltoall()`.
pub const ALLTOALL: Curve = library(
    "elan_alltoall",
    &[ONE_PORT, UNSTRIPED, (TUNING, EXCHANGING)],
)
.of("alltoall");

/// One port per rank.
pub const ONE_PORT: (&str, &str) = ("FERRORAIL_PORTS", "1");
/// No message is divided.
pub const UNSTRIPED: (&str, &str) = ("FERRORAIL_STRIPE_THRESHOLD", "1G");
/// A selection table, written out.
pub const TUNING: &str = "FERRORAIL_TUNING";

/// Shared memory up to 2 KB, a tree of all processes up to 4 KB, then messages to the root.
pub const GATHERING: &str = r#"{ "version": 1, "rules": [
  { "collective": "gather", "bytes": { "min": 4097 }, "algorithm": "direct", "protocol": "rendezvous" },
  { "collective": "gather", "bytes": { "min": 4097 }, "algorithm": "direct", "protocol": "eager" },
  { "collective": "gather", "bytes": { "min": 2049 }, "algorithm": "tree", "protocol": "eager" },
  { "collective": "gather", "algorithm": "smp_tree", "protocol": "eager" } ] }"#;

/// A gather and a broadcast up to 32 KB, through shared memory up to 2 KB; then a ring.
pub const ALLGATHERING: &str = r#"{ "version": 1, "rules": [
  { "collective": "allgather", "bytes": { "min": 32769 }, "algorithm": "ring", "protocol": "rendezvous" },
  { "collective": "allgather", "bytes": { "min": 32769 }, "algorithm": "ring", "protocol": "eager" },
  { "collective": "allgather", "bytes": { "min": 2049 }, "algorithm": "tree_gather_broadcast", "protocol": "eager" },
  { "collective": "allgather", "algorithm": "smp_gather_broadcast_tree", "protocol": "eager" } ] }"#;

/// Pairwise up to 8 KB, then by permission to send.
const EXCHANGING: &str = r#"{ "version": 1, "rules": [
  { "collective": "alltoall", "bytes": { "min": 8193 }, "algorithm": "permission_to_send", "protocol": "rendezvous" },
  { "collective": "alltoall", "bytes": { "min": 8193 }, "algorithm": "permission_to_send", "protocol": "eager" },
  { "collective": "alltoall", "algorithm": "pairwise", "protocol": "eager" } ] }"#;
