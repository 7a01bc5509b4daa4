//! Messages that meet full rails.

use crate::lock::{LockAlgorithm, Mode};
use crate::window::{
    Link, Memory, Parts, ProcessContext, Shape, Target, Threads, Window, WindowError, WindowLayout,
    WindowRails, layout,
};
use ferrorail_base::config::{ShmKind, WindowSettings};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::runs::Piece;
use ferrorail_base::sync::Mutex;
use ferrorail_base::sync::{AtomicBool, AtomicUsize, Ordering};
use ferrorail_base::{PeerId, RailId, Rank};
use ferrorail_fabric::stripe::{Planner, Policy, RailWeights};
use ferrorail_fabric::{
    Endpoint, FabricError, Kind, LocalRegion, Op, RAILS_MAX, RemoteRegion, SharedBacking, Ticket,
    Tracking,
};
use ferrorail_shm::{Segment, WaitPolicy};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const RAILS: u8 = 2;
const BYTES: usize = 1 << 16;
pub(in crate::window) const PEER: PeerId = PeerId(0);
/// Sequence numbers of what is no put.
const ATOMIC: u64 = u64::MAX;
pub(in crate::window) const GET: u64 = u64::MAX - 1;

/// Rails with room for a number of puts, which complete at once, as all else does unless it is said.
#[derive(Default)]
pub(in crate::window) struct Narrow {
    /// Atomics that were posted.
    pub atomics: AtomicUsize,
    /// Whether they fail once they are posted.
    pub loses_atomics: AtomicBool,
    /// Whether nothing can be posted.
    pub refuses: AtomicBool,
    /// Whether gets are under way as long as this lasts.
    pub holds_gets: AtomicBool,
    room: AtomicUsize,
    /// Offset and length of each put.
    puts: Mutex<Vec<(usize, usize)>>,
    registered: AtomicUsize,
    checked: AtomicUsize,
}

fn local(range: MemoryRange) -> LocalRegion {
    LocalRegion {
        range,
        lkeys: [0; RAILS_MAX],
        rkeys: [0; RAILS_MAX],
        backing: None,
        handle: 0,
        description: Vec::new(),
    }
}

impl Endpoint for Narrow {
    unsafe fn register(
        &self,
        address: *mut u8,
        bytes: usize,
        _backing: Option<SharedBacking>,
    ) -> Result<LocalRegion, FabricError> {
        self.registered.fetch_add(1, Ordering::Relaxed);
        Ok(local(MemoryRange::new(address, bytes)))
    }
    fn deregister(&self, region: LocalRegion) {
        if region.range.bytes == BYTES {
            self.registered.fetch_sub(1, Ordering::Relaxed);
        }
    }
    fn abandon(&self, region: LocalRegion) {
        self.deregister(region);
    }
    fn release(&self, _peer: PeerId, _region: RemoteRegion) {}
    unsafe fn post(
        &self,
        peer: PeerId,
        rail: RailId,
        op: &Op<'_>,
        _tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(FabricError::BadPeerData { what: "a word" });
        }
        let ticket = |sequence| Ticket {
            peer,
            rail,
            sequence,
        };
        let Op {
            kind,
            local: from,
            remote: to,
        } = op;
        match kind {
            Kind::Put => {}
            Kind::Get => return Ok(ticket(GET)),
            _ => {
                self.atomics.fetch_add(1, Ordering::Relaxed);
                return Ok(ticket(ATOMIC));
            }
        }
        let take = |room: usize| room.checked_sub(1);
        let taken = self
            .room
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map_err(|_| FabricError::WouldBlock)?;
        assert_eq!(from.offset, to.offset);
        let mut puts = self.puts.lock();
        puts.push((to.offset, from.bytes));
        Ok(ticket(puts.len() as u64))
    }
    fn is_complete(&self, ticket: Ticket) -> Result<bool, FabricError> {
        match ticket.sequence {
            ATOMIC if self.loses_atomics.load(Ordering::Relaxed) => {
                Err(FabricError::BadPeerData { what: "a word" })
            }
            GET => Ok(!self.holds_gets.load(Ordering::Relaxed)),
            _ => Ok(true),
        }
    }
    fn out_of_use(&self, _peer: PeerId) -> u8 {
        0
    }
    fn check(&self, _peer: PeerId) -> Result<(), FabricError> {
        self.checked.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn owes(&self, _peer: PeerId) -> bool {
        false
    }
    fn untracked(&self, _peer: PeerId) -> Result<(), FabricError> {
        Ok(())
    }
    fn progress(&self) -> Result<usize, FabricError> {
        Ok(0)
    }
    fn wake_events(&self) -> Result<Vec<BorrowedFd<'_>>, FabricError> {
        Ok(Vec::new())
    }
}

/// A process whose host makes room for so many puts each time it is driven.
struct Process {
    fabric: Arc<Narrow>,
    wait: WaitPolicy,
    room: usize,
}

impl Process {
    /// One that puts nothing on rails, and whose peers are found dead.
    fn without_rails() -> Self {
        Self {
            fabric: Arc::default(),
            wait: WaitPolicy::for_host(2, 1, None),
            room: 0,
        }
    }
}

impl ProcessContext for Process {
    fn wait_policy(&self) -> &WaitPolicy {
        &self.wait
    }
    fn poke(&self) -> bool {
        self.fabric.room.fetch_add(self.room, Ordering::Relaxed);
        false
    }
    fn registered(&self) {}
    fn refused(&self, _error: &FabricError, _bytes: u64) {
        unreachable!()
    }
    fn check(
        &self,
        doing: &'static str,
        _waited: Duration,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Err(doing.into())
    }
}

