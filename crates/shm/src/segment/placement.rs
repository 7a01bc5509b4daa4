//! From which NUMA node pages of a segment come.

use ferrorail_base::memory::MemoryRange;
use std::io;

/// `MPOL_PREFERRED` of the kernel: the node if it has memory left, else another.
const PREFERRED: libc::c_ulong = 1;

/// Has the pages of `range`, which begins at a page, come from NUMA node `numa_node`, whoever writes them first. It is said
/// to the shared object, so that it holds for all who map it. Pages that are there already stay where they are.
///
/// # Errors
/// The system's; it may not allow that (`EPERM` under some container runtimes) or have no such node.
pub(crate) fn prefer_numa_node(range: MemoryRange, numa_node: u32) -> io::Result<()> {
    const BITS: usize = libc::c_ulong::BITS as usize;
    let node = numa_node as usize;
    let mut nodes: Vec<libc::c_ulong> = vec![0; node / BITS + 1];
    nodes[node / BITS] = 1 << (node % BITS);
    // The kernel reads one bit less than it is told of.
    let bits = nodes.len() * BITS + 1;
    // SAFETY: the call changes no memory; the mask has a bit less than is said, which are as many as are read.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            range.address,
            range.bytes,
            PREFERRED,
            nodes.as_ptr(),
            bits,
            0,
        )
    };
    match outcome {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeGeometry, NodeSegment, Segment};
    use ferrorail_base::NodeRank;
    use ferrorail_base::config::ShmKind;

    /// `MPOL_F_ADDR`: the policy of an address.
    const OF_ADDRESS: libc::c_ulong = 2;

    /// The policy of the page at `address`.
    fn policy(address: usize) -> io::Result<libc::c_int> {
        let mut policy: libc::c_int = -1;
        let no_mask = std::ptr::null_mut::<libc::c_ulong>();
        // SAFETY: one word is written, no mask is asked for.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut policy,
                no_mask,
                0,
                address,
                OF_ADDRESS,
            )
        };
        match outcome {
            0 => Ok(policy),
            _ => Err(io::Error::last_os_error()),
        }
    }

    #[test]
    fn pages_of_the_range_and_no_others_have_a_preferred_node() {
        let segment = Segment::create(ShmKind::Memfd, 4 << 12).unwrap();
        let attached = Segment::attach(&segment.handle()).unwrap();
        let range = segment.range();
        let part = range.slice(1 << 12, 2 << 12);
        let before = match policy(range.address) {
            Ok(policy) => policy,
            Err(error) => panic!("no memory policies here: {error}"),
        };
        prefer_numa_node(part, 0).unwrap();
        let of = |page: usize| policy(attached.range().address + (page << 12)).unwrap();
        assert_eq!([0, 1, 2, 3].map(of), [before, 1, 1, before]);
        attached
            .word(1 << 12)
            .store(7, ferrorail_base::sync::Ordering::Relaxed);
        let word = segment.word(1 << 12);
        assert_eq!(word.load(ferrorail_base::sync::Ordering::Relaxed), 7);
    }

    #[test]
    fn scratch_of_one_rank_is_placed_and_nobody_elses() {
        let geometry = NodeGeometry {
            local_ranks: 3,
            channels: 4,
            slots: 1,
            rails: 1,
            scratch_bytes: 5000,
            rotating_bytes: 3 << 12,
            ..NodeGeometry::default()
        };
        let node = NodeSegment::create(ShmKind::Memfd, geometry, 0).unwrap();
        let start = node.segment().range().address;
        let policies = |rank: u32| {
            let rank = NodeRank(rank);
            let capacity = geometry.scratch_capacity();
            let mut pages = Vec::new();
            for channel in 0..4 {
                let first = node.layout().scratch(rank, channel);
                pages.extend((first..first + capacity).step_by(1 << 12));
            }
            let rotating = node.layout().rotating(rank);
            pages.extend((rotating..rotating + (3 << 12)).step_by(1 << 12));
            let policies = pages.into_iter().map(|page| policy(start + page).unwrap());
            policies.collect::<Vec<_>>()
        };
        let others = vec![policy(start).unwrap(); 4 * 2 + 3];
        node.prefer_numa_node(NodeRank(1), 0).unwrap();
        assert_eq!(policies(1), [1; 4 * 2 + 3]);
        assert_eq!((policies(0), policies(2)), (others.clone(), others));
    }

    #[test]
    fn nodes_that_there_are_not_are_refused() {
        let segment = Segment::create(ShmKind::Memfd, 1 << 12).unwrap();
        assert!(prefer_numa_node(segment.range(), 1000).is_err());
        assert!(prefer_numa_node(segment.range(), 1 << 20).is_err());
    }
}
