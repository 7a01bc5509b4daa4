//! Multicast broadcast: one multicast between the leaders, shared memory inside the nodes.
//!
//! Five ranks on nodes (0 1) (2 3) (4), root 1:
//!
//! ```text
//! 1 copies into its node's memory; 0 waits for it
//! round 1   0 multicasts to 2 and 4
//! 2 releases 3; all but 1 copy out
//! ```
//!
//! * Rounds: 1, whatever the number of nodes. Messages: 1. Volume: the message, once over each link.
//! * Cost: α + l β and two copies, the second concurrent within a node. A leader that is alone on its node
//!   sends from, and receives into, user memory.
//! * Zero-copy: leaders receive into their own buffers without an RTR, as a multicast is stored
//!   by its receiver; the ranks of a node are then put to by the one of them that has the message first.
//! * One node: the root copies in, the others wait for it and copy out at the same time.
//!
//! Source: Yu et al. 2005, section 5.1, whose processes all receive by themselves.

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::schedule::{Protocol, Schedule, Span};
use ferrorail_base::Rank;

/// The message in user memory.
const MESSAGE: Span = Span::recv(0, 1);

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    match request.protocol {
        Protocol::Eager => in_scratch(request),
        Protocol::Rendezvous => in_place(request),
    }
}

fn in_scratch(request: &Request<'_>) -> Schedule {
    let topology = request.topology;
    let (rank, root) = (request.rank, request.root);
    let mut builder = request.builder();
    let largest = topology.node_size_max();
    if topology.size() == 1 {
        return builder.finish(0);
    }
    let (node, root_node) = (topology.node_of(rank), topology.node_of(root));
    let sender = topology.leader_of(root_node);
    let shared = Span::node(0, 1);
    let alone = builder.node_size() == 1;
    if node == root_node && !alone {
        if rank == root {
            builder.copy(MESSAGE, shared);
        }
        builder.node_release(topology.node_rank_of(root));
    }
    builder.end_round();
    if topology.node_count() > 1 {
        if rank == sender {
            builder.multicast(if rank == root { MESSAGE } else { shared });
        } else if rank == topology.leader_of(node) {
            builder.await_multicast(sender, if alone { MESSAGE } else { shared });
        }
        builder.end_round();
        if node != root_node {
            builder.node_broadcast();
        }
    }
    if rank != root && !alone {
        builder.copy(shared, MESSAGE);
    }
    builder.finish(u32::from(largest > 1))
}

/// On each node one rank has the message first, and puts it to the others.
fn in_place(request: &Request<'_>) -> Schedule {
    let topology = request.topology;
    let (rank, root) = (request.rank, request.root);
    let mut builder = request.builder();
    let (node, root_node) = (topology.node_of(rank), topology.node_of(root));
    let sender = topology.leader_of(root_node);
    let first = match node == root_node {
        true => root,
        false => topology.leader_of(node),
    };
    // A put is numbered by who receives it; each rank of a node receives one.
    let others = || others_of(topology.ranks_of(node), first);
    let number = |of: Rank| others().position(|other| other == of).unwrap_or(0) as u32;
    let wire = Wire { port: 0, slot: 0 };
    let await_first = |builder: &mut ScheduleBuilder<'_>| {
        if rank != first {
            builder.await_put(first, wire, 1);
        }
    };
    let put_others = |builder: &mut ScheduleBuilder<'_>| {
        if rank == first {
            for other in others() {
                builder.await_rtr(other, number(other));
                builder.put(other, wire, MESSAGE, MESSAGE);
            }
        }
    };
    if rank != first {
        builder.send_rtr(first, number(rank));
    }
    builder.end_round();
    // Within the root's node first, as its leader is who sends.
    if node == root_node {
        put_others(&mut builder);
        await_first(&mut builder);
    }
    builder.end_round();
    if topology.node_count() > 1 {
        if rank == sender {
            builder.multicast(MESSAGE);
        } else if node != root_node && rank == first {
            builder.await_multicast(sender, MESSAGE);
        }
    }
    builder.end_round();
    if node != root_node {
        put_others(&mut builder);
        await_first(&mut builder);
    }
    builder.finish(0)
}

fn others_of(ranks: &[Rank], first: Rank) -> impl Iterator<Item = Rank> {
    ranks.iter().copied().filter(move |&rank| rank != first)
}

/// Closed form.
pub fn work(shape: &Shape, protocol: Protocol) -> Work {
    let between = u64::from(shape.nodes > 1);
    let inside = u64::from(shape.node_size - 1);
    match protocol {
        Protocol::Eager => Work {
            rounds: between,
            port_blocks: between,
            ports: 1,
            node_syncs: shape.syncs(1),
            ..Work::copies(u64::from(shape.node_size > 1))
        },
        // The root's node, then all others at once.
        Protocol::Rendezvous => {
            let nodes = u64::from(shape.nodes.min(2));
            Work {
                rounds: between + nodes * u64::from(inside > 0),
                port_blocks: between + nodes * inside,
                ports: 1,
                ..Work::copies(0)
            }
        }
    }
}
