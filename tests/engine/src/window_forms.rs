//! Windows of ranks on nodes of their own, over loopback rails: the forms that settings choose between.

mod buffers;

use super::ranks::{self, in_a_process_of_its_own, on_ranks, settings};
use ferrorail_base::Rank;
use ferrorail_base::config::{
    AtomicsChoice, LockBackoff, LockRequest, Pscw, ServiceThreads, Settings, WindowSettings,
};
use ferrorail_base::runs::Piece;
use ferrorail_base::sync::Ordering;
use ferrorail_engine::{LockAlgorithm, LockMode, OneSided, Shape};
use std::sync::Barrier;

/// Has each rank of a window of words do `act` at once.
fn with_windows(
    ranks: u32,
    settings: &Settings,
    lock: Option<LockAlgorithm>,
    act: impl Fn(&OneSided, Rank, *mut u64) + Sync,
) {
    on_ranks(ranks, settings, |team| {
        let window = ranks::window(team, 1 << 17, 8, lock);
        let onesided = window.onesided();
        act(onesided, onesided.rank(), window.base() as *mut u64);
        window.close().expect("no epoch is open");
    });
}

/// Settings of windows on nodes of `node_size`.
fn forms(node_size: u32, windows: WindowSettings) -> Settings {
    Settings {
        windows,
        ..settings(node_size, 2)
    }
}

