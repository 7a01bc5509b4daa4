//! Quiescence: that every rank has finished an operation, found between nodes while later ones run: the
//! delayed synchronisation of Yu et al. 2005, section 3.3, that nobody need wait in.
//!
//! Each rank says in its node's segment what it has finished. When an operation is to be known
//! finished, which [`crate::sequence`] wants at the same call on all ranks, each node's leader waits
//! until its ranks have finished it and then takes part in a dissemination among leaders: in round
//! r it tells the leader 2^r nodes on, once it has heard as much from the one 2^r nodes before.
//! What it tells is the number of the operation, which only rises, so nothing is reset: a round's
//! next word waits until the last one is known to have arrived, as another rail may repeat that. Who
//! has heard of every round shows the number to the node.
//!
//! Leaders look on between operations. A rank waits only for the place of operation i to be known
//! free, by quiescence that all ranks want before i. Leaders take quiescence in turn and leave none out:
//! who has shown that one has told all that others need of it, and who has not does not get past i
//! either.

pub(crate) mod progress;

use crate::EngineError;
use crate::blocking_wait::probe::{check_sent, probe_peer};
use crate::blocking_wait::status::Awaited;
use crate::blocking_wait::{Blocked, BlockingWait};
use crate::team::connect::connect_all;
use crate::team::connected::Peers;
use crate::team::map::Map;
use crate::team::state::State;
use ferrorail_base::sync::Ordering;
use ferrorail_base::{NodeId, NodeRank, RailId, Rank};
use ferrorail_fabric::{Endpoint, Tracking};
use std::collections::BTreeSet;

/// Rounds among `nodes` leaders.
fn rounds(nodes: u32) -> u32 {
    nodes.next_power_of_two().trailing_zeros()
}

/// The leader of the node `distance` on from `node`, going around.
fn leader_after(map: &Map, node: NodeId, distance: u32) -> Rank {
    let node = NodeId((node.0 + distance) % map.topology.node_count());
    map.topology.leader_of(node)
}

/// Makes ready for quiescence: connects the leaders. At the same call on all ranks.
///
/// # Errors
/// As [`connect_all`].
#[cold]
pub(crate) fn prepare(map: &Map, state: &mut State) -> Result<(), EngineError> {
    if map.topology.is_leader(map.rank) {
        let rounds = rounds(map.topology.node_count());
        state.quiescence.arriving.resize(rounds as usize, None);
    }
    let peers_of = |rank| peers_of(map, rank);
    let mut blocking_wait = BlockingWait::new(map, "run-ahead");
    connect_all(map, state, Peers::Quiescence, &peers_of, &mut blocking_wait)
}

/// The leaders that `rank` tells and hears from, if it is one.
fn peers_of(map: &Map, rank: Rank) -> Vec<Rank> {
    if !map.topology.is_leader(rank) {
        return Vec::new();
    }
    let (nodes, node) = (map.topology.node_count(), map.topology.node_of(rank));
    let distances = (0..rounds(nodes)).flat_map(|round| [1 << round, nodes - (1 << round)]);
    let mut peers: Vec<Rank> = distances
        .map(|distance| leader_after(map, node, distance))
        .collect();
    peers.sort_unstable();
    peers.dedup();
    peers
}

/// Wants operation `op`, the last one, known finished. At the same call on all ranks.
#[cold]
pub(crate) fn request(map: &Map, state: &mut State, op: u64) -> Result<(), EngineError> {
    prepare(map, state)?;
    if !map.topology.is_leader(map.rank) {
        return Ok(());
    }
    state.quiescence.requested.push_back(op);
    advance(map, state).map(|_| ())
}

