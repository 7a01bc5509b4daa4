//! Cells of a layout neither overlap nor leave it.

use super::*;
use std::collections::BTreeMap;

/// Every cell of a layout as (offset, bytes, owner).
fn cells(layout: &NodeLayout) -> Vec<(usize, usize, String)> {
    let mut cells = vec![
        (NodeLayout::header(), LINE, "header".into()),
        (layout.doorbell(), 8, "doorbell".into()),
        (
            layout.completed_watermark(),
            8,
            "the completed watermark".into(),
        ),
        (
            layout.quiescence_doorbell(),
            8,
            "the completed watermark".into(),
        ),
    ];
    for round in 0..QUIESCENCE_ROUNDS {
        cells.push((layout.quiescence_word(round), 8, "quiescence".into()));
    }
    for r in (0..layout.geometry.local_ranks).map(NodeRank) {
        cells.push((layout.node_flag(r), 8, format!("flag {r}")));
        cells.push((layout.finished(r), 8, format!("finished {r}")));
        cells.push((layout.cores() + 4 * r.index(), 4, "cores".into()));
        for index in 0..layout.geometry.eager_slots {
            let at = layout.eager_slot(r, index);
            cells.push((at, SLOT, format!("eager {r} {index}")));
        }
        for channel in 0..layout.geometry.channels {
            for slot in 0..layout.geometry.slots {
                for rail in 0..layout.geometry.rails as u8 {
                    let at = layout.arrival(r, channel, slot, rail);
                    cells.push((at, 8, format!("arrivals {r} {channel}")));
                }
                if slot >= layout.geometry.rtr_base {
                    let at = layout.rtr(r, channel, slot);
                    cells.push((at, 64, format!("RTR {r} {channel} {slot}")));
                }
                if layout.geometry.check_bytes > 0 {
                    let bytes = layout.geometry.check_bytes as usize;
                    let at = layout.check(r, channel, slot);
                    cells.push((at, bytes, format!("check {r} {channel} {slot}")));
                    let at = layout.own_check(r, channel, slot as u16);
                    cells.push((at, bytes, format!("own check {r} {channel} {slot}")));
                    let at = layout.ack(r, channel, slot as u16);
                    cells.push((at, 8, format!("acknowledgements {r} {channel}")));
                }
            }
            let at = layout.scratch(r, channel);
            assert_eq!(at % PAGE, 0);
            let bytes = layout.geometry.scratch_bytes as usize;
            cells.push((at, bytes, format!("scratch {r} {channel}")));
        }
        let at = layout.rotating(r);
        assert_eq!(at % PAGE, 0);
        let bytes = layout.geometry.rotating_bytes as usize;
        cells.push((at, bytes, format!("rotating {r}")));
        sync_cells(layout, r, &mut cells);
        for small in layout.geometry.first_small()..layout.geometry.channel_count() {
            small_cells(layout, r, small, &mut cells);
        }
    }
    cells
}

fn sync_cells(layout: &NodeLayout, r: NodeRank, cells: &mut Vec<(usize, usize, String)>) {
    for channel in layout.geometry.channels..layout.geometry.first_small() {
        for slot in 0..layout.geometry.slots_of(channel) {
            let at = layout.arrival(r, channel, slot, 0);
            let bytes = 8 * layout.geometry.rails as usize;
            assert!(
                at + bytes <= layout.front_bytes(),
                "barriers take the front"
            );
            cells.push((at, bytes, format!("arrivals {r} {channel}")));
        }
        assert_eq!(
            (
                layout.scratch(r, channel),
                layout.geometry.channel_bytes(channel)
            ),
            (0, 0)
        );
    }
    for index in 0..layout.geometry.areas {
        let at = layout.area(r, index);
        cells.push((
            at,
            layout.geometry.scratch_capacity(),
            format!("area {r} {index}"),
        ));
    }
}

fn small_cells(
    layout: &NodeLayout,
    r: NodeRank,
    channel: u32,
    cells: &mut Vec<(usize, usize, String)>,
) {
    for slot in 0..layout.geometry.slots {
        for rail in 0..layout.geometry.rails as u8 {
            let at = layout.arrival(r, channel, slot, rail);
            cells.push((at, 8, format!("arrivals {r} {channel}")));
        }
        assert_eq!(
            layout.geometry.has_eager_message(channel, slot),
            slot < EAGER_MESSAGES
        );
    }
    for slot in 0..EAGER_MESSAGES {
        let at = layout.eager_message(r, channel, slot);
        cells.push((
            at,
            EAGER_MESSAGE,
            format!("eager message {r} {channel} {slot}"),
        ));
        let at = layout.own_eager_message(r, channel, slot);
        cells.push((
            at,
            EAGER_MESSAGE,
            format!("own eager message {r} {channel} {slot}"),
        ));
    }
    assert_eq!(layout.geometry.channel_bytes(channel), SMALL_SCRATCH as u64);
    let at = layout.scratch(r, channel);
    cells.push((at, SMALL_SCRATCH, format!("scratch {r} {channel}")));
}

