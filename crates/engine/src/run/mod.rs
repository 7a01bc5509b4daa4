//! Running a schedule: one state machine for blocking, non-blocking and persistent calls.
//!
//! [`Run::advance`] executes steps until one cannot go on yet, and never blocks. A blocking call
//! ([`Run::complete`]) advances to the end and waits in between.

pub(crate) mod checked;
mod complete;
mod eager;
mod message;
mod multicast;
mod neighbours;
mod put;
mod ready_to_receive;
mod registered;
mod shared_copy;
mod signals;
mod span;
pub(crate) mod staged;
mod user;

pub(crate) use ready_to_receive::{beside_cells, reserved_bytes};
pub(crate) use span::block_bytes;
pub use user::Block;
pub(crate) use user::{BlockList, Even, Side, Table, UserBuffers, Window};

use crate::EngineError;
use crate::blocking_wait::Blocked;
use crate::plan::Route;
use crate::sequence::Allocation;
use crate::tag;
use crate::team::link::Link;
use crate::team::map::Map;
use crate::team::state::State;
use checked::Checking;
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::{Schedule, Slot, Step};
use ferrorail_fabric::Endpoint;
use ferrorail_fabric::stripe::{Chunk, flag_parts};
use multicast::Multicasts;
use neighbours::Neighbours;
use put::Sending;
use registered::Registered;
use shared_copy::{OFFERED, Offered, Offers};
use span::Spans;
use staged::Outgoing;
use std::cell::Cell;
use std::time::Duration;

/// Has the weights of the rails to `to` follow a chunk that was timed.
fn observe(links: &mut [Option<Link>], to: Rank, chunk: Chunk, elapsed: Duration) {
    if let Some(link) = &mut links[to.index()] {
        link.rail_weights.observe(chunk, elapsed);
    }
}

/// Outcome of [`Run::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advance {
    /// The schedule is at its end; the result is complete and the user's buffers are free.
    Done,
    /// Call again later.
    Pending(Blocked),
}

/// One schedule in flight.
pub(crate) struct Run<'a> {
    map: &'a Map,
    schedule: &'a Schedule,
    neighbours: Neighbours<'a>,
    spans: Spans<'a>,
    /// The operation's tag.
    op: u64,
    channel: u32,
    /// Next step.
    next: usize,
    /// The put that was left half done because a rail's queue was full.
    sending: Option<Sending>,
    /// Eager messages written so far.
    eager_messages: Cell<u32>,
    /// RTRs laid out for other nodes so far.
    rtrs: Cell<u32>,
    /// The put that goes in pieces, if the present one does.
    staging: Option<Box<Outgoing>>,
    /// Whether peers may ask this rank to take messages in pieces.
    serves: bool,
    /// The check of the message that is being waited for.
    checking: Checking,
    multicasts: Multicasts,
    /// Copies that this rank shares with their targets.
    offered: Vec<Offered<'a>>,
    /// Which of them.
    offers: Offers,
    /// Whether this rank can read what others offer.
    reads_offers: bool,
    /// The user's contribution, registered for this operation if puts read it.
    send: Registered,
    /// The user's result, registered if peers write it or puts read it.
    receive: Registered,
    /// Whether the user's memory was given back.
    released: bool,
}

impl<'a> Run<'a> {
    /// A run of `route` as the operation that the sequence gave out.
    ///
    /// Messages from and to a buffer that cannot be registered go in pieces.
    pub fn new(
        map: &'a Map,
        route: &'a Route,
        user: UserBuffers<'a>,
        allocation: Allocation,
    ) -> Self {
        let neighbours = Neighbours::new(map, route.domains);
        let register = |wanted: bool, side| match wanted {
            true => Registered::new(map, side, user.window),
            false => Registered::Unneeded,
        };
        Self {
            map,
            schedule: &route.schedule,
            op: allocation.op,
            channel: allocation.channel,
            next: 0,
            sending: None,
            eager_messages: Cell::new(0),
            rtrs: Cell::new(0),
            staging: None,
            serves: route.registers_recv && map.rails.is_some(),
            checking: Checking::default(),
            multicasts: Multicasts::default(),
            offered: Vec::new(),
            offers: match route.offers {
                true => Offers::Shared,
                false => Offers::None,
            },
            reads_offers: true,
            send: register(route.registers_send, &user.send),
            receive: register(route.registers_recv, &user.recv),
            spans: Spans::new(map, user, allocation, neighbours.leader_of(map.rank)),
            neighbours,
            released: false,
        }
    }

