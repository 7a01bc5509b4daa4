//! What becomes of an operation: its work requests in order, and what keeps them in order.
//!
//! Adapters keep the writes of a queue pair in order. Where a fabric spreads the packets of one over several
//! paths, and the adapter stores what comes early, a flag may be seen before data that was posted before it
//! (`FERRORAIL_WRITE_ORDER=read`). A read is still answered only when all that was posted before it is in
//! memory. So one goes before each flag, and the flag waits at this side's adapter until it has come back. See
//! `docs/design/0068-order-of-writes.md`.

use super::handles::{MemoryRegion, ProtectionDomain};
use super::request::{LocalPart, Request, split};
use ferrorail_base::config::WriteOrder;
use ferrorail_base::sync::AtomicU64;
use ferrorail_fabric::Kind;
use std::io;
use std::sync::Arc;

/// Most work requests of one operation: its data, a read, its flag.
pub const REQUESTS_MAX: usize = 3;

const WORD: usize = size_of::<u64>();

/// Most work requests of an operation where `order` is kept.
pub const fn requests_per_operation(order: WriteOrder) -> u32 {
    match order {
        WriteOrder::Device => REQUESTS_MAX as u32 - 1,
        WriteOrder::Read => REQUESTS_MAX as u32,
    }
}

/// Registered memory for what reads before flags bring, which nobody looks at.
#[derive(Debug)]
pub struct Landing {
    // Before `page`, which it covers.
    region: MemoryRegion,
    page: Box<Page>,
}

/// A page of its own: children of `fork` do not get registered pages.
#[derive(Debug)]
#[repr(align(4096))]
struct Page(AtomicU64);

impl Landing {
    /// Of the rail that `domain` belongs to, if `order` needs one.
    pub fn of(order: WriteOrder, domain: &Arc<ProtectionDomain>) -> io::Result<Option<Self>> {
        if order == WriteOrder::Device {
            return Ok(None);
        }
        let page = Box::new(Page(AtomicU64::new(0)));
        let access = ibverbs_sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
        let address = page.0.as_ptr().cast();
        // SAFETY: the page lives on the heap for longer than the region.
        let region = unsafe { MemoryRegion::register(domain, address, WORD, access) }?;
        Ok(Some(Self { region, page }))
    }

    /// Where a read lands.
    pub fn word(&self) -> LocalPart {
        LocalPart {
            address: self.page.0.as_ptr() as u64,
            bytes: WORD,
            lkey: self.region.lkey(),
        }
    }
}

/// The work requests of one operation, in order.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    list: [Request; REQUESTS_MAX],
    count: usize,
    /// Whether the last one waits for the read before it.
    last_waits: bool,
}

impl Requests {
    /// Those of `whole`. The value of its notification, if it has one, lies at `value`. With a `landing`, what tells
    /// of its arrival waits for a read that lands there.
    #[inline]
    pub fn of(whole: &Request, value: LocalPart, landing: Option<LocalPart>) -> Self {
        let mut requests = Self {
            list: [*whole; REQUESTS_MAX],
            count: 0,
            last_waits: false,
        };
        let (data, flag) = parts(whole, value, landing.is_some());
        if let Some(data) = data {
            requests.push(data);
        }
        if let Some(flag) = flag {
            if let Some(landing) = landing {
                requests.push(Request {
                    kind: Kind::Get,
                    local: LocalPart {
                        bytes: landing.bytes.min(flag.local.bytes),
                        ..landing
                    },
                    remote: flag.remote,
                });
                requests.last_waits = true;
            }
            requests.push(flag);
        }
        requests
    }