/// Locks `target` alone.
fn lock(window: &OneSided, target: Rank) {
    let locked = window.lock(target, LockMode::Exclusive, false);
    locked.expect("no epoch");
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
            let windows = WindowSettings {
                pscw,
                ..WindowSettings::default()
            };
            with_windows(5, &forms(node_size, windows), None, |window, rank, base| {
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

/// Ranks add to words of all others, alone, and look at them together.
fn contend(algorithm: LockAlgorithm, windows: WindowSettings) {
    const RANKS: u32 = 4;
    const ROUNDS: u32 = 100;
    // With those of the rails inside nodes too.
    let settings = Settings {
        atomics: AtomicsChoice::Nic,
        ..forms(2, windows)
    };
    let what = format!("{algorithm:?}, {windows:?}");
    with_windows(RANKS, &settings, Some(algorithm), |window, rank, base| {
        for round in 0..ROUNDS {
            let target = Rank((rank.0 + round) % RANKS);
            lock(window, target);
            let value = get(window, target, 1) + 1;
            put(window, target, 1, &value);
            window.unlock(target).expect("locked");
            window
                .lock(target, LockMode::Shared, false)
                .expect("no epoch");
            assert!(get(window, target, 1) >= value, "{what}");
            window.unlock(target).expect("locked");
        }
        window.fence(false).expect("no epoch");
        // SAFETY: nobody writes between these fences.
        let sum = unsafe { base.add(1).read() };
        assert_eq!(sum, u64::from(ROUNDS), "{what}, {rank:?}");
        window.fence(true).expect("no epoch");
    });
}

#[test]
fn contenders_back_off_as_told_and_lose_nothing() {
    let bounds = |first_us, max_us| Some(LockBackoff { first_us, max_us });
    for lock_backoff in [None, bounds(1, 1), bounds(2, 500)] {
        let windows = WindowSettings {
            lock_backoff,
            ..WindowSettings::default()
        };
        contend(LockAlgorithm::TestAndSet, windows);
        contend(LockAlgorithm::Mcs, windows);
    }
}

fn requesting(lock_request: LockRequest) -> WindowSettings {
    WindowSettings {
        lock_request,
        ..WindowSettings::default()
    }
}

#[test]
fn locks_asked_for_early_and_late_have_the_same_holders() {
    for lock_request in [LockRequest::Early, LockRequest::Deferred] {
        for lock in LockAlgorithm::ALL {
            contend(lock, requesting(lock_request));
        }
    }
}

/// Messages of locks that this rank has sent.
fn messages(window: &OneSided) -> u64 {
    window.counters().lock_messages.load(Ordering::Relaxed)
}

const MODES: [LockMode; 2] = [LockMode::Exclusive, LockMode::Shared];

#[test]
fn an_early_request_leaves_in_the_call_and_only_one() {
    for lock_request in [LockRequest::Early, LockRequest::Deferred] {
        for lock in LockAlgorithm::ALL {
            let settings = forms(1, requesting(lock_request));
            with_windows(3, &settings, Some(lock), |window, rank, _| {
                if rank != Rank(0) {
                    return;
                }
                let early = lock_request == LockRequest::Early;
                for mode in MODES {
                    let before = messages(window);
                    window.lock(Rank(1), mode, false).expect("no epoch");
                    // The head of this queue would keep other readers out.
                    let head = lock == LockAlgorithm::Mcs && mode == LockMode::Shared;
                    let asked = u64::from(early && !head);
                    assert_eq!(messages(window) - before, asked, "{lock:?}, {mode:?}");
                    window.lock(Rank(2), mode, false).expect("no epoch");
                    assert_eq!(messages(window) - before, asked, "{lock:?}, {mode:?}");
                    // The other first: both are held then, whatever was asked for.
                    put(window, Rank(2), 0, &7);
                    put(window, Rank(1), 0, &8);
                    window.unlock(Rank(1)).expect("locked");
                    assert_eq!(get(window, Rank(2), 0), 7);
                    window.unlock(Rank(2)).expect("locked");
                    // Nothing is done with it.
                    window.lock(Rank(2), mode, false).expect("no epoch");
                    window.unlock(Rank(2)).expect("locked");
                    let before = messages(window);
                    window.lock(Rank(1), mode, true).expect("no epoch");
                    put(window, Rank(1), 0, &9);
                    window.unlock(Rank(1)).expect("locked");
                    assert_eq!(messages(window), before, "nocheck");
                }
                window.lock_all(false).expect("no epoch");
                assert_eq!(get(window, Rank(1), 0), 9);
                window.unlock_all().expect("locked");
            });
        }
    }
}

/// A rank that asked and went elsewhere keeps nobody waiting who need not wait for a holder.
#[test]
fn who_asked_and_waits_elsewhere_holds_up_no_reader_and_no_release() {
    let settings = forms(1, requesting(LockRequest::Early));
    for algorithm in LockAlgorithm::ALL {
        let meet = Barrier::new(3);
        with_windows(3, &settings, Some(algorithm), |window, rank, _| {
            // Readers: each has asked, only one comes back.
            if rank != Rank(0) {
                window
                    .lock(Rank(0), LockMode::Shared, false)
                    .expect("no epoch");
            }
            meet.wait();
            if rank == Rank(2) {
                assert_eq!(get(window, Rank(0), 0), 0);
                window.unlock(Rank(0)).expect("locked");
            }
            meet.wait();
            if rank == Rank(1) {
                window.unlock(Rank(0)).expect("locked");
            }
            meet.wait();
            // A holder leaves although somebody asked after it and does not come back.
            if rank == Rank(1) {
                lock(window, Rank(0));
                put(window, Rank(0), 0, &5);
                window.flush(Rank(0)).expect("locked");
            }
            meet.wait();
            if rank == Rank(2) {
                lock(window, Rank(0));
            }
            meet.wait();
            if rank == Rank(1) {
                window.unlock(Rank(0)).expect("locked");
            }
            meet.wait();
            if rank == Rank(2) {
                assert_eq!(get(window, Rank(0), 0), 5, "{algorithm:?}");
                put(window, Rank(0), 0, &0);
                window.unlock(Rank(0)).expect("locked");
            }
            meet.wait();
        });
    }
}

/// Threads of this process that serve windows.
fn service_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("readable");
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    tasks
        .filter_map(|task| name(task.ok()?).ok())
        .filter(|name| name.trim() == "ferrorail-rma")
        .count()
}

#[test]
fn each_window_has_a_thread_of_its_own_if_told() {
    // Windows of other tests have threads too.
    in_a_process_of_its_own(
        "window_forms::each_window_has_a_thread_of_its_own_if_told",
        count_threads_of_windows,
    );
}

fn count_threads_of_windows() {
    const RANKS: u32 = 3;
    for threads_of in [ServiceThreads::Window, ServiceThreads::Process] {
        let windows = WindowSettings {
            service_threads: threads_of,
            ..WindowSettings::default()
        };
        contend(LockAlgorithm::Thread, windows);
        let meet = Barrier::new(RANKS as usize);
        let thread = Some(LockAlgorithm::Thread);
        with_windows(RANKS, &forms(1, windows), thread, |window, _, _| {
            meet.wait();
            let expected = match threads_of {
                ServiceThreads::Window => RANKS as usize,
                // All ranks are of one process here.
                ServiceThreads::Process => 1,
            };
            // A thread has its name only once it runs.
            while service_threads() < expected {
                std::thread::yield_now();
            }
            lock(window, Rank(0));
            window.unlock(Rank(0)).expect("locked");
            meet.wait();
        });
    }
    assert_eq!(service_threads(), 0, "they end with their windows");
}
