//! Which rails are near a rank, and which a leader drives: locality, as pure functions.
//!
//! The order of a team's rails is the order of their planes, alike on all ranks. Only what the
//! origin of a message decides by itself follows locality: the rails that undivided messages keep
//! to, and the rail that is a leader's own. The target learns of neither.

use ferrorail_base::RailId;

/// A NUMA-local rail that is slower than the fastest by more than this factor is no better than a far one.
const SLOWER_MAX: u64 = 2;

/// A rail, as far as locality matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// NUMA node of its device, if that is close to one.
    pub numa_node: Option<u32>,
    /// Nominal bandwidth, 0 if unknown.
    pub bandwidth_mb_s: u64,
}

/// The rails near to `numa_node`, as bits; all of them where nothing is known or none is near.
pub(crate) fn numa_local(rails: &[Site], numa_node: Option<u32>) -> u8 {
    let fastest = rails.iter().map(|rail| rail.bandwidth_mb_s).max();
    let is_numa_local = |rail: &Site| {
        let slow = Some(rail.bandwidth_mb_s * SLOWER_MAX) < fastest && rail.bandwidth_mb_s > 0;
        numa_node.is_some() && rail.numa_node == numa_node && !slow
    };
    let bits = (0..rails.len()).filter(|&rail| is_numa_local(&rails[rail]));
    match bits.fold(0, |numa_local: u8, rail| numa_local | 1 << rail) {
        0 => u8::MAX,
        numa_local => numa_local,
    }
}

/// The rail of each port, where ports have rails of their own: near to the leader that drives the
/// port, as far as there are. `leaders` are the NUMA nodes of the ports' leaders. All leaders of a
/// node compute the same, so that no two have one rail.
pub(crate) fn lanes(rails: &[Site], leaders: &[Option<u32>]) -> Vec<RailId> {
    let mut free: Vec<usize> = (0..rails.len()).collect();
    let mut lanes: Vec<Option<usize>> = vec![None; rails.len()];
    for (lane, leader) in lanes.iter_mut().zip(leaders) {
        let numa_local = |&rail: &usize| leader.is_some() && rails[rail].numa_node == *leader;
        if let Some(at) = free.iter().position(numa_local) {
            *lane = Some(free.remove(at));
        }
    }
    let mut free = free.into_iter();
    let lanes = lanes.into_iter().map(|lane| lane.or_else(|| free.next()));
    lanes.flatten().map(|rail| RailId(rail as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sites(nodes: &[Option<u32>]) -> Vec<Site> {
        let site = |&numa_node: &Option<u32>| Site {
            numa_node,
            bandwidth_mb_s: 12_500,
        };
        nodes.iter().map(site).collect()
    }

    fn eight() -> Vec<Site> {
        sites(&[0, 0, 0, 0, 1, 1, 1, 1].map(Some))
    }

    /// Numbers of the lanes.
    fn numbers(rails: &[Site], leaders: &[Option<u32>]) -> Vec<u8> {
        lanes(rails, leaders).iter().map(|rail| rail.0).collect()
    }

    #[test]
    fn numa_local_rails_are_those_of_the_ranks_node() {
        assert_eq!(numa_local(&eight(), Some(1)), 0b1111_0000);
        assert_eq!(
            numa_local(&eight(), None),
            u8::MAX,
            "a rank that is not bound"
        );
        assert_eq!(numa_local(&eight(), Some(2)), u8::MAX, "none is near");
        assert_eq!(numa_local(&sites(&[None, None]), Some(0)), u8::MAX);
        assert_eq!(numa_local(&sites(&[None, Some(0)]), Some(0)), 0b10);
        let mut slow = eight();
        slow[4].bandwidth_mb_s = 3_125;
        slow[5].bandwidth_mb_s = 0;
        assert_eq!(
            numa_local(&slow, Some(1)),
            0b1110_0000,
            "unknown is not slow"
        );
    }

    #[test]
    fn leaders_drive_numa_local_rails() {
        let leaders = [1, 0, 1, 0, 1, 0, 1, 0].map(Some);
        assert_eq!(numbers(&eight(), &leaders), [4, 0, 5, 1, 6, 2, 7, 3]);
        let all_on_one = [Some(1); 8];
        assert_eq!(numbers(&eight(), &all_on_one), [4, 5, 6, 7, 0, 1, 2, 3]);
        assert_eq!(numbers(&eight(), &[None; 8]), [0, 1, 2, 3, 4, 5, 6, 7]);
        let two = sites(&[Some(0), Some(1)]);
        assert_eq!(numbers(&two, &[Some(1), Some(0)]), [1, 0]);
        assert_eq!(numbers(&two, &[]), [0, 1], "fewer leaders than rails");
    }

    proptest! {
        /// Every rail is the lane of one port, and as many leaders as can be have a near one.
        #[test]
        fn lanes_are_a_permutation(
            rails in prop::collection::vec(prop::option::of(0..4u32), 1..=8),
            leaders in prop::collection::vec(prop::option::of(0..4u32), 0..=8),
        ) {
            let lanes = lanes(&sites(&rails), &leaders);
            let mut sorted: Vec<u8> = lanes.iter().map(|rail| rail.0).collect();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..rails.len() as u8).collect::<Vec<_>>());
            let leaders = &leaders[..leaders.len().min(rails.len())];
            let numa_local = lanes.iter().zip(leaders);
            let numa_local = numa_local.filter(|(rail, leader)| leader.is_some() && rails[rail.index()] == **leader);
            let most: usize = (0..4).map(|node| {
                let of = |all: &[Option<u32>]| all.iter().filter(|n| **n == Some(node)).count();
                of(&rails).min(of(leaders))
            }).sum();
            prop_assert_eq!(numa_local.count(), most);
        }
    }
}
