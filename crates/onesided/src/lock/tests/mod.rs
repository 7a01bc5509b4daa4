//! Locks under loom, in virtual time and on threads.

mod atomic_site;
#[cfg(not(loom))]
mod contention;
#[cfg(loom)]
mod loom;
#[cfg(not(loom))]
mod misuse;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
mod virtual_time;

/// The generator of Steele, Lea and Flood: enough for schedules, and the seed is all its state.
#[cfg(not(loom))]
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
