//! Buffers that a benchmark walks through, so that it does not measure one warm cache line.

/// At least so much memory is walked through per rank where there are several buffers: more than
/// the last-level cache's share of a core.
const POOL_BYTES: usize = 16 << 20;
const PAIRS_MIN: usize = 2;
const PAIRS_MAX: usize = 1024;
/// Buffers start on their own cache lines.
const ALIGNMENT: usize = 64;

/// Pairs of send and receive buffers for one size.
pub struct Buffers {
    bytes: usize,
    ranks: usize,
    stride_send: usize,
    stride_recv: usize,
    pairs: usize,
    send: Vec<u64>,
    recv: Vec<u64>,
}

impl Buffers {
    /// For messages of `bytes` from each of `ranks`.
    pub fn new(bytes: usize, ranks: usize) -> Self {
        let aligned = |bytes: usize| bytes.next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        let (stride_send, stride_recv) = (aligned(bytes), aligned(bytes * ranks));
        let pairs = (POOL_BYTES / (stride_send + stride_recv)).clamp(PAIRS_MIN, PAIRS_MAX);
        let words = |stride: usize| vec![0u64; (stride * pairs + ALIGNMENT) / 8];
        Self {
            bytes,
            ranks,
            stride_send,
            stride_recv,
            pairs,
            send: words(stride_send),
            recv: words(stride_recv),
        }
    }

    /// Starts of the send and the receive buffer of `pair`; both valid until the next call with
    /// `&mut self` other than this one.
    pub fn pair(&mut self, pair: usize) -> (*const u8, *mut u8) {
        let (send, recv) = (self.send_start(), self.recv_start());
        let pair = pair % self.pairs;
        (
            send.wrapping_add(pair * self.stride_send),
            recv.wrapping_add(pair * self.stride_recv),
        )
    }

    /// Writes every send buffer as rank `rank` sends it in `round`, and clears every receive buffer.
    pub fn refill(&mut self, rank: usize, round: u64) {
        self.recv.fill(u64::MAX);
        let start = self.send_start() as usize - self.send.as_ptr() as usize;
        let (bytes, stride, pairs) = (self.bytes, self.stride_send, self.pairs);
        let send = bytes_of_mut(&mut self.send);
        for pair in 0..pairs {
            let from = start + pair * stride;
            for (at, byte) in send[from..from + bytes].iter_mut().enumerate() {
                *byte = pattern(rank, pair, round, at);
            }
        }
    }

    /// The first wrong byte of the receive buffer of `pair` after an all-gather of what
    /// [`Buffers::refill`] wrote: the rank it should be from, and its offset there.
    pub fn first_wrong(&mut self, pair: usize, round: u64) -> Option<(usize, usize)> {
        let pair = pair % self.pairs;
        let start = self.recv_start() as usize - self.recv.as_ptr() as usize;
        let from = start + pair * self.stride_recv;
        let (bytes, ranks) = (self.bytes, self.ranks);
        let recv = &bytes_of_mut(&mut self.recv)[from..from + bytes * ranks];
        (0..ranks).find_map(|rank| {
            let block = &recv[rank * bytes..][..bytes];
            let wrong = |at: &usize| block[*at] != pattern(rank, pair, round, *at);
            (0..bytes).find(wrong).map(|at| (rank, at))
        })
    }

    fn send_start(&mut self) -> *const u8 {
        let start = self.send.as_mut_ptr().cast::<u8>();
        start.wrapping_add(start.align_offset(ALIGNMENT))
    }

    fn recv_start(&mut self) -> *mut u8 {
        let start = self.recv.as_mut_ptr().cast::<u8>();
        start.wrapping_add(start.align_offset(ALIGNMENT))
    }
}

/// Differs between ranks, buffers, rounds and neighbouring words. Never 0xff, which is "not written".
fn pattern(rank: usize, pair: usize, round: u64, at: usize) -> u8 {
    let word = (rank as u64) << 48 | (pair as u64) << 32 | (at as u64 / 8);
    let mixed = (word ^ round.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (8 * (at % 8))) as u8 % 255
}

fn bytes_of_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: every byte of a u64 is a valid u8, and the slice covers exactly the words.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_all_gather_by_hand_passes_and_a_flipped_byte_is_found() {
        let (bytes, ranks, round) = (37, 3, 5);
        let mut all: Vec<Buffers> = (0..ranks).map(|_| Buffers::new(bytes, ranks)).collect();
        for (rank, buffers) in all.iter_mut().enumerate() {
            buffers.refill(rank, round);
        }
        let pair = all[0].pairs - 1;
        assert_eq!(all[0].first_wrong(pair, round), Some((0, 0)));
        let (_, recv) = all[0].pair(pair);
        for (rank, buffers) in all.iter_mut().enumerate() {
            let (send, _) = buffers.pair(pair);
            // SAFETY: both buffers are of these sizes and distinct.
            unsafe { recv.add(rank * bytes).copy_from_nonoverlapping(send, bytes) };
        }
        assert_eq!(all[0].first_wrong(pair, round), None);
        assert!(all[0].first_wrong(pair, round + 1).is_some());
        // SAFETY: the offset is within the buffer.
        unsafe { *recv.add(2 * bytes + 36) ^= 1 };
        assert_eq!(all[0].first_wrong(pair, round), Some((2, 36)));
    }

    #[test]
    fn buffers_are_aligned_and_exceed_caches() {
        for bytes in [0, 1, 64, 5000, 1 << 20] {
            let mut buffers = Buffers::new(bytes, 4);
            let (send, recv) = buffers.pair(buffers.pairs + 1);
            assert_eq!((send as usize | recv as usize) % ALIGNMENT, 0);
            assert!((PAIRS_MIN..=PAIRS_MAX).contains(&buffers.pairs));
        }
        assert!(Buffers::new(1 << 20, 4).pairs >= PAIRS_MIN);
    }
}
