//! Qian and Afsahi, RDMA-based and SMP-aware multi-port all-gather on multi-rail QsNetII SMP clusters, ICPP,
//! 2007: an earlier form of the paper of 2008, whose measurements it shares.

use super::Figure;
use super::qian2008::{ALLGATHER, INTRA_NODE, NODE_COLLECTIVES};

/// The figures.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "icpp2007:fig1",
        ..INTRA_NODE
    },
    Figure {
        name: "icpp2007:fig2",
        ..NODE_COLLECTIVES
    },
    Figure::drawing(
        "icpp2007:fig3",
        "SMP-aware Gather and Broadcast, 4 nodes of 4",
        "only first processes of nodes send over rails",
        "FERRORAIL_ALGORITHM=allgather=smp_gather_broadcast_direct ferrorail explain allgather --bytes 256 --ranks 16 --node-size 4 --rails 2",
    ),
    Figure::drawing(
        "icpp2007:fig4",
        "SMP-aware Direct all-gather, 4 nodes of 4",
        "only first processes of nodes send over rails",
        "FERRORAIL_ALGORITHM=allgather=smp_direct ferrorail explain allgather --bytes 4K --ranks 16 --node-size 4 --rails 2",
    ),
    Figure {
        name: "icpp2007:fig5",
        ..ALLGATHER
    },
];