/// A leader's part of what is wanted, as far as it goes without waiting. What it waits for is returned.
pub(crate) fn advance(map: &Map, state: &mut State) -> Result<Option<Blocked>, EngineError> {
    if state.quiescence.requested.is_empty() {
        return Ok(None);
    }
    let segment = map.segment();
    let rounds = rounds(map.topology.node_count());
    while let Some(&op) = state.quiescence.requested.front() {
        let finished = |rank| segment.finished(NodeRank(rank)).load(Ordering::Acquire);
        let ranks = segment.geometry().local_ranks;
        if state.quiescence.round == 0 && (0..ranks).any(|rank| finished(rank) < op) {
            return Ok(Some(Blocked::Node));
        }
        while state.quiescence.round < rounds {
            if !tell(map, state, op)? {
                return Ok(Some(Blocked::Rail));
            }
            let quiescence = &mut state.quiescence;
            if segment
                .quiescence_word(quiescence.round)
                .load(Ordering::Acquire)
                < op
            {
                return Ok(Some(Blocked::Rail));
            }
            quiescence.round += 1;
            quiescence.sent = false;
        }
        state.quiescence.round = 0;
        state.quiescence.requested.pop_front();
        segment.completed_watermark().store(op, Ordering::Release);
        segment.quiescence_doorbell().ring();
    }
    Ok(None)
}

/// Sends this round's word, unless that is done; false if a queue is full or the last one may still
/// arrive.
fn tell(map: &Map, state: &mut State, op: u64) -> Result<bool, EngineError> {
    if state.quiescence.sent {
        return Ok(true);
    }
    let round = state.quiescence.round;
    let rails = map.rails.as_ref().expect("nodes are joined by rails");
    if let Some(ticket) = state.quiescence.arriving[round as usize] {
        // Who is ahead may not have waited since, and so not have seen it complete.
        rails.fabric.progress()?;
        if !rails.fabric.is_complete(ticket)? {
            return Ok(false);
        }
        state.quiescence.arriving[round as usize] = None;
    }
    let to = leader_after(map, map.node, 1 << round);
    let link = state.links[to.index()].as_ref();
    let link = link.expect("leaders are connected before they tell each other");
    let word = (map.segment().layout().quiescence_word(round), op);
    let ticket = rails.put_word(link, RailId(0), word, Tracking::Tracked)?;
    state.quiescence.sent = ticket.is_some();
    state.quiescence.arriving[round as usize] = ticket;
    Ok(state.quiescence.sent)
}

/// The leaders that this one tells and hears from in this round, if it is a leader.
fn partners(map: &Map, state: &State) -> Option<(Rank, Rank)> {
    let nodes = map.topology.node_count();
    let round = state.quiescence.round;
    let waits = map.topology.is_leader(map.rank) && round < rounds(nodes);
    let leader = |distance| leader_after(map, map.node, distance);
    waits.then(|| (leader(1 << round), leader(nodes - (1 << round))))
}

/// Finds out whether the rails still reach the leaders of this round, and whether the one that is
/// waited for is still there.
fn check(map: &Map, state: &mut State) -> Result<(), EngineError> {
    let (Some(rails), Some((to, from))) = (&map.rails, partners(map, state)) else {
        return Ok(());
    };
    check_sent(rails, state)?;
    let links = BTreeSet::from([to, from]);
    for link in links.iter().filter_map(|rank| state.links[rank.index()]) {
        rails.fabric.check(link.peer)?;
    }
    // It tells of earlier operations as it makes its calls, and has all to make the next one as well.
    let next = state.sequence.op() + 1;
    probe_peer(map, state, from, Awaited::Operation(next))
}

