//! Windows of ranks on nodes of their own, over loopback rails: the forms that settings choose between.

use ferrorail_base::Rank;
use ferrorail_base::config::{
    FabricChoice, Pscw, RailChoice, Settings, WindowKeys, WindowSettings,
};
use ferrorail_base::runs::Piece;
use ferrorail_bootstrap::InProcess;
use ferrorail_engine::{Context, Memory, NoHost, OneSided, Shape, Team, Window, WindowSpec};

/// Has each rank of a window of a word per rank, on nodes of `node_size`, do `act` at once.
fn with_windows(
    (ranks, node_size): (u32, u32),
    windows: WindowSettings,
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
                    lock: None,
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
            let forms = WindowSettings { pscw };
            with_windows((5, node_size), forms, |window, rank, base| {
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
