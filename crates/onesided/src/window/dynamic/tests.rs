//! Tables that grow, that change while they are read, and whose owner died.

use super::{find, holds};
use crate::window::by_rail::tests::{Narrow, on_one_node};
use crate::window::{Shape, Window, WindowError, WindowLayout, layout};
use ferrorail_base::Rank;
use ferrorail_base::config::WindowSettings;
use ferrorail_base::sync::{AtomicBool, Ordering};
use ferrorail_fabric::{RAILS_MAX, RemoteRegion};
use std::sync::Arc;

const LAYOUT: WindowLayout = WindowLayout {
    ranks: 2,
    local_ranks: 2,
    rails: false,
    dynamic: true,
    operand_bytes: 0,
};

/// Bytes of a piece.
const PIECE: usize = 64;

/// Both ranks of a dynamic window of one node, in this process.
fn windows() -> [Arc<Window<Narrow>>; 2] {
    let both = on_one_node(LAYOUT, WindowSettings::default()).try_into();
    both.unwrap_or_else(|_| unreachable!("two ranks"))
}

fn attach(window: &Window<Narrow>, memory: &[u8], piece: usize) {
    let start = memory[PIECE * piece..].as_ptr().cast_mut();
    // SAFETY: the memory outlives the window's use of it.
    unsafe { window.attach(start, PIECE) }.expect("attached");
}

fn finds(window: &Window<Narrow>, memory: &[u8], first: usize, bytes: usize) -> bool {
    let start = memory.as_ptr() as i64 + first as i64;
    let shape = Shape::bytes_at(0, bytes);
    match window.place_dynamic(Rank(1), start, &shape) {
        Ok(found) => found as i64 == start,
        Err(WindowError::NotAttached { .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_table_grows_and_shrinks() {
    let pieces = 5 * layout::TABLE_ENTRIES;
    let memory = vec![0; PIECE * pieces];
    let [origin, owner] = windows();
    assert!(!finds(&origin, &memory, 0, 1));
    for piece in (0..pieces).rev() {
        attach(&owner, &memory, piece);
        assert!(finds(
            &origin,
            &memory,
            PIECE * piece,
            PIECE * (pieces - piece)
        ));
        assert!(piece == 0 || !finds(&origin, &memory, PIECE * piece - 1, 2));
    }
    for piece in 0..pieces {
        owner.detach(&memory[PIECE * piece]).expect("attached");
        assert!(!finds(&origin, &memory, PIECE * piece, 1));
        assert!(piece + 1 == pieces || finds(&origin, &memory, PIECE * (pieces - 1), PIECE));
    }
    assert!(owner.detach(&memory[0]).is_err());
}

#[test]
fn what_stays_is_found_while_the_table_changes() {
    let pieces = 4 * layout::TABLE_ENTRIES;
    let memory = vec![0; PIECE * pieces];
    let [origin, owner] = windows();
    attach(&owner, &memory, 0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                (1..pieces).for_each(|piece| attach(&owner, &memory, piece));
                for piece in 1..pieces {
                    owner.detach(&memory[PIECE * piece]).expect("attached");
                }
            }
            over.store(true, Ordering::Release);
        });
        while !over.load(Ordering::Acquire) {
            assert!(finds(&origin, &memory, 0, PIECE));
        }
    });
    assert!(!finds(&origin, &memory, PIECE, 1));
}

#[test]
fn who_reads_a_table_that_its_owner_never_finished_gives_up() {
    let [origin, _owner] = windows();
    let table = LAYOUT.control(1) + layout::table(2);
    origin.segment.word(table).store(1, Ordering::Release);
    let changes = origin.own_word(layout::changes(2, 1));
    changes.store(1, Ordering::Release);
    let outcome = origin.place_dynamic(Rank(1), 4096, &Shape::bytes_at(0, 8));
    assert!(matches!(outcome, Err(WindowError::Peer(_))), "{outcome:?}");
}

#[test]
fn memory_in_regions_that_follow_one_another_is_found() {
    let region = |address, bytes| RemoteRegion {
        address,
        bytes,
        rkeys: [7; RAILS_MAX],
        mapping: 0,
    };
    let regions = [region(1000, 10), region(1010, 5), region(5000, 100)];
    let start = |address| find(&regions, address).map(|found| (found.0.address, found.1));
    assert_eq!(start(1000), Some((1000, 0)));
    assert_eq!(start(1009), Some((1000, 9)));
    assert_eq!(start(1010), Some((1010, 0)));
    assert_eq!(start(999), None);
    assert_eq!(start(1015), None);
    assert!(holds(&regions, 1000, 15) && holds(&regions, 1005, 7));
    assert!(!holds(&regions, 1000, 16) && !holds(&regions, 999, 2));
    assert!(holds(&regions, 5050, 50) && !holds(&regions, 5050, 51));
    assert!(!holds(&regions, u64::MAX, 1) && !holds(&[], 0, 1));
    assert!(holds(&regions, 77, 0));
}
