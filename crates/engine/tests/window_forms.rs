//! Windows of ranks on nodes of their own, over loopback rails: the forms that settings choose between.

use ferrorail_base::Rank;
use ferrorail_base::config::{
    FabricChoice, LockBackoff, Pscw, RailChoice, Settings, WindowKeys, WindowSettings,
};
use ferrorail_base::runs::Piece;
use ferrorail_bootstrap::InProcess;
use ferrorail_engine::{
    Context, LockAlgorithm, LockMode, Memory, NoHost, OneSided, Shape, Team, Window, WindowSpec,
};

/// Has each rank of a window of a word per rank, on nodes of `node_size`, do `act` at once.
fn with_windows(
    (ranks, node_size): (u32, u32),
    (lock, windows): (Option<LockAlgorithm>, WindowSettings),
    act: impl Fn(&OneSided, Rank, *mut u64) + Sync,
) {
    let settings = Settings {
        fabric: FabricChoice::Loopback,
        node_size: Some(node_size),
        rails: RailChoice::Count(2),
        peer_timeout_s: Some(60),
        windows,
        ..Settings::default()
    };
    let context = Context::new(settings, Box::new(NoHost));
    std::thread::scope(|scope| {
        for oob in InProcess::world(ranks) {
            let (context, act) = (&context, &act);
            scope.spawn(move || {
                let team = Team::create(context, context.settings(), Box::new(oob));
                let team = team.expect("a team");
                let spec = WindowSpec {
                    memory: Memory::Allocate,
                    bytes: 8 * u64::from(ranks),
                    unit: 8,
                    lock,
                    elements: false,
                    keys: WindowKeys::default(),
                };
                // SAFETY: the window brings its memory.
                let window = unsafe { Window::create(&team, spec) }.expect("a window");
                let onesided = window.onesided();
                act(onesided, onesided.rank(), window.base() as *mut u64);
                window.quit().expect("no epoch is open");
                team.free();
            });
        }
    });
}

const WORD: Shape<'static> = Shape::Dense(Piece {
    offset: 0,
    bytes: 8,
});

/// Gets that word.
fn get(window: &OneSided, target: Rank, index: u32) -> u64 {
    let mut value = 0u64;
    let into = (&raw mut value).cast();
    // SAFETY: the word is the window's until the flush.
    let got = unsafe { window.get(into, &WORD, target, index.into(), &WORD) };
    got.and_then(|()| window.flush(target)).expect("locked");
    value
}

/// Puts `value` into the word that `target` keeps for `index`.
fn put(window: &OneSided, target: Rank, index: u32, value: &u64) {
    let from = std::ptr::from_ref(value).cast();
    // SAFETY: the word is read before this returns.
    let put = unsafe { window.put(from, &WORD, target, index.into(), &WORD) };
    put.expect("in an epoch");
}

#[test]
fn epochs_between_nodes_follow_each_other() {
    for pscw in [Pscw::Counters, Pscw::BitVectors] {
        for node_size in [1, 2] {
            let forms = WindowSettings {
                pscw,
                ..WindowSettings::default()
            };
            with_windows((5, node_size), (None, forms), |window, rank, base| {
                let others: Vec<Rank> = (0..5).map(Rank).filter(|other| *other != rank).collect();
                for round in 1..=20u64 {
                    // All with all, or each with the two beside it.
                    let beside = |other: &&Rank| [1, 4].contains(&((other.0 + 5 - rank.0) % 5));
                    let peers: Vec<Rank> = match round % 3 {
                        0 => others.iter().filter(beside).copied().collect(),
                        _ => others.clone(),
                    };
                    window.post(&peers).expect("no epoch");
                    window.start(&peers).expect("no epoch");
                    for &peer in &peers {
                        put(window, peer, rank.0, &round);
                    }
                    window.complete().expect("started");
                    window.wait().expect("posted");
                    for peer in &peers {
                        // SAFETY: the exposure epoch is over: nobody writes the words.
                        let found = unsafe { base.add(peer.index()).read() };
                        assert_eq!(found, round, "{pscw:?}, {rank:?} from {peer:?}");
                    }
                }
            });
        }
    }
}

/// Ranks on nodes of their own add to words of all others, alone, and look at them together.
fn contend(lock: LockAlgorithm, forms: WindowSettings) {
    const RANKS: u32 = 4;
    const ROUNDS: u32 = 100;
    with_windows((RANKS, 1), (Some(lock), forms), |window, rank, base| {
        for round in 0..ROUNDS {
            let target = Rank((rank.0 + round) % RANKS);
            window
                .lock(target, LockMode::Exclusive, false)
                .expect("no epoch");
            let value = get(window, target, 1) + 1;
            put(window, target, 1, &value);
            window.unlock(target).expect("locked");
            window
                .lock(target, LockMode::Shared, false)
                .expect("no epoch");
            assert!(get(window, target, 1) >= value, "{lock:?}, {forms:?}");
            window.unlock(target).expect("locked");
        }
        window.fence(false).expect("no epoch");
        // SAFETY: nobody writes between these fences.
        let sum = unsafe { base.add(1).read() };
        assert_eq!(sum, u64::from(ROUNDS), "{lock:?}, {forms:?}, {rank:?}");
        window.fence(true).expect("no epoch");
    });
}

#[test]
fn contenders_back_off_as_told_and_lose_nothing() {
    let bounds = |first_us, max_us| Some(LockBackoff { first_us, max_us });
    for lock_backoff in [None, bounds(1, 1), bounds(2, 500)] {
        let forms = WindowSettings {
            lock_backoff,
            ..WindowSettings::default()
        };
        contend(LockAlgorithm::TestAndSet, forms);
        contend(LockAlgorithm::Mcs, forms);
    }
}
