//! Groups of ranks, of which the last to come in an operation reduces the vectors of all.
//!
//! Protocol: each member publishes in its own slot. One that finds, before it does so, that all others have is the last: it
//! reduces, has the result take the place of the first member's vector, announces it there, and says that it has come. Members
//! that come at once may each miss that the other has: who waits for the result looks again, and claims what is to be done in
//! the first member's flag, so that one of them does it.

use super::EagerSlot;
use ferrorail_base::sync::Ordering;

/// What flags hold in one operation, by turns.
#[derive(Clone, Copy, Debug)]
pub struct GroupValues {
    /// Of every member that has come.
    pub published: u64,
    /// Of the first one, while a member reduces that had published before.
    pub claimed: u64,
    /// Of the first one, when the result is there.
    pub reduced: u64,
}

/// The slots of one operation that the members of a group have.
#[derive(Clone, Copy, Debug)]
pub struct EagerGroup<'a> {
    /// From the first member's on; those between are of other operations.
    slots: &'a [EagerSlot],
    /// From one member's to the next one's.
    stride: usize,
    members: usize,
    values: GroupValues,
}

impl<'a> EagerGroup<'a> {
    /// Of so many `members`: every `stride`-th of `slots` is one's.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn new(slots: &'a [EagerSlot], stride: usize, members: usize, values: GroupValues) -> Self {
        assert!((members - 1) * stride < slots.len(), "slots of a group");
        Self {
            slots,
            stride,
            members,
            values,
        }
    }

    /// The slot in which the result is announced.
    #[inline]
    pub fn first(&self) -> &'a EagerSlot {
        &self.slots[0]
    }

    fn members(&self) -> impl Iterator<Item = &'a EagerSlot> + use<'a> {
        self.slots.iter().step_by(self.stride).take(self.members)
    }

    /// Whether all but number `own`, the caller, have published: then it is the last.
    #[inline]
    pub fn is_last(&self, own: usize) -> bool {
        let others = self
            .members()
            .enumerate()
            .filter(|&(member, _)| member != own);
        let mut values = others.map(|(_, slot)| slot.value());
        values.all(|value| value == self.values.published)
    }

    /// Whether all have published and nobody has claimed to reduce that.
    #[inline]
    pub fn is_left(&self) -> bool {
        self.members()
            .all(|slot| slot.value() == self.values.published)
    }

    /// Claims to reduce what [`EagerGroup::is_left`]; false if another member has.
    pub fn claim(&self) -> bool {
        let GroupValues {
            published, claimed, ..
        } = self.values;
        let flag = &self.first().value;
        flag.compare_exchange(published, claimed, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether the result is there.
    #[inline]
    pub fn is_reduced(&self) -> bool {
        self.first().value() == self.values.reduced
    }

    /// Says that the result is there.
    #[inline]
    pub fn announce(&self) {
        self.first().announce(self.values.reduced);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn values(operation: u64) -> GroupValues {
        let published = operation << 2;
        GroupValues {
            published,
            claimed: published | 1,
            reduced: published | 2,
        }
    }

    /// The sum of all members' words, as `member` of them sees it that has `own`.
    fn sum(slots: &[EagerSlot], member: usize, operation: u64, own: u64) -> u64 {
        let group = EagerGroup::new(slots, 1, slots.len(), values(operation));
        let reduce = |mine: Option<u64>| {
            let words = slots.iter().enumerate().map(|(index, slot)| match mine {
                Some(mine) if index == member => mine,
                _ => slot.read_word(0),
            });
            let sum = words.sum();
            group.first().write_word(0, sum);
            group.announce();
        };
        if group.is_last(member) {
            reduce(Some(own));
            if member != 0 {
                slots[member].announce(group.values.published);
            }
        } else {
            slots[member].write_word(0, own);
            slots[member].announce(group.values.published);
        }
        while !group.is_reduced() {
            if group.is_left() && group.claim() {
                reduce(None);
            } else {
                thread::yield_now();
            }
        }
        group.first().read_word(0)
    }

    /// However members come, one of them reduces, and all see the result.
    #[test]
    fn loom_one_member_reduces() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let slots: Arc<[EagerSlot; 2]> = Arc::default();
            let other = {
                let slots = slots.clone();
                thread::spawn(move || assert_eq!(sum(&slots[..], 1, 1, 20), 21))
            };
            assert_eq!(sum(&slots[..], 0, 1, 1), 21);
            other.join().unwrap();
        });
    }
}
