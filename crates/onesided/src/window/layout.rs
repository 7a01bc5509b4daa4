//! Where everything lies in the segment that the ranks of a node share for one window.
//!
//! ```text
//! doorbell | control block per local rank | staging slots per local rank | operand buffers per local rank |
//! memory of local ranks
//! ```
//!
//! A control block holds what peers write of one rank: the words of its locks, its fence, a line for
//! each rank of the window and one for its own service thread, whose words have one writer each, the words in
//! which ranks hand it a queue lock, and those in which ranks ask its service thread and are answered by theirs. Operand buffers hold the operands of what
//! service threads are asked to accumulate: one for each origin, one of the rank's own from which it sends
//! and where results land, and one from which its service thread answers.

use crate::lock::SEATS;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Memory of windows begins at multiples of this.
pub const PAGE: usize = 4096;
/// Slots of registered memory that small transfers over rails pass through.
pub const STAGING_SLOTS: usize = 64;
/// Bytes of such a slot.
pub const STAGING_BYTES: usize = 2048;
/// Rounds of a fence: enough for any number of ranks.
const FENCE_ROUNDS: usize = 32;

/// Words of a line that one rank keeps for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerWord {
    /// How often that rank posted an exposure epoch to this one, or completed an access epoch.
    Count(Status),
    /// Mailboxes of this rank as a contender for that rank's lock.
    LockMailbox(usize),
    /// Mailboxes of this rank as a contender for that rank's accumulate lock.
    AccumulateMailbox(usize),
    /// Where atomics of this rank on words of that rank's lock leave the old value.
    LockResult,
    /// The same for its accumulate lock.
    AccumulateResult,
}

impl PeerWord {
    const fn index(self) -> usize {
        match self {
            Self::Count(what) => what as usize,
            Self::LockMailbox(which) => 2 + which,
            Self::AccumulateMailbox(which) => 4 + which,
            Self::LockResult => 6,
            Self::AccumulateResult => 7,
        }
    }
}

/// What a status that one rank keeps of another says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Whether that rank posted an exposure epoch to this one.
    Posted,
    /// Whether it completed an access epoch to this one.
    Completed,
}

/// Offset, in a control block, of the lock of passive-target synchronisation.
pub const LOCK: usize = 0;
/// Offset, in a control block, of the word that counts holders where the lock alone lets in one.
pub const HOLDERS: usize = 8;
/// Offset, in a control block, of the lock that accumulations take.
pub const ACCUMULATE: usize = LINE;
const FENCE: usize = 2 * LINE;
const PEERS: usize = FENCE + 2 * 8 * FENCE_ROUNDS;

/// Offset, in a control block, of the word for round `round` of the `number`-th fence. The next fence has others, as a rank
/// may be there while its peer has not looked yet.
pub const fn fence(round: u32, number: u64) -> usize {
    FENCE + 8 * (2 * round as usize + (number % 2) as usize)
}

/// Offset, in a control block, of a word of the line for `peer`.
pub const fn peer(peer: u32, word: PeerWord) -> usize {
    PEERS + LINE * peer as usize + 8 * word.index()
}

/// Offset, in a control block, of the words behind the lines of `ranks` ranks and the service thread.
const fn behind_lines(ranks: u32) -> usize {
    PEERS + LINE * (ranks as usize + 1)
}

/// Bytes of a word for each rank.
const fn row(ranks: u32) -> usize {
    (8 * ranks as usize).next_multiple_of(LINE)
}

/// Offset, in a control block of a window of `ranks` ranks, of the word that says whether the owner's
/// service thread sleeps.
pub const fn asleep(ranks: u32) -> usize {
    behind_lines(ranks)
}

/// Offset, in such a control block, of the word that counts operations which were offered to the owner.
pub const fn offers(ranks: u32) -> usize {
    asleep(ranks) + 8
}

/// Offset, in such a control block, of the word in which `peer` asks for the owner's lock.
pub const fn lock_request(ranks: u32, peer: u32) -> usize {
    asleep(ranks) + LINE + 8 * peer as usize
}

