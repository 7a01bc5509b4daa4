//! What two ranks know of a copy that both may make: the cell of an RTR as its words.

use ferrorail_base::sync::{AtomicU64, Ordering};

/// How much of a copy of `bytes` bytes is taken at once. Each piece costs a system call and what the kernel does to find
/// the pages: 64 KB take 1.6 times as long as 32 KB.
///
/// Where ranks have a core each, pieces are a half of short copies, so that both ends have one, and a quarter of long
/// ones, up to a limit: who has to wait for the other's last one waits for no more than that. Where they share cores
/// nobody's is idle meanwhile, so a copy is not divided for the sake of its two ends.
pub fn piece_bytes(bytes: usize, has_cores: bool) -> usize {
    let (part, longest) = match (has_cores, bytes <= 128 << 10) {
        (true, true) => (2, PIECE_BYTES_MAX),
        (true, false) => (4, PIECE_BYTES_MAX),
        (false, _) => (1, PIECE_BYTES_MAX_SHARING),
    };
    (bytes / part)
        .clamp(PIECE_BYTES_MIN, longest)
        .next_multiple_of(PAGE)
}

const PIECE_BYTES_MIN: usize = 8 << 10;
const PIECE_BYTES_MAX: usize = 128 << 10;
/// The longest piece where ranks share cores.
const PIECE_BYTES_MAX_SHARING: usize = 256 << 10;
const PAGE: usize = 4096;

/// The words of a cell of an RTR while it holds an offer. Bytes are counted from the first of the message.
#[derive(Clone, Copy)]
pub struct Offer<'a>(&'a [AtomicU64]);

/// What is copied: an address in the origin's memory, one in the target's, a length and that of its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub source: u64,
    pub target: u64,
    pub bytes: usize,
    pub piece: usize,
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub start: usize,
    pub bytes: usize,
}

impl<'a> Offer<'a> {
    /// In these words.
    pub fn new(cell: &'a [AtomicU64]) -> Self {
        Self(cell)
    }
}

impl Offer<'_> {
    const SOURCE: usize = 0;
    const TARGET: usize = 1;
    const BYTES: usize = 2;
    /// First byte that nobody has taken.
    const NEXT: usize = 3;
    /// Number of bytes that are there.
    const DONE: usize = 4;
    /// Where the piece begins that the target could not read, plus one.
    const RETURNED: usize = 5;
    const PIECE: usize = 6;

    /// Lays out the offer of `message`; the flag that is raised next publishes it.
    pub fn make(self, message: Message) {
        let words = [
            message.source,
            message.target,
            message.bytes as u64,
            0,
            0,
            0,
            message.piece as u64,
        ];
        for (word, value) in self.0.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
    }

    pub fn message(self) -> Message {
        Message {
            source: self.0[Self::SOURCE].load(Ordering::Relaxed),
            target: self.0[Self::TARGET].load(Ordering::Relaxed),
            bytes: self.0[Self::BYTES].load(Ordering::Relaxed) as usize,
            piece: self.0[Self::PIECE].load(Ordering::Relaxed) as usize,
        }
    }

    /// The next piece of `message`.
    pub fn take(self, Message { bytes, piece, .. }: Message) -> Option<Piece> {
        let next = &self.0[Self::NEXT];
        // Who finds nothing left looks often; it is not to grow.
        if next.load(Ordering::Relaxed) >= bytes as u64 {
            return None;
        }
        let start = next.fetch_add(piece as u64, Ordering::AcqRel) as usize;
        (start < bytes).then(|| Piece {
            start,
            bytes: piece.min(bytes - start),
        })
    }

    /// Gives back what the target took and could not read. It takes nothing after that, so that there is one at most.
    pub fn give_back(self, piece: Piece) {
        self.0[Self::RETURNED].store(piece.start as u64 + 1, Ordering::Release);
    }

    /// What was given back of `message`, for the origin.
    pub fn returned(self, Message { bytes, piece, .. }: Message) -> Option<Piece> {
        let returned = &self.0[Self::RETURNED];
        let start = returned.load(Ordering::Acquire).checked_sub(1)? as usize;
        returned.store(0, Ordering::Relaxed);
        Some(Piece {
            start,
            bytes: piece.min(bytes - start),
        })
    }

    /// Counts `piece` as there; whether all of the message is.
    pub fn finish(self, piece: Piece, bytes: usize) -> bool {
        let done = self.0[Self::DONE].fetch_add(piece.bytes as u64, Ordering::AcqRel);
        done as usize + piece.bytes == bytes
    }

    pub fn is_done(self, bytes: usize) -> bool {
        self.0[Self::DONE].load(Ordering::Acquire) as usize == bytes
    }

    /// Leaves nothing to take.
    pub fn withdraw(self, bytes: usize) {
        self.0[Self::NEXT].store(bytes as u64, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize, has_cores: bool) -> Message {
        Message {
            source: 1,
            target: 2,
            bytes,
            piece: piece_bytes(bytes, has_cores),
        }
    }

    fn pieces_cover_once(message: Message) {
        let words: [AtomicU64; 8] = Default::default();
        let offer = Offer::new(&words);
        offer.make(message);
        assert_eq!(offer.message(), message);
        let (mut end, mut given_back) = (0, None);
        while let Some(piece) = offer.take(message) {
            assert_eq!(piece.start, end);
            end += piece.bytes;
            match given_back {
                None => given_back = Some(piece),
                Some(_) => assert!(!offer.finish(piece, message.bytes)),
            }
        }
        assert_eq!(end, message.bytes);
        let first = given_back.expect("a piece");
        assert_eq!(offer.returned(message), None);
        offer.give_back(first);
        assert_eq!(offer.returned(message), Some(first));
        assert_eq!(offer.returned(message), None);
        assert!(offer.finish(first, message.bytes) && offer.is_done(message.bytes));
    }

    #[test]
    fn pieces_cover_a_message_once() {
        for bytes in [32 << 10, 20_001, 100_000, 1 << 20, (5 << 20) + 1] {
            pieces_cover_once(message(bytes, true));
            pieces_cover_once(message(bytes, false));
        }
    }

    #[test]
    fn both_ends_have_pieces_where_both_have_cores() {
        let pieces = |bytes, has_cores| bytes as f64 / piece_bytes(bytes, has_cores) as f64;
        assert_eq!(pieces(64 << 10, true), 2.0);
        assert_eq!(pieces(1 << 20, true), 8.0);
        assert_eq!(pieces(64 << 10, false), 1.0);
        assert_eq!(pieces(1 << 20, false), 4.0);
    }

    #[test]
    fn nothing_is_taken_after_a_withdrawal() {
        let words: [AtomicU64; 8] = Default::default();
        let offer = Offer::new(&words);
        let message = message(1 << 20, true);
        offer.make(message);
        assert!(offer.take(message).is_some());
        offer.withdraw(message.bytes);
        assert_eq!(offer.take(message), None);
    }
}
