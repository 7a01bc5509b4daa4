//! The bit layouts of the lock words.

/// Test-and-set: one exclusive holder, or a number of shared ones.
pub(super) mod test_and_set {
    /// Nobody holds the lock.
    pub const FREE: u64 = 0;
    /// The exclusive holder.
    pub const EXCLUSIVE: u64 = 1 << 63;
    /// One shared holder.
    pub const SHARED: u64 = 1;
}

/// MCS: a contender's turn and who it is, or nobody, in the lock word and in the mailboxes. 44 bits of
/// turns are some months of a microsecond each.
pub(super) mod mcs {
    /// Nobody.
    pub const NOBODY: u64 = 0;
    const CONTENDER_BITS: u32 = 20;
    /// Most contenders.
    pub const CONTENDERS: u32 = 1 << CONTENDER_BITS;

    /// The word of `contender` at a turn, from 1.
    pub const fn pack(turn: u64, contender: u32) -> u64 {
        turn << CONTENDER_BITS | contender as u64
    }

    /// The turn in a word; 0 of nobody.
    pub const fn turn(word: u64) -> u64 {
        word >> CONTENDER_BITS
    }

    /// The contender in the word of somebody.
    pub const fn contender(word: u64) -> u32 {
        word as u32 & (CONTENDERS - 1)
    }
}

/// Most contenders of a lock of [`Queue`](super::LockAlgorithm::Queue): each has two bits in its word.
pub const SEATS: u32 = 24;

/// The word of the queue lock. From the lowest bit:
///
/// | bits | field |
/// |---|---|
/// | 0..24 | writers: contender i wants the lock exclusively, or holds it so |
/// | 24..48 | readers waiting to be admitted |
/// | 48..56 | number of shared holders |
/// | 56..64 | the writer, plus one, that the last shared holder must wake |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueWord(pub u64);

impl QueueWord {
    const MASK: u64 = (1 << SEATS) - 1;
    const READER_SHIFT: u32 = SEATS;
    const HOLDERS_SHIFT: u32 = 2 * SEATS;
    const WOKEN_SHIFT: u32 = 56;

    /// One shared holder.
    pub const HOLDER: u64 = 1 << Self::HOLDERS_SHIFT;

    /// The writer bit of a contender.
    pub const fn writer(contender: u32) -> u64 {
        1 << contender
    }

    /// The reader bit of a contender.
    pub const fn reader(contender: u32) -> u64 {
        1 << (Self::READER_SHIFT + contender)
    }

    /// The field that makes the last shared holder wake `writer`.
    pub const fn wake(writer: u32) -> u64 {
        (writer as u64 + 1) << Self::WOKEN_SHIFT
    }

    /// The reader bits of a set of contenders.
    pub const fn readers_of(set: Seats) -> u64 {
        set.0 << Self::READER_SHIFT
    }

    /// The word after a fetch-and-add of `add` that returned `self`.
    pub const fn plus(self, add: u64) -> Self {
        Self(self.0.wrapping_add(add))
    }

    /// Contenders with a writer bit.
    pub const fn writers(self) -> Seats {
        Seats(self.0 & Self::MASK)
    }

    /// Contenders with a reader bit.
    pub const fn readers(self) -> Seats {
        Seats((self.0 >> Self::READER_SHIFT) & Self::MASK)
    }

    /// Whether nobody has the turn or waits for it.
    pub const fn is_idle(self) -> bool {
        self.writers().is_empty() && self.readers().is_empty()
    }

    /// Number of shared holders.
    pub const fn holders(self) -> u64 {
        (self.0 >> Self::HOLDERS_SHIFT) & 0xff
    }

    /// The writer that the last shared holder must wake.
    pub const fn woken(self) -> Option<u32> {
        match self.0 >> Self::WOKEN_SHIFT {
            0 => None,
            packed => Some(packed as u32 - 1),
        }
    }
}

/// A set of contenders of the queue lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seats(u64);

impl Seats {
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn count(self) -> u64 {
        self.0.count_ones() as u64
    }

    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The first member after `contender`, going around.
    pub const fn after(self, contender: u32) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let later = self.0 & !((1 << (contender + 1)) - 1);
        let from = if later == 0 { self.0 } else { later };
        Some(from.trailing_zeros())
    }

    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..SEATS).filter(move |seat| self.0 >> seat & 1 == 1)
    }
}

/// What the queue lock stores in a mailbox `GrantBy`: the number of the grant among those of the contender
/// that gives it, from 1, above what is granted.
pub(super) mod grant {
    const KIND_BITS: u32 = 2;

    /// Grant `number` of that kind.
    pub const fn pack(number: u64, kind: u64) -> u64 {
        number << KIND_BITS | kind
    }

    /// What is granted.
    pub const fn kind(word: u64) -> u64 {
        word & ((1 << KIND_BITS) - 1)
    }

    /// The reader has been counted as a holder.
    pub const SHARED: u64 = 1;
    /// The writer holds the lock.
    pub const EXCLUSIVE: u64 = 2;
    /// The writer holds the lock, and the word still names it as the one to wake.
    pub const EXCLUSIVE_WOKEN: u64 = 3;
}

/// The word in which a contender asks an arbiter: the number of the request, from 1, above what is
/// asked for. It never holds the same value twice.
pub(super) mod request {
    use crate::lock::{Entrance, Mode};

    const NOTHING: u64 = 0;
    const SHARED: u64 = 1;
    const EXCLUSIVE: u64 = 2;
    const JOINING: u64 = 3;
    const KIND: u64 = 3;

    /// The word of a request for the lock, or of its return.
    pub const fn pack(number: u64, entrance: Option<Entrance>) -> u64 {
        let kind = match entrance {
            None => NOTHING,
            Some(Entrance::Fair(Mode::Shared)) => SHARED,
            Some(Entrance::Fair(Mode::Exclusive)) => EXCLUSIVE,
            Some(Entrance::Joining) => JOINING,
        };
        number << 2 | kind
    }

    /// How the lock is asked for, if it is.
    pub const fn entrance(word: u64) -> Option<Entrance> {
        match word & KIND {
            SHARED => Some(Entrance::Fair(Mode::Shared)),
            EXCLUSIVE => Some(Entrance::Fair(Mode::Exclusive)),
            JOINING => Some(Entrance::Joining),
            _ => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_queue_word_do_not_overlap() {
        let mut word = QueueWord(0);
        for contender in 0..SEATS {
            word = word
                .plus(QueueWord::writer(contender))
                .plus(QueueWord::reader(contender))
                .plus(QueueWord::HOLDER);
        }
        word = word.plus(QueueWord::wake(SEATS - 1));
        assert_eq!(word.writers().count(), u64::from(SEATS));
        assert_eq!(word.readers().count(), u64::from(SEATS));
        assert_eq!(word.holders(), u64::from(SEATS));
        assert_eq!(word.woken(), Some(SEATS - 1));
        let word = word.plus(QueueWord::readers_of(word.readers()).wrapping_neg());
        assert!(word.readers().is_empty());
        assert_eq!(word.writers().count(), u64::from(SEATS));
    }

    #[test]
    fn after_goes_around() {
        let set = QueueWord(QueueWord::writer(2) | QueueWord::writer(23)).writers();
        assert_eq!(set.after(0), Some(2));
        assert_eq!(set.after(2), Some(23));
        assert_eq!(set.after(22), Some(23));
        assert_eq!(set.after(23), Some(2));
        assert_eq!(Seats::default().after(5), None);
        assert_eq!(set.iter().collect::<Vec<_>>(), [2, 23]);
    }
}