/// Offset of the word in which `peer` counts what it asked the owner's service thread to accumulate.
pub const fn accumulate_request(ranks: u32, peer: u32) -> usize {
    lock_request(ranks, 0) + row(ranks) + 8 * peer as usize
}

/// Offset of the word in which `peer`'s service thread answers the owner's last such request.
pub const fn answer(ranks: u32, peer: u32) -> usize {
    accumulate_request(ranks, 0) + row(ranks) + 8 * peer as usize
}

/// Bytes of a status for each rank.
const fn statuses(ranks: u32) -> usize {
    (ranks as usize).next_multiple_of(LINE)
}

/// Offset, in such a control block, of the byte that `peer` writes to tell the owner of that.
pub const fn status(ranks: u32, what: Status, peer: u32) -> usize {
    answer(ranks, 0) + row(ranks) + statuses(ranks) * what as usize + peer as usize
}

/// Bytes of the words in which contenders of one queue lock hand it to one of them: none where they are
/// more than that lock has seats.
const fn grants(ranks: u32) -> usize {
    match ranks {
        0..SEATS => row(ranks + 1),
        SEATS => row(SEATS),
        _ => 0,
    }
}

/// Offset, in such a control block, of the word in which contender `by` hands over the lock of which the
/// owner keeps the line `line`.
pub const fn lock_grant(ranks: u32, line: u32, by: u32) -> usize {
    let first = status(ranks, Status::Completed, 0) + statuses(ranks);
    first + 2 * grants(ranks) * line as usize + 8 * by as usize
}

/// The same for the accumulate lock.
pub const fn accumulate_grant(ranks: u32, line: u32, by: u32) -> usize {
    lock_grant(ranks, line, by) + grants(ranks)
}

/// Bytes of what [`left`] is.
const LEFT: usize = 5 * size_of::<u64>();
/// Behind [`left`]: the list's address in the memory of `peer`.
pub const LEFT_ADDRESS: usize = 8;
/// Behind [`left`]: how long it is.
pub const LEFT_BYTES: usize = 16;
/// Behind [`left`]: which of the lists that the owner left to `peer` is carried out, and in the lowest bit whether that failed.
pub const LEFT_SERVED: usize = 24;
/// Behind [`left`]: how far an operation is that `peer` has offered to the owner.
pub const LEFT_OFFER: usize = 32;

/// Offset, in such a control block, of the words in which `peer` counts lists of operations that it left to the owner, and says where
/// the last is.
pub const fn left(ranks: u32, peer: u32) -> usize {
    lock_grant(ranks, ranks + 1, 0) + LEFT * peer as usize
}

/// Bytes before the operands in a room.
pub const OPERAND_HEADER: usize = LINE;

/// Pieces of attached memory that a table in a control block has room for; a longer one is in memory of
/// its owner's.
pub const TABLE_ENTRIES: usize = 62;
/// Bytes of one in a table.
pub const ENTRY_BYTES: usize = LINE;
/// Bytes before the entries: a sequence number and how many there are; where a longer table is.
pub const TABLE_HEAD: usize = 2 * LINE;

/// Offset, in a control block of a dynamic window of `ranks` ranks, of the word in which `peer` says
/// how often its table has changed.
pub const fn changes(ranks: u32, peer: u32) -> usize {
    left(ranks, ranks) + 8 * peer as usize
}

/// Offset, in such a control block, of the owner's table.
pub const fn table(ranks: u32) -> usize {
    changes(ranks, ranks).next_multiple_of(LINE)
}

/// Bytes of a room for `operand_bytes` of operands.
pub const fn operand_buffer_bytes(operand_bytes: usize) -> usize {
    OPERAND_HEADER + operand_bytes
}

/// The segment of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLayout {
    /// Ranks of the window.
    pub ranks: u32,
    /// Those that share the segment.
    pub local_ranks: u32,
    /// Whether there are rails, hence staging slots.
    pub rails: bool,
    /// Whether memory is attached later.
    pub dynamic: bool,
    /// Bytes of operands that a service thread takes at a time, in whole lines; 0 without operand buffers.
    pub operand_bytes: usize,
}

impl WindowLayout {
    /// Offset of the doorbell's two words.
    pub const DOORBELL: usize = 0;