    /// With copies inside the node left to their targets.
    pub fn leaving_copies(mut self) -> Self {
        self.offers = Offers::Left;
        self
    }

    /// Executes steps until the end or until one must wait.
    pub fn advance(&mut self, state: &mut State) -> Result<Advance, EngineError> {
        self.look_at_rails(state)?;
        while let Some(&step) = self.schedule.steps.get(self.next) {
            if let Some(blocked) = self.step(step, state)? {
                // Where ranks share cores, first come all offers: until then targets on other cores have nothing to do.
                let offers_first = !self.map.has_cores && matches!(step, Step::AwaitRtr { .. });
                let copied = match offers_first {
                    _ if !self.has_offers() => false,
                    true => self.copy_returned()?,
                    false => self.copy_offered()?,
                };
                if copied {
                    continue;
                }
                // Those who wait for this rank to take their pieces do not ring the node's doorbell.
                let idle = state.staged.is_idle();
                return Ok(Advance::Pending(if idle { blocked } else { Blocked::Rail }));
            }
            self.next += 1;
        }
        self.drain(state)
    }

    /// Executes `step`, or says what it waits for.
    fn step(&mut self, step: Step, state: &mut State) -> Result<Option<Blocked>, EngineError> {
        match step {
            Step::Copy { from, into } => {
                self.spans.copy(from, into);
                Ok(None)
            }
            Step::Put {
                to,
                port,
                slot,
                from,
                into,
            } => {
                if self.spans.sent(to, from.count).is_none() {
                    Ok(None)
                } else if self.map.topology.same_node(to, self.map.rank) {
                    self.put_node(state, to, slot, from, into)
                } else {
                    self.put_rails(state, to, port, slot, from, into)
                }
            }
            Step::Await {
                from, slot, blocks, ..
            } => match self.spans.received(from, blocks) {
                Some(bytes) => {
                    let tag = self.message_tag(bytes);
                    self.await_message(state, from, slot, tag, blocks > 0)
                }
                None => Ok(None),
            },
            Step::SendRtr { to, slot } => match self.spans.received(to, 0) {
                Some(_) => self.send_rtr(state, to, slot),
                None => Ok(None),
            },
            Step::AwaitRtr { from, slot } => match self.spans.sent(from, 0) {
                Some(_) => self.await_rtr(state, from, slot),
                None => Ok(None),
            },
            Step::Multicast { .. } => self.open_multicasts(),
            Step::AwaitMulticast { .. } => self.await_multicast(),
            Step::Reduce { .. } => {
                let following = &self.schedule.steps[self.next..];
                // The last of them is passed as every step is.
                self.next += self.spans.reduce_first(following)? - 1;
                Ok(None)
            }
            Step::PutReduced {
                to,
                slot,
                left,
                right,
                into,
                like,
                ..
            } => self.put_reduced((to, slot), [left, right, into], like),
            Step::NodeSignal { phase } => {
                self.signal(phase);
                Ok(None)
            }
            Step::NodeAwait { of, phase } => self.await_signal(of, phase),
            Step::NodeAwaitAll { phase } => self.await_signals(phase),
        }
    }

    /// What the flag of a message of `bytes` bytes holds.
    #[inline]
    fn message_tag(&self, bytes: usize) -> u64 {
        if self.spans.user().pairs {
            tag::with_length(self.op, bytes)
        } else {
            self.op
        }
    }

    /// How many chunks the message of `slot` has, if chunk `chunk` of it has arrived with `tag`.
    #[inline]
    fn arrived(&self, slot: Slot, chunk: u8, tag: u64) -> Option<u8> {
        let flag = self
            .map
            .segment()
            .arrival(self.map.node_rank, self.channel, slot, chunk);
        let (seen, chunks) = flag_parts(flag.value());
        tag::has_come(seen, tag).then_some(chunks)
    }

