//! Requests to service threads that accumulate, and how they and their answers travel.

use super::WindowError;
use super::rails::WindowRails;
use super::update::Update;
use ferrorail_base::Rank;
use ferrorail_fabric::{Endpoint, LocalSlice, Notification, Op, RemoteSlice, Ticket};
use ferrorail_reduce::Kernel;

/// A request to accumulate, as it lies at the head of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// First byte, from the base of the target's memory.
    pub offset: u64,
    pub bytes: u64,
    /// What to do, as [`Update::code`] says.
    pub code: u32,
    pub element_bytes: u32,
    /// Whether the elements before are to be sent back.
    pub wants_old: bool,
}

impl Request {
    pub fn words(&self) -> [u64; 4] {
        let what = u64::from(self.code) << 32 | u64::from(self.element_bytes);
        [self.offset, self.bytes, what, u64::from(self.wants_old)]
    }

    pub fn from_words([offset, bytes, what, old]: [u64; 4]) -> Self {
        Self {
            offset,
            bytes,
            code: (what >> 32) as u32,
            element_bytes: what as u32,
            wants_old: old != 0,
        }
    }

    /// What becomes of the elements of a rank with `memory_bytes` bytes, if the request makes sense
    /// there.
    pub fn check(&self, memory_bytes: u64, operand_bytes: usize) -> Option<Update<'static>> {
        let end = self.offset.checked_add(self.bytes)?;
        let fits = end <= memory_bytes && self.bytes <= operand_bytes as u64;
        let whole = self.element_bytes > 0 && self.bytes.is_multiple_of(self.element_bytes.into());
        Update::from_code(self.code).filter(|_| fits && whole)
    }
}

impl Update<'_> {
    const REPLACE: u32 = 0;
    const KEEP: u32 = 1;
    const KERNEL: u32 = 2;

    /// What it is called in a request to a service thread; `None` if no service thread can compute it.
    pub(super) fn code(&self) -> Option<u32> {
        match self {
            Self::Replace => Some(Self::REPLACE),
            Self::Keep => Some(Self::KEEP),
            Self::Kernel(kernel) => Some(Self::KERNEL + u32::from(kernel.code())),
            Self::Call(_) => None,
        }
    }

    /// Inverse of [`Update::code`].
    pub(super) fn from_code(code: u32) -> Option<Self> {
        match code {
            Self::REPLACE => Some(Self::Replace),
            Self::KEEP => Some(Self::Keep),
            _ => {
                let code = u16::try_from(code - Self::KERNEL).ok()?;
                Some(Self::Kernel(Kernel::from_code(code)?))
            }
        }
    }
}

/// Bytes and a word for a rank of another node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    /// Offset in this node's segment.
    pub from: usize,
    pub bytes: usize,
    /// Offset from the rank's first room.
    pub to: usize,
    /// Offset in its control block.
    pub word: usize,
    pub value: u64,
    /// Whether its service thread may sleep.
    pub wake: bool,
}

impl<F: Endpoint> WindowRails<F> {
    /// Sends a message; `None` if the rail is full.
    pub(super) fn send(&self, to: Rank, message: &Message) -> Result<Option<Ticket>, WindowError> {
        let link = self.link_of(to);
        let from = LocalSlice {
            region: self.segment(),
            offset: message.from,
            bytes: message.bytes,
        };
        let operand_buffer = RemoteSlice {
            region: &link.segment,
            offset: link.operand_buffers + message.to,
        };
        let notification = Notification {
            word: link.control(message.word),
            value: message.value,
        };
        let op = told(from, operand_buffer, notification, message.wake);
        // SAFETY: the room to send from is left alone until the ticket is complete; the room and the
        // word there are this rank's to write until the peer has answered.
        unsafe { self.post(to, self.word_rail(), &op) }
    }
}

/// A put that ends with a word, upon which the peer's service thread wakes if it is to.
pub(super) fn told<'a>(
    from: LocalSlice<'a>,
    to: RemoteSlice<'a>,
    notification: Notification<RemoteSlice<'a>>,
    wake: bool,
) -> Op<'a> {
    match wake {
        true => Op::wake(from, to, notification),
        false => Op::notify(from, to, notification),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ferrorail_reduce::{Number, Operator, kernel};

    /// A sum that any process computes.
    pub fn sum_of_longs() -> Update<'static> {
        Update::Kernel(kernel(Operator::Sum, Number::I64).expect("sums of integers"))
    }

    #[test]
    fn requests_travel_and_are_checked() {
        let sum = kernel(Operator::Sum, Number::F64).expect("sums of doubles");
        let request = Request {
            offset: 16,
            bytes: 32,
            code: Update::Kernel(sum).code().expect("any process can add"),
            element_bytes: 8,
            wants_old: true,
        };
        assert_eq!(Request::from_words(request.words()), request);
        assert!(matches!(request.check(48, 64), Some(Update::Kernel(_))));
        assert!(request.check(47, 64).is_none(), "outside");
        assert!(request.check(48, 24).is_none(), "longer than a room");
        let odd = Request {
            bytes: 30,
            ..request
        };
        assert!(odd.check(48, 64).is_none(), "half an element");
        let unknown = Request {
            code: u32::MAX,
            ..request
        };
        assert!(unknown.check(48, 64).is_none());
        let around = Request {
            offset: u64::MAX - 8,
            ..request
        };
        assert!(around.check(u64::MAX, 64).is_none());
    }
}