/// All ranks of a window of one node, in this process, without memory.
pub(in crate::window) fn on_one_node(
    layout: WindowLayout,
    settings: WindowSettings,
) -> Vec<Arc<Window<Narrow>>> {
    on_one_node_over(layout, settings, |_, _| (0, Memory::Mapped(0)))
}

/// The same, with as many bytes of each rank, its second argument, as `memory` says, which the first reaches so.
pub(in crate::window) fn on_one_node_over(
    layout: WindowLayout,
    settings: WindowSettings,
    memory: impl Fn(u32, u32) -> (u64, Memory),
) -> Vec<Arc<Window<Narrow>>> {
    let first = Segment::create(ShmKind::Auto, layout.memory()).expect("memory");
    let target = |(rank, (bytes, memory))| Target {
        bytes,
        unit: 1,
        memory,
        control: Some(layout.control(rank)),
        link: None,
        elements: None,
    };
    let window = |rank| {
        Window::new(Parts {
            rank: Rank(rank),
            segment: Segment::attach(&first.handle()).expect("memory"),
            layout,
            control: layout.control(rank),
            targets: (0..layout.ranks)
                .map(|other| target((other, memory(rank, other))))
                .collect(),
            rails: None,
            lock: LockAlgorithm::for_ranks(layout.ranks),
            settings,
            threads: Threads::One,
            service_plan: None,
            process_context: Box::new(Process::without_rails()),
        })
    };
    (0..layout.ranks).map(window).collect()
}

/// A window of two ranks on two nodes.
pub(in crate::window) fn window(fabric: &Arc<Narrow>, room: usize) -> Arc<Window<Narrow>> {
    let layout = WindowLayout {
        ranks: 2,
        local_ranks: 1,
        rails: true,
        dynamic: false,
        operand_bytes: 0,
    };
    let segment = Segment::create(ShmKind::Auto, layout.memory() + layout::PAGE).expect("memory");
    let region = RemoteRegion {
        address: 0,
        bytes: BYTES as u64,
        rkeys: [0; RAILS_MAX],
        mapping: 0,
    };
    let link = Link {
        peer: PEER,
        segment: region,
        control: 0,
        operand_buffers: 0,
    };
    let mut rails = WindowRails::new(
        Arc::clone(fabric),
        (0..RAILS).map(RailId).collect(),
        RailId(0),
        Planner::new(Policy::Even, 1, 1),
        local(segment.range()),
        None,
        layout.staged(0),
        vec![RailWeights::equal(RAILS.into()); 2],
    );
    rails.link(Rank(1), link, None);
    let own = Target {
        bytes: 0,
        unit: 1,
        memory: Memory::Mapped(0),
        control: Some(layout.control(0)),
        link: None,
        elements: None,
    };
    let other = Target {
        bytes: BYTES as u64,
        memory: Memory::Rails { region, offset: 0 },
        control: None,
        link: Some(link),
        ..own
    };
    Window::new(Parts {
        rank: Rank(0),
        segment,
        layout,
        control: layout.control(0),
        targets: vec![own, other],
        rails: Some(rails),
        lock: LockAlgorithm::Queue,
        settings: WindowSettings::default(),
        threads: Threads::One,
        service_plan: None,
        process_context: Box::new(Process {
            fabric: Arc::clone(fabric),
            wait: WaitPolicy::for_host(2, 1, None),
            room,
        }),
    })
}

/// Puts as much as two rails carry while one of them has room, and completes it.
fn put(fabric: &Arc<Narrow>, room: usize) -> Result<(), WindowError> {
    fabric.room.store(1, Ordering::Relaxed);
    let window = window(fabric, room);
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let shape = Shape::Dense(Piece {
            offset: 0,
            bytes: BYTES,
        });
        let from = vec![1u8; BYTES];
        window
            .lock(Rank(1), Mode::Shared, true)
            .expect("no lock yet");
        // SAFETY: the buffer outlives the window's use of it, and the fabric reads nothing.
        let outcome = unsafe { window.put(from.as_ptr(), &shape, Rank(1), 0, &shape) };
        let outcome = outcome.and_then(|()| window.unlock(Rank(1)));
        window.rails().progress().expect("puts complete at once");
        tell.send(outcome).expect("somebody listens");
    });
    let time_limit = Duration::from_secs(60);
    told.recv_timeout(time_limit).expect("it waits for ever")
}

#[test]
fn who_waits_for_room_drives_the_host_and_posts_each_chunk_once() {
    let fabric = Arc::new(Narrow::default());
    put(&fabric, 1).expect("room in the end");
    let puts = fabric.puts.lock().clone();
    assert_eq!(puts, [(0, BYTES / 2), (BYTES / 2, BYTES / 2)]);
    assert_eq!(fabric.registered.load(Ordering::Relaxed), 0, "given back");
}

#[test]
fn who_waits_for_room_asks_for_the_peer_and_gives_up() {
    let fabric = Arc::new(Narrow::default());
    let outcome = put(&fabric, 0);
    assert!(matches!(outcome, Err(WindowError::Peer(_))), "{outcome:?}");
    assert!(fabric.checked.load(Ordering::Relaxed) > 0);
    assert_eq!(fabric.puts.lock().len(), 1, "half of it was posted");
    assert_eq!(fabric.registered.load(Ordering::Relaxed), 0, "given back");
}
