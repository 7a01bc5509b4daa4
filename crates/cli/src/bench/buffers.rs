//! Buffers that a benchmark walks through, so that it does not measure one warm cache line.

/// So much memory is walked through per rank where there are several buffers: more than the
/// last-level cache's share of a core.
const POOL_BYTES: usize = 16 << 20;
const PAIRS_MIN: usize = 2;
const PAIRS_MAX: usize = 1024;
/// Buffers start on their own cache lines.
const ALIGNMENT: usize = 64;

/// Memory for the buffers of all sizes, written once, so that every page is there.
pub struct Pool {
    words: Vec<u64>,
}

/// Pairs of send and receive buffers of one size.
pub struct Buffers<'a> {
    start: *mut u8,
    send_bytes: usize,
    recv_bytes: usize,
    stride_send: usize,
    stride: usize,
    pairs: usize,
    pool: std::marker::PhantomData<&'a mut Pool>,
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT).max(ALIGNMENT)
}

impl Pool {
    /// Room for buffers of these lengths, the longest that will be asked for together.
    pub fn new((send_bytes, recv_bytes): (usize, usize)) -> Self {
        let bytes = PAIRS_MIN * (aligned(send_bytes) + aligned(recv_bytes));
        Self {
            words: vec![1; (bytes.max(POOL_BYTES) + ALIGNMENT) / size_of::<u64>()],
        }
    }

    /// Writes `byte` all over it.
    pub fn fill(&mut self, byte: u8) {
        self.words
            .fill(u64::from_ne_bytes([byte; size_of::<u64>()]));
    }

    /// Buffers of these lengths.
    ///
    /// # Panics
    /// If the pool is smaller.
    pub fn buffers(&mut self, (send_bytes, recv_bytes): (usize, usize)) -> Buffers<'_> {
        let start = self.words.as_mut_ptr().cast::<u8>();
        let offset = start.align_offset(ALIGNMENT);
        let room = size_of_val(self.words.as_slice()) - offset;
        let stride_send = aligned(send_bytes);
        let stride = stride_send + aligned(recv_bytes);
        let pairs = (room.min(POOL_BYTES) / stride).clamp(PAIRS_MIN, PAIRS_MAX);
        assert!(
            pairs * stride <= room,
            "the pool is for the longest buffers"
        );
        Buffers {
            start: start.wrapping_add(offset),
            send_bytes,
            recv_bytes,
            stride_send,
            stride,
            pairs,
            pool: std::marker::PhantomData,
        }
    }
}

impl Buffers<'_> {
    /// The first pair alone.
    #[must_use]
    pub fn first(mut self) -> Self {
        self.pairs = 1;
        self
    }

    /// Starts of the send and the receive buffer of `pair`, counted round and round.
    pub fn pair(&mut self, pair: usize) -> (*const u8, *mut u8) {
        let send = self.start.wrapping_add(pair % self.pairs * self.stride);
        (send, send.wrapping_add(self.stride_send))
    }

    /// The same, to write what is sent and look at what was received.
    pub fn slices(&mut self, pair: usize) -> (&mut [u8], &mut [u8]) {
        let (send, recv) = self.pair(pair);
        // SAFETY: both lie in the pool that `self` borrows, apart from each other, and every byte
        // of it is written.
        unsafe {
            (
                std::slice::from_raw_parts_mut(send.cast_mut(), self.send_bytes),
                std::slice::from_raw_parts_mut(recv, self.recv_bytes),
            )
        }
    }
}

/// Writes what `rank` sends in `round`, from byte `first` of its buffer on: elements of 32 bits
/// from 0 to 2^23, so that sums of 256 of them have no overflow. The last byte of an element is
/// never 0xff, which stands for "not written".
pub fn contents(dest: &mut [u8], rank: usize, round: u64, first: usize) {
    let element = |index: usize| {
        let word = (rank as u64) << 48 | index as u64;
        let mixed = (word ^ round.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 32) as u32 & 0x007f_ffff).to_ne_bytes()
    };
    let mut current = element(first / 4);
    for (at, byte) in (first..).zip(dest) {
        if at % 4 == 0 {
            current = element(at / 4);
        }
        *byte = current[at % 4];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_lie_apart_and_come_round_again() {
        let mut pool = Pool::new((37, 100));
        let mut buffers = pool.buffers((37, 100));
        for pair in 0..PAIRS_MAX {
            let (send, recv) = buffers.slices(pair);
            assert!(send.iter().all(|byte| *byte != 0xff) && recv.iter().all(|byte| *byte != 0xff));
            send.fill(0xff);
            recv.fill(0xff);
        }
        assert_eq!(buffers.pair(3), buffers.pair(3 + PAIRS_MAX));
        assert_eq!(buffers.pair(0).0 as usize % ALIGNMENT, 0);

        let large = (3 * POOL_BYTES, POOL_BYTES);
        let mut pool = Pool::new(large);
        assert_eq!(pool.buffers(large).pairs, PAIRS_MIN);
        let mut buffers = pool.buffers((0, 0));
        assert_ne!(buffers.pair(0).0, buffers.pair(0).1.cast_const());
    }

    #[test]
    fn contents_do_not_depend_on_where_one_begins() {
        let mut all = [0; 64];
        contents(&mut all, 3, 5, 0);
        for first in 0..60 {
            let mut part = [0; 4];
            contents(&mut part, 3, 5, first);
            assert_eq!(part, all[first..first + 4]);
        }
        let differs = |rank, round| {
            let mut other = [0; 64];
            contents(&mut other, rank, round, 0);
            other != all
        };
        assert!(differs(2, 5) && differs(3, 6) && !differs(3, 5));
    }
}
