//! What is kept, what goes first, and what stays while it is used.

use super::Kept;
use ferrorail_base::config::WindowSettings;
use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::{LocalRegion, RAILS_MAX};

fn range(address: usize, bytes: usize) -> MemoryRange {
    MemoryRange { address, bytes }
}

fn region(address: usize, bytes: usize) -> LocalRegion {
    LocalRegion {
        range: range(address, bytes),
        lkeys: [0; RAILS_MAX],
        rkeys: [0; RAILS_MAX],
        backing: None,
        handle: address as u64,
        description: Vec::new(),
    }
}

fn kept(registrations_max: u32, registrations_bytes_max: u64) -> Kept {
    Kept::new(&WindowSettings {
        registrations_max,
        registrations_bytes_max,
        ..WindowSettings::default()
    })
}

/// Keeps a region that no operation uses; the addresses of those that went for it.
fn keep(kept: &mut Kept, address: usize, bytes: usize) -> Vec<usize> {
    let (region, gone) = kept.keep(region(address, bytes));
    drop(region.expect("there is room"));
    gone.iter().map(|region| region.range.address).collect()
}

#[test]
fn a_range_is_inside_or_not() {
    let whole = range(100, 50);
    assert!(whole.holds(range(100, 50)) && whole.holds(range(149, 1)));
    assert!(!whole.holds(range(99, 2)) && !whole.holds(range(149, 2)));
    assert!(!whole.holds(range(usize::MAX, 2)) && !whole.holds(range(200, 0)));
}

#[test]
fn the_least_recently_used_goes_first() {
    let mut kept = kept(2, 1000);
    assert!(keep(&mut kept, 1000, 100).is_empty());
    assert!(keep(&mut kept, 2000, 100).is_empty());
    assert!(kept.find(range(1010, 20)).is_some());
    assert_eq!(keep(&mut kept, 3000, 100), [2000], "by number");
    assert!(kept.find(range(2000, 100)).is_none());
    assert_eq!(keep(&mut kept, 4000, 850), [1000], "by number");
    assert_eq!(keep(&mut kept, 5000, 900), [3000, 4000], "by bytes");
    assert_eq!(kept.leave_all().len(), 1);
    assert_eq!(kept.bytes, 0);
}

#[test]
fn nothing_goes_while_it_is_used() {
    let mut kept = kept(2, 1000);
    let (first, _) = kept.keep(region(1000, 400));
    let (second, _) = kept.keep(region(2000, 400));
    let (first, second) = (first.expect("room"), second.expect("room"));
    let (third, gone) = kept.keep(region(3000, 100));
    assert!(third.is_err() && gone.is_empty());
    drop(second);
    assert_eq!(keep(&mut kept, 3000, 100), [2000]);
    drop(first);
    // Longer than all bounds: nothing makes way for it.
    let (long, gone) = kept.keep(region(9000, 1001));
    assert!(long.is_err() && gone.is_empty());
}

#[test]
fn only_what_is_promised_or_owned_is_kept() {
    let mut kept = kept(2, 1000);
    let own = range(500, 100);
    kept.own = Some(own);
    assert_eq!(kept.may_keep(range(550, 50), false), Some(own));
    assert_eq!(kept.may_keep(range(550, 51), false), None);
    let asked = range(550, 51);
    assert_eq!(kept.may_keep(asked, true), Some(asked));
}
