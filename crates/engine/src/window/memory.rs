//! Where the memory of each rank of a window lies.

use super::spec::{Memory, WindowSpec};
use ferrorail_base::{NodeId, Topology};
use ferrorail_onesided::window::WindowLayout;
use ferrorail_onesided::window::layout::PAGE;

/// What belongs to a rank in the segment of its node, as offsets.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub control: usize,
    pub operand_buffers: usize,
    pub memory: usize,
}

/// Where all ranks have what is theirs in the segments of their nodes, and the lengths of segments.
pub(super) struct Geometry {
    pub layouts: Vec<WindowLayout>,
    /// By rank.
    pub places: Vec<Place>,
    /// By node.
    pub bytes: Vec<usize>,
}

impl Geometry {
    /// `None` if some segment would be larger than memory can be.
    /// With operand buffers for `operand_bytes` of what service threads accumulate at a time.
    pub fn new(
        topology: &Topology,
        rails: bool,
        specs: &[WindowSpec],
        operand_bytes: usize,
    ) -> Option<Self> {
        // The kind of memory is the same on all ranks.
        let memory = specs[0].memory;
        let mut geometry = Self {
            layouts: Vec::new(),
            places: vec![Place::default(); specs.len()],
            bytes: Vec::new(),
        };
        for node in 0..topology.node_count() {
            let ranks = topology.ranks_of(NodeId(node));
            let layout = WindowLayout {
                ranks: topology.size(),
                local_ranks: ranks.len() as u32,
                rails,
                dynamic: memory == Memory::Dynamic,
                operand_bytes,
            };
            let mut next = layout.memory();
            for (local, rank) in (0..).zip(ranks) {
                let place = &mut geometry.places[rank.index()];
                place.control = layout.control(local);
                place.operand_buffers = layout.operand_buffers(local);
                if memory.is_allocated() {
                    place.memory = next;
                    let bytes = usize::try_from(specs[rank.index()].bytes).ok()?;
                    next = next.checked_add(bytes)?;
                    if memory != (Memory::Shared { apart: false }) {
                        next = next.checked_next_multiple_of(PAGE)?;
                    }
                }
            }
            isize::try_from(next).ok()?;
            geometry.layouts.push(layout);
            geometry.bytes.push(next);
        }
        Some(geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_contiguous_unless_it_need_not_be() {
        let topology = Topology::from_sizes(&[2, 3]);
        let of = |memory, lengths: [u64; 5], rails| {
            let specs = lengths.map(|bytes| WindowSpec::new(memory, bytes, 1));
            Geometry::new(&topology, rails, &specs, 0)
        };
        let lengths = [10, 0, 100, 7, 5000];
        let shared = |apart| of(Memory::Shared { apart }, lengths, true).expect("fits");
        let tight = shared(false);
        assert_eq!(tight.places[3].memory, tight.places[2].memory + 100);
        assert_eq!(tight.places[4].memory, tight.places[3].memory + 7);
        assert_eq!(tight.bytes[1], tight.places[4].memory + 5000);
        assert_eq!(tight.places[2].memory % PAGE, 0, "the first of a node");
        let apart = shared(true);
        assert!(apart.places.iter().all(|place| place.memory % PAGE == 0));
        assert_eq!(apart.places[1].memory, apart.places[0].memory + PAGE);
        let huge = [u64::MAX - 5; 5];
        assert!(of(Memory::Allocate, huge, true).is_none());
        let none = of(Memory::Create { address: 1 }, huge, false);
        assert!(none.is_some_and(|none| none.bytes[0] == none.layouts[0].memory()));
    }
}