    const fn control_bytes(&self) -> usize {
        match self.dynamic {
            false => changes(self.ranks, 0).next_multiple_of(LINE),
            true => table(self.ranks) + TABLE_HEAD + ENTRY_BYTES * TABLE_ENTRIES,
        }
    }

    /// Offset of a local rank's control block.
    pub const fn control(&self, node_rank: u32) -> usize {
        LINE + self.control_bytes() * node_rank as usize
    }

    /// Offset of a local rank's first staging slot.
    pub const fn staged(&self, node_rank: u32) -> usize {
        let slots = if self.rails {
            STAGING_SLOTS * STAGING_BYTES
        } else {
            0
        };
        self.control(self.local_ranks) + slots * node_rank as usize
    }

    /// Offset of a local rank's first room, which is that of rank 0 as an origin.
    pub const fn operand_buffers(&self, node_rank: u32) -> usize {
        let all = match self.operand_bytes {
            0 => 0,
            bytes => operand_buffer_bytes(bytes) * (self.ranks as usize + 2),
        };
        self.staged(self.local_ranks) + all * node_rank as usize
    }

    /// Offset of the memory of windows.
    pub const fn memory(&self) -> usize {
        self.operand_buffers(self.local_ranks)
            .next_multiple_of(PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_block_do_not_overlap() {
        let words = [
            PeerWord::Count(Status::Posted),
            PeerWord::Count(Status::Completed),
            PeerWord::LockMailbox(0),
            PeerWord::LockMailbox(1),
            PeerWord::AccumulateMailbox(0),
            PeerWord::AccumulateMailbox(1),
            PeerWord::LockResult,
            PeerWord::AccumulateResult,
        ];
        let mut offsets = vec![LOCK, HOLDERS, ACCUMULATE];
        let rounds = (0..FENCE_ROUNDS as u32).flat_map(|round| [fence(round, 1), fence(round, 2)]);
        offsets.extend(rounds);
        for rank in 0..=3 {
            offsets.extend(words.map(|word| peer(rank, word)));
        }
        for (line, by) in (0..=3).flat_map(|line| (0..=3).map(move |by| (line, by))) {
            offsets.extend([lock_grant(3, line, by), accumulate_grant(3, line, by)]);
        }
        offsets.extend([Status::Posted, Status::Completed].map(|what| status(3, what, 0)));
        let posted = |peer| status(200, Status::Posted, peer);
        assert!(answer(200, 199) + 8 <= posted(0) && posted(199) < posted(0) + 200);
        assert!(posted(199) < status(200, Status::Completed, 0));
        assert!(status(200, Status::Completed, 199) < lock_grant(200, 0, 0));
        let words = [0, LEFT_ADDRESS, LEFT_BYTES, LEFT_SERVED, LEFT_OFFER];
        offsets.extend((0..3).flat_map(|rank| words.map(|word| left(3, rank) + word)));
        offsets.extend([asleep(3), offers(3)]);
        for rank in 0..3 {
            offsets.extend([
                lock_request(3, rank),
                accumulate_request(3, rank),
                answer(3, rank),
            ]);
        }
        offsets.sort_unstable();
        assert!(offsets.windows(2).all(|pair| pair[0] + 8 <= pair[1]));
        let layout = WindowLayout {
            ranks: 3,
            local_ranks: 2,
            rails: true,
            dynamic: true,
            operand_bytes: 128,
        };
        offsets.extend((0..3).map(|rank| changes(3, rank)));
        assert!(offsets.iter().all(|offset| offset + 8 <= table(3)));
        let last = offsets.iter().max().expect("some") + 8;
        assert!(layout.control(0) + last <= layout.control(1));
        assert!(layout.control(1) + last <= layout.staged(0));
        assert!(layout.staged(1) + STAGING_SLOTS * STAGING_BYTES <= layout.operand_buffers(0));
        assert!(
            layout.operand_buffers(0) + 5 * operand_buffer_bytes(128) <= layout.operand_buffers(1)
        );
        assert!(layout.operand_buffers(1) + 5 * operand_buffer_bytes(128) <= layout.memory());
        assert_eq!(layout.memory() % PAGE, 0);
    }
}