    #[inline]
    fn push(&mut self, request: Request) {
        self.list[self.count] = request;
        self.count += 1;
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Each, and whether it waits for reads and atomics before it; the first one does if it is `fenced`.
    pub fn iter(&self, fenced: bool) -> impl Iterator<Item = (&Request, bool)> {
        let waits = move |at| at == 0 && fenced || at + 1 == self.count && self.last_waits;
        let requests = self.list[..self.count].iter().enumerate();
        requests.map(move |(at, request)| (request, waits(at)))
    }
}

/// The data of `whole`, if it has any or nothing else, and what is not to be seen before that and all before it, if
/// it is `apart` or a notification.
#[inline]
fn parts(whole: &Request, value: LocalPart, apart: bool) -> (Option<Request>, Option<Request>) {
    let data = |request: Request| (request.local.bytes > 0).then_some(request);
    let put = Request {
        kind: Kind::Put,
        ..*whole
    };
    match whole.kind {
        Kind::Notify(word, _) | Kind::Wake(word, _) => {
            let flag = Request {
                // Only the notification wakes.
                kind: whole.kind,
                local: value,
                remote: word,
            };
            (data(put), Some(flag))
        }
        // Failover takes its flag for a proof of it and of all before it.
        Kind::Eager(_) if apart => {
            let (front, flag) = split(&put, whole.local.bytes - WORD);
            (data(front), Some(flag))
        }
        Kind::Ordered if apart && whole.local.bytes > 0 => (None, Some(*whole)),
        _ => (Some(*whole), None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::RemotePart;
    use super::*;

    const VALUE: LocalPart = LocalPart {
        address: 500,
        bytes: 8,
        lkey: 5,
    };
    const LANDING: LocalPart = LocalPart {
        address: 600,
        bytes: 8,
        lkey: 6,
    };
    const WORD_THERE: RemotePart = RemotePart {
        address: 7000,
        rkey: 7,
    };

    fn whole(kind: Kind<RemotePart>, bytes: usize) -> Request {
        Request {
            kind,
            local: LocalPart {
                address: 1000,
                bytes,
                lkey: 1,
            },
            remote: RemotePart {
                address: 2000,
                rkey: 2,
            },
        }
    }

    /// What each does, its local and remote addresses, its length and whether it waits.
    type Row = (&'static str, u64, u64, usize, bool);

    fn rows(whole: Request, landing: Option<LocalPart>, fenced: bool) -> Vec<Row> {
        let requests = Requests::of(&whole, VALUE, landing);
        let most = match landing {
            Some(_) => requests_per_operation(WriteOrder::Read),
            None => requests_per_operation(WriteOrder::Device),
        };
        assert!((1..=most as usize).contains(&requests.len()));
        let row = |(request, waits): (&Request, bool)| {
            let name = match request.kind {
                Kind::Put | Kind::Ordered | Kind::Eager(_) => "write",
                Kind::Notify(..) => "flag",
                Kind::Wake(..) => "waking flag",
                Kind::Get => "read",
                _ => "atomic",
            };
            let Request { local, remote, .. } = request;
            (name, local.address, remote.address, local.bytes, waits)
        };
        requests.iter(fenced).map(row).collect()
    }

    #[test]
    fn a_flag_waits_for_a_read_behind_its_data() {
        let read = |fenced| ("read", 600, 7000, 8, fenced);
        let data = ("write", 1000, 2000, 24, false);
        for (kind, name) in [
            (Kind::Notify(WORD_THERE, 3), "flag"),
            (Kind::Wake(WORD_THERE, 3), "waking flag"),
        ] {
            let flag = |waits| (name, 500, 7000, 8, waits);
            let with_data = |landing| rows(whole(kind, 24), landing, false);
            assert_eq!(with_data(None), [data, flag(false)]);
            assert_eq!(with_data(Some(LANDING)), [data, read(false), flag(true)]);
            // Its data may have been put before.
            let empty = |landing, fenced| rows(whole(kind, 0), landing, fenced);
            assert_eq!(empty(None, true), [flag(true)]);
            assert_eq!(empty(Some(LANDING), false), [read(false), flag(true)]);
            assert_eq!(empty(Some(LANDING), true), [read(true), flag(true)]);
        }
    }

    #[test]
    fn the_flag_of_an_eager_message_goes_apart() {
        let eager = |bytes, landing| rows(whole(Kind::Eager(9), bytes), landing, false);
        assert_eq!(eager(24, None), [("write", 1000, 2000, 24, false)]);
        let parts = [
            ("write", 1000, 2000, 16, false),
            ("read", 600, 2016, 8, false),
            ("write", 1016, 2016, 8, true),
        ];
        assert_eq!(eager(24, Some(LANDING)), parts);
        assert_eq!(eager(8, Some(LANDING)).len(), 2);
    }

    #[test]
    fn an_ordered_put_waits_and_others_do_not() {
        let ordered = |bytes, landing| rows(whole(Kind::Ordered, bytes), landing, false);
        assert_eq!(ordered(4, None), [("write", 1000, 2000, 4, false)]);
        let parts = [
            ("read", 600, 2000, 4, false),
            ("write", 1000, 2000, 4, true),
        ];
        assert_eq!(ordered(4, Some(LANDING)), parts);
        assert_eq!(ordered(0, Some(LANDING)), ordered(0, None), "of nothing");
        for (kind, name) in [
            (Kind::Put, "write"),
            (Kind::Get, "read"),
            (
                Kind::CompareSwap {
                    compare: 0,
                    swap: 1,
                },
                "atomic",
            ),
        ] {
            for (bytes, fenced) in [(8, false), (8, true), (0, false)] {
                let alone = rows(whole(kind, bytes), Some(LANDING), fenced);
                assert_eq!(alone, [(name, 1000, 2000, bytes, fenced)]);
            }
        }
    }
}
