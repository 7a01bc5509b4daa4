//! What all [`Rails`] must do, whatever carries its bytes.
//!
//! [`run`] takes two attachments living in this process, joins them both ways, and checks order,
//! data, completion, back-pressure, atomics, counters and clean-up on each of their rails.

mod atomics;
mod attachment;
pub mod memory;
mod rails;
pub mod transfers;
mod wakes;

use ferrorail_base::sync::yield_now;
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{FabricError, Op, RemoteRegion, RemoteSlice, Ticket, Tracking};

use memory::Memory;
pub use rails::Rails;
use std::time::{Duration, Instant};

/// Longest wait for one completion; an emulated device in an emulated machine is slow.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// What a run saw that only some fabrics must show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Posts refused because a rail's queue was full.
    pub would_block: usize,
}

/// Runs the whole suite; panics with the failed property.
pub fn run<F: Rails>(make: impl Fn() -> (F, F)) -> Seen {
    let mut seen = Seen::default();
    for check in [
        attachment::connecting_is_idempotent,
        transfers::puts_of_every_size_arrive_and_stay_inside,
        transfers::gets_read_what_is_there,
        transfers::a_notification_is_stored_last,
        transfers::an_ordered_put_follows_what_was_put_before,
        transfers::eager_messages_arrive_whole,
        transfers::announced_private_memory_is_reachable,
        transfers::a_tracked_operation_completes_the_silent_ones_before_it,
        transfers::threads_share_a_fabric,
        wakes::who_sleeps_is_woken_by_what_has_arrived,
        attachment::counters_count_payload,
        attachment::a_process_reaches_itself,
        attachment::memory_is_given_back,
        attachment::bad_peer_data_is_refused,
    ] as [fn(&Pair<F>); 14]
    {
        check(&Pair::new(make()));
    }
    seen.would_block += transfers::notifications_follow_their_data(&Pair::new(make()));
    atomics::atomics_exclude_each_other(&Pair::new(make()));
    atomics::additions_follow_puts(&Pair::new(make()));
    seen
}

/// The part of the suite that what keeps the order of writes has a part in.
#[allow(dead_code)] // Not every fabric has more than one way.
pub fn run_order<F: Rails>(make: impl Fn() -> (F, F)) {
    let pair = Pair::new(make());
    transfers::a_notification_is_stored_last(&pair);
    transfers::an_ordered_put_follows_what_was_put_before(&pair);
    transfers::eager_messages_arrive_whole(&pair);
    wakes::who_sleeps_is_woken_by_what_has_arrived(&pair);
    transfers::notifications_follow_their_data(&Pair::new(make()));
    atomics::additions_follow_puts(&pair);
}

/// Two joined attachments. `ab` is b in a's peer table, `ba` the reverse.
pub struct Pair<F> {
    pub a: F,
    pub b: F,
    pub ab: PeerId,
    pub ba: PeerId,
}

/// The identity the suite gives the `index`-th attachment of this process.
pub fn process(index: u64) -> ProcessId {
    ProcessId {
        host: 7,
        pid: std::process::id(),
        started: index,
    }
}

impl<F: Rails> Pair<F> {
    pub fn new((a, b): (F, F)) -> Self {
        let (ab, ba) = (PeerId(0), PeerId(0));
        let mut pair = Self { a, b, ab, ba };
        (pair.ab, pair.ba) = pair.join(1, 2);
        pair
    }

    /// Joins them as the processes `index_a` and `index_b`; b in a's peer table, a in b's.
    pub fn join(&self, index_a: u64, index_b: u64) -> (PeerId, PeerId) {
        let (ab, at_a) = self.a.open_peer(process(index_b)).expect("open b");
        let (ba, at_b) = self.b.open_peer(process(index_a)).expect("open a");
        self.a.connect(ab, &at_b).expect("connect to b");
        self.b.connect(ba, &at_a).expect("connect to a");
        (ab, ba)
    }

    fn rails(&self) -> impl Iterator<Item = RailId> + use<F> {
        (0..self.a.attributes().rails.len() as u8).map(RailId)
    }

    /// Progress on both sides: a target may have to help.
    pub fn progress(&self) {
        self.a.progress().expect("progress of a");
        self.b.progress().expect("progress of b");
    }

    pub fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(
                start.elapsed() < TIME_LIMIT,
                "{what}: nothing for {TIME_LIMIT:?}"
            );
            self.progress();
            yield_now();
        }
    }

    pub fn wait(&self, fabric: &F, ticket: Ticket) {
        self.until("completion", || {
            fabric.is_complete(ticket).expect("completion")
        });
    }

    /// Shared memory at a and at b, and the latter as a sees it.
    pub fn memories(
        &self,
        here: usize,
        there: usize,
    ) -> (Memory<'_, F>, Memory<'_, F>, RemoteRegion) {
        let (here, there) = (
            Memory::shared(&self.a, here),
            Memory::shared(&self.b, there),
        );
        let remote = self.a.import(self.ab, &there.region().description);
        (here, there, remote.expect("import"))
    }

    /// Posts `op`, which is to be complete before its memory is used otherwise, until the queue takes it;
    /// returns the ticket and how often it was full.
    pub fn post(
        &self,
        (fabric, peer): (&F, PeerId),
        rail: RailId,
        op: &Op<'_>,
        tracking: Tracking,
    ) -> (Ticket, usize) {
        // SAFETY: tests keep memory to the end, and wait before they use what is under way.
        self.retry(|| unsafe { fabric.post(peer, rail, op, tracking) })
    }

    /// Calls `post` until the queue takes it; returns the ticket and how often it was full.
    pub fn retry(&self, mut post: impl FnMut() -> Result<Ticket, FabricError>) -> (Ticket, usize) {
        let start = Instant::now();
        let mut refused = 0;
        loop {
            match post() {
                Ok(ticket) => return (ticket, refused),
                Err(FabricError::WouldBlock) => refused += 1,
                Err(error) => panic!("post: {error}"),
            }
            assert!(start.elapsed() < TIME_LIMIT, "the queue stays full");
            self.progress();
            yield_now();
        }
    }

    /// [`Pair::post`] from a to b, tracked.
    pub fn start(&self, rail: RailId, op: &Op<'_>) -> Ticket {
        self.retry(|| self.try_start(rail, op)).0
    }

    /// [`Pair::start`], once.
    pub fn try_start(&self, rail: RailId, op: &Op<'_>) -> Result<Ticket, FabricError> {
        // SAFETY: as in `post`.
        unsafe { self.a.post(self.ab, rail, op, Tracking::Tracked) }
    }

    /// [`Pair::start`], and waits for its completion.
    pub fn carry(&self, rail: RailId, op: &Op<'_>) {
        let ticket = self.start(rail, op);
        self.wait(&self.a, ticket);
    }
}

pub fn at(region: &RemoteRegion, offset: usize) -> RemoteSlice<'_> {
    RemoteSlice { region, offset }
}
