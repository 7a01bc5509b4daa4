//! How much of each kind a team's node segments have, and how much of them is registered.

use super::layouts::Layouts;
use super::map::{AREAS, CHANNELS, SMALL_CHANNELS, SYNC_CHANNELS};
use crate::run::{checked::cell_bytes, reserved_bytes};
use crate::scratch;
use crate::sequence::rotating_bytes;
use crate::shared_settings::SharedSettings;
use ferrorail_base::Topology;
use ferrorail_coll::schedule::{barrier_slots, rtr_base, slots};
use ferrorail_fabric::stripe::Policy;
use ferrorail_shm::{EAGER_SLOTS, EXCHANGE_SLOTS, NodeGeometry, NodeLayout};

/// Bytes of flags per rank with which a channel still counts as small.
const SMALL_FLAGS_MAX: u32 = 8192;

/// The segments of a team over `rails` rails, in which every rank may connect to every other or not.
pub(crate) fn layouts(
    topology: &Topology,
    settings: &SharedSettings,
    rails: u32,
    all_pairs: bool,
) -> Layouts {
    let size = topology.size();
    let slots = slots(topology, all_pairs);
    let scratch_bytes = scratch::scratch_bytes(
        settings.scratch_bytes,
        (size, topology.node_count()),
        all_pairs,
    );
    let alike = NodeGeometry {
        channels: CHANNELS,
        sync_channels: SYNC_CHANNELS,
        slots,
        rtr_base: rtr_base(size),
        sync_slots: barrier_slots(size),
        rails,
        ..NodeGeometry::default()
    };
    let alike = match topology.node_count() {
        1 => NodeGeometry {
            eager_slots: EAGER_SLOTS + EXCHANGE_SLOTS,
            scratch_bytes,
            rotating_bytes: rotating_bytes(size, scratch_bytes as usize) as u64,
            ..alike
        },
        _ => NodeGeometry {
            small_channels: match settings.reliable {
                true => 0,
                false => small_channels(slots, rails),
            },
            scratch_bytes: scratch_bytes + reserved_bytes(topology),
            areas: match settings.stripe_policy() {
                Policy::Weighted => AREAS,
                _ => AREAS - 1,
            },
            check_bytes: if settings.reliable {
                cell_bytes(rails)
            } else {
                0
            },
            ..alike
        },
    };
    Layouts::new(topology, alike)
}

/// Small channels between nodes, unless the flags of one, of which every slot has some, take more
/// room than what they are about.
fn small_channels(slots: u32, rails: u32) -> u32 {
    match 8 * slots * rails.next_power_of_two() {
        0..=SMALL_FLAGS_MAX => SMALL_CHANNELS,
        _ => 0,
    }
}

/// Bytes of a segment that are registered: before messages carry `data` the front, or all where connecting writes to it.
/// None on one node, where there are no areas.
pub(crate) fn registered(layout: &NodeLayout, settings: &SharedSettings, data: bool) -> u64 {
    match settings.stripe_policy() {
        _ if layout.geometry().areas == 0 => 0,
        Policy::Weighted => layout.total_bytes(),
        _ if data => layout.total_bytes(),
        _ => layout.front_bytes() as u64,
    }
}