    /// `None` if the message from `from` is complete, and undamaged if it is `checked`, as what has
    /// bytes is where checks are on.
    #[inline]
    fn await_message(
        &mut self,
        state: &mut State,
        from: Rank,
        slot: Slot,
        tag: u64,
        has_bytes: bool,
    ) -> Result<Option<Blocked>, EngineError> {
        if self.map.topology.same_node(from, self.map.rank) {
            return match self.arrived(slot, 0, tag) {
                None => Ok(Some(Blocked::Node)),
                Some(OFFERED) => self.help(state, from, slot, tag),
                Some(_) => Ok(None),
            };
        }
        if has_bytes && self.map.settings.reliable {
            return self.unless_checked(state, from, slot, tag);
        }
        if has_bytes && self.take_eager_message(slot)? {
            return Ok(None);
        }
        Ok(self.unless_arrived(slot, tag, Blocked::Rail))
    }

    /// `blocked` unless the message in `slot` is complete. The flag of its first chunk says how many
    /// chunks there are, so that only the origin need know how the message is divided, and a
    /// message of one chunk costs one look.
    #[inline]
    fn unless_arrived(&self, slot: Slot, tag: u64, blocked: Blocked) -> Option<Blocked> {
        let arrived = |chunk| self.arrived(slot, chunk, tag);
        let complete =
            arrived(0).is_some_and(|chunks| (1..chunks).all(|chunk| arrived(chunk).is_some()));
        (!complete).then_some(blocked)
    }

    /// Waits until nobody reads the user's memory any more, then gives its registration back.
    fn drain(&mut self, state: &mut State) -> Result<Advance, EngineError> {
        while self.has_offers() {
            if !self.copy_offered()? && self.has_offers() {
                return Ok(Advance::Pending(Blocked::Node));
            }
        }
        if let Some(rails) = &self.map.rails {
            while let Some(&ticket) = state.tickets.last() {
                if !rails.fabric.is_complete(ticket)? {
                    return Ok(Advance::Pending(Blocked::Rail));
                }
                state.tickets.pop();
            }
            if !state.unacknowledged.is_settled() || !state.staged.is_idle() {
                return Ok(Advance::Pending(Blocked::Rail));
            }
        }
        if !self.multicasts_settled()? {
            return Ok(Advance::Pending(Blocked::Rail));
        }
        self.release_user_memory(true);
        let links = &mut state.links;
        (state.sampler).close(|to, chunk, elapsed| observe(links, to, chunk, elapsed));
        Ok(Advance::Done)
    }

    fn look_at_rails(&self, state: &mut State) -> Result<(), EngineError> {
        if let Some(rails) = &self.map.rails {
            let links = &mut state.links;
            (state.sampler).read(&*rails.fabric, |to, chunk, elapsed| {
                observe(links, to, chunk, elapsed)
            });
            if !state.unacknowledged.is_settled() {
                self.read_acks(state)?;
            }
            if self.serves {
                self.serve(state)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn release_user_memory(&mut self, complete: bool) {
        self.released = true;
        self.settle_multicasts();
        self.withdraw_offers();
        self.send.release(self.map, complete);
        self.receive.release(self.map, complete);
    }

    /// The rank whose message is being waited for.
    fn awaited(&self) -> Option<Rank> {
        match self.schedule.steps.get(self.next) {
            Some(&(Step::Await { from, .. } | Step::AwaitRtr { from, .. })) => Some(from),
            Some(&Step::AwaitMulticast { from, .. }) => Some(from),
            _ => None,
        }
    }

    /// Step that is being waited for, for messages.
    pub fn waiting_for(&self) -> String {
        let peer = self.staging.as_ref().map(|outgoing| outgoing.to());
        if let Some(peer) = peer.or_else(|| self.awaited()) {
            return format!("rank {peer}");
        }
        match self.schedule.steps.get(self.next) {
            Some(&Step::NodeAwait { of, .. }) => self.local_rank(self.neighbours.of(of)),
            Some(&Step::NodeAwaitAll { phase }) => {
                let missing = self.missing(phase);
                missing.map_or_else(|| "the node".into(), |of| self.local_rank(of))
            }
            _ => "a rail".into(),
        }
    }

    fn local_rank(&self, of: NodeRank) -> String {
        format!(
            "rank {}",
            self.map.topology.ranks_of(self.map.node)[of.index()]
        )
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if !self.released {
            self.release_user_memory(false);
        }
    }
}