#[test]
fn cells_neither_overlap_nor_share_lines() {
    let one = NodeGeometry {
        local_ranks: 1,
        channels: 1,
        slots: 1,
        rails: 1,
        scratch_bytes: 1,
        ..NodeGeometry::default()
    };
    let between_nodes = NodeGeometry {
        local_ranks: 2,
        channels: 2,
        sync_channels: 2,
        slots: 34,
        rtr_base: 17,
        sync_slots: 9,
        rails: 2,
        scratch_bytes: 4096,
        areas: 1,
        check_bytes: 64,
        ..one
    };
    let with_small = NodeGeometry {
        local_ranks: 5,
        channels: 3,
        small_channels: 4,
        slots: 42,
        rails: 3,
        scratch_bytes: 5000,
        rotating_bytes: 8192,
        areas: 2,
        check_bytes: 0,
        ..between_nodes
    };
    let without_scratch = NodeGeometry {
        local_ranks: 3,
        eager_slots: EAGER_SLOTS,
        small_channels: 2,
        slots: 33,
        rails: 8,
        check_bytes: 192,
        scratch_bytes: 0,
        ..one
    };
    for geometry in [one, between_nodes, with_small, without_scratch] {
        let layout = NodeLayout::of(geometry);
        let total = layout.total_bytes() as usize;
        let mut lines: BTreeMap<usize, String> = BTreeMap::new();
        let mut ends = Vec::new();
        for (at, bytes, owner) in cells(&layout) {
            assert_eq!(at % if owner == "cores" { 4 } else { 8 }, 0);
            assert!(at + bytes <= total, "{owner} leaves the segment");
            for line in at / LINE..(at + bytes).div_ceil(LINE) {
                let before = lines.insert(line, owner.clone());
                assert!(before.is_none_or(|b| b == owner), "{owner} shares a line");
            }
            ends.push((at, at + bytes));
        }
        ends.sort_unstable();
        assert!(
            ends.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "overlap"
        );
        assert_eq!(total % PAGE, 0);
    }
}

#[test]
fn arrival_flags_of_a_slot_are_consecutive() {
    let layout = NodeLayout::of(NodeGeometry {
        local_ranks: 2,
        channels: 2,
        small_channels: 1,
        slots: 9,
        rails: 3,
        scratch_bytes: 1,
        ..NodeGeometry::default()
    });
    let first = layout.arrival(NodeRank(1), 1, 4, 0);
    assert_eq!(layout.arrival(NodeRank(1), 1, 4, 2), first + 16);
    assert_eq!(layout.arrival(NodeRank(1), 1, 5, 0), first + 32);
}

#[test]
fn absurd_geometry_saturates() {
    let layout = NodeLayout::of(NodeGeometry {
        local_ranks: u32::MAX,
        eager_slots: u32::MAX,
        channels: u32::MAX,
        sync_channels: u32::MAX,
        small_channels: u32::MAX,
        slots: u32::MAX,
        rtr_base: 0,
        sync_slots: u32::MAX,
        rails: u32::MAX,
        scratch_bytes: u64::MAX,
        rotating_bytes: u64::MAX,
        areas: u32::MAX,
        check_bytes: u32::MAX,
    });
    assert_eq!(layout.total_bytes(), u64::MAX);
}

#[test]
fn indices_are_checked() {
    let layout = NodeLayout::of(NodeGeometry {
        local_ranks: 2,
        eager_slots: 4,
        channels: 1,
        sync_channels: 1,
        small_channels: 1,
        slots: 3,
        rtr_base: 1,
        sync_slots: 2,
        rails: 1,
        scratch_bytes: 1,
        rotating_bytes: 0,
        areas: 1,
        check_bytes: 0,
    });
    let panics =
        |f: &(dyn Fn() -> usize + std::panic::RefUnwindSafe)| std::panic::catch_unwind(f).is_err();
    assert!(panics(&|| layout.node_flag(NodeRank(2))));
    assert!(panics(&|| layout.eager_slot(NodeRank(0), 4)));
    assert!(panics(&|| layout.arrival(NodeRank(0), 3, 0, 0)));
    assert!(panics(&|| layout.arrival(NodeRank(0), 1, 2, 0)));
    assert!(panics(&|| layout.arrival(NodeRank(2), 1, 0, 0)));
    assert!(panics(&|| layout.rtr(NodeRank(0), 0, 0)));
    assert!(panics(&|| layout.area(NodeRank(0), 1)));
    assert!(panics(&|| layout.arrival(NodeRank(0), 0, 3, 0)));
    assert!(panics(&|| layout.arrival(NodeRank(0), 0, 0, 1)));
    assert!(panics(&|| layout.scratch(NodeRank(0), 3)));
    assert!(panics(&|| layout.rtr(NodeRank(0), 1, 1)));
    assert!(panics(&|| layout.eager_message(NodeRank(0), 0, 0)));
    assert!(panics(&|| layout.eager_message(
        NodeRank(0),
        2,
        EAGER_MESSAGES
    )));
}