/// Waits until all ranks are known to have finished operation `op`, which was wanted.
#[cold]
pub(crate) fn wait(map: &Map, state: &mut State, op: u64) -> Result<(), EngineError> {
    // Half a ring is left to those who are behind, so that nobody waits for this rank meanwhile.
    let mut blocking_wait = BlockingWait::new(map, "run-ahead")
        .for_operation(state.sequence.op() + 1)
        .resting();
    if !map.topology.is_leader(map.rank) {
        blocking_wait = blocking_wait.for_quiescence();
    }
    loop {
        let blocked = advance(map, state)?.unwrap_or(Blocked::Node);
        let completed = map.segment().completed_watermark().load(Ordering::Acquire);
        if completed >= op {
            state.sequence.all_finished(completed);
            return Ok(());
        }
        if blocking_wait.idle(blocked, || {
            "a rank that is a ring of channels behind".into()
        })? {
            blocking_wait.heed(check(map, state));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Team;
    use crate::on_threads::on_ranks;
    use crate::team::state::{Leaving, Life};
    use ferrorail_base::config::{FabricChoice, RailChoice, Settings};
    use ferrorail_base::sync::{AtomicU32, AtomicU64};
    use std::time::{Duration, Instant};

    /// Drives `team`'s rails until `done`.
    fn drive(team: &Team, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(60), "a hang");
            let rails = team.map.rails.as_ref().expect("two nodes");
            rails.fabric.progress().expect("a rail");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Wants operations 1 and 2 known, as one of two ranks that count in `steps` what they have done;
    /// the word that it has from the other.
    fn find_twice(team: &Team, steps: &AtomicU32) -> u64 {
        let (map, mut state) = (&team.map, team.enter().expect("a new team"));
        let both = |done: u32| {
            steps.fetch_add(1, Ordering::AcqRel);
            drive(team, || steps.load(Ordering::Acquire) >= 2 * done);
        };
        let finished = map.segment().finished(NodeRank(0));
        finished.store(2, Ordering::Release);
        request(map, &mut state, 1).expect("a peer");
        let mut completed = || advance(map, &mut state).expect("quiescence").is_none();
        drive(team, &mut completed);
        both(1);
        request(map, &mut state, 2).expect("a peer");
        let mut looks = 0..50;
        drive(team, || {
            advance(map, &mut state).expect("quiescence");
            looks.next().is_none()
        });
        both(2);
        // Leaving would wait for what it sent, which never completes.
        state.life = Life::Ended(Leaving::Over);
        map.segment().quiescence_word(0).load(Ordering::Acquire)
    }

    #[test]
    fn words_do_not_overtake_each_other() {
        let settings = Settings {
            fabric: FabricChoice::Loopback,
            node_size: Some(1),
            rails: RailChoice::Count(1),
            loopback_faults: "loop0:mute".into(),
            rail_timeout_ms: 600_000,
            ..Settings::default()
        };
        let (steps, heard) = (AtomicU32::new(0), [0; 2].map(AtomicU64::new));
        on_ranks(2, &settings, |team| {
            let word = find_twice(team, &steps);
            heard[team.rank().0 as usize].store(word, Ordering::Release);
        });
        // No completion ever comes: the first word may have to be repeated.
        assert_eq!(heard.map(AtomicU64::into_inner), [1, 1]);
    }

    /// It has done all operations that there were, and told nothing of them: it would with the next one.
    #[test]
    fn who_leaves_before_the_next_operation_is_missed() {
        let settings = Settings {
            fabric: FabricChoice::Loopback,
            node_size: Some(1),
            rails: RailChoice::Count(1),
            ..Settings::default()
        };
        let steps = AtomicU32::new(0);
        on_ranks(2, &settings, |team| {
            let (map, mut state) = (&team.map, team.enter().expect("a new team"));
            prepare(map, &mut state).expect("a peer");
            state.sequence.skip();
            let mut outcome = check(map, &mut state);
            drop(state);
            if team.rank() == Rank(1) {
                team.no_further_call();
            }
            steps.fetch_add(1, Ordering::AcqRel);
            drive(team, || steps.load(Ordering::Acquire) >= 2);
            if team.rank() == Rank(0) {
                drive(team, || {
                    outcome = check(map, &mut team.state());
                    outcome.is_err()
                });
                let left = matches!(outcome, Err(EngineError::PeerLeft { rank: Rank(1) }));
                assert!(left, "{outcome:?}");
            }
        });
    }

    #[test]
    fn rounds_reach_every_node() {
        for nodes in 2..=70u32 {
            let mut heard = 1u32;
            for round in 0..rounds(nodes) {
                assert!(1 << round < nodes);
                heard += 1 << round;
            }
            assert!(heard >= nodes, "{nodes} nodes");
        }
    }
}
