//! Lists, what targets read of them, and what becomes of those that cannot be carried out.

use super::list::{List, State};
use super::order::{Layout, Order};
use crate::lock::Mode;
use crate::window::accumulate::Job;
use crate::window::attach::STAGED_MAX;
use crate::window::by_rail::tests::{Narrow, on_one_node_over};
use crate::window::request::tests::sum_of_longs;
use crate::window::shape::Side;
use crate::window::{Memory, Shape, Update, Window, WindowError, WindowLayout, active, layout};
use ferrorail_base::Rank;
use ferrorail_base::config::WindowSettings;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::runs::Runs;
use ferrorail_base::sync::{AtomicBool, Ordering, yield_now};
use ferrorail_shm::{Cma, process_id};
use std::ptr;
use std::sync::Arc;

const TARGET: Rank = Rank(1);

fn column() -> Runs {
    Runs::dense(8).repeated(3, 40).expect("regular")
}

/// One [`column`].
fn once(runs: &Runs) -> Shape<'_> {
    Shape::Runs {
        runs,
        count: 1,
        extent: 120,
    }
}

fn job<'a>(there: &'a Shape<'a>, origin: Side<'a>, update: Update<'a>) -> Job<'a> {
    Job {
        target: TARGET,
        base: 16,
        there,
        origin: Some(origin),
        result: None,
        element_bytes: 8,
        update,
    }
}

fn orders(list: &mut List) -> Vec<Order> {
    let MemoryRange { address, bytes } = list.words().expect("memory");
    let first: *const u64 = ptr::with_exposed_provenance(address);
    // SAFETY: the list's own words, which it leaves alone.
    let mut words = unsafe { std::slice::from_raw_parts(first, bytes / 8) };
    let mut orders = Vec::new();
    while !words.is_empty() {
        let (order, rest) = Order::read(words).expect("as they were written");
        orders.push(order);
        words = rest;
    }
    orders
}

#[test]
fn a_target_reads_what_was_left() {
    let runs = column();
    let (there, dense) = (
        Shape::Runs {
            runs: &runs,
            count: 1,
            extent: 120,
        },
        Shape::bytes_at(8, 24),
    );
    let mut numbers = [1u64, 2, 3, 4];
    let mut results = [0u64; 3];
    let (address, landing) = (
        numbers.as_mut_ptr().cast::<u8>(),
        results.as_mut_ptr().cast::<u8>(),
    );
    let side = Side {
        address,
        shape: &dense,
    };
    let packed = Shape::bytes_at(0, 24);
    let fetching = Job {
        result: Some(Side {
            address: landing,
            shape: &packed,
        }),
        ..job(&there, side, sum_of_longs())
    };
    let mut list = List::default();
    // SAFETY: operands and results are this frame's own.
    unsafe {
        assert!(list.append(&job(&there, side, Update::Replace), true));
        assert!(list.append(&fetching, false));
    }
    let found = orders(&mut list);
    let [lent, packed] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((lent.operands, lent.results), (address as usize + 8, 0));
    assert_eq!(lent.there, Layout::of(&there).expect("short"));
    assert_eq!((lent.base, lent.element_bytes), (16, 8));
    assert!(matches!(lent.update(), Some(Update::Replace)));
    assert!(matches!(packed.update(), Some(Update::Kernel(_))));
    let operands: *const [u64; 3] = ptr::with_exposed_provenance(packed.operands);
    let found: *mut [u64; 3] = ptr::with_exposed_provenance_mut(packed.results);
    // SAFETY: both are in the list, which has room for so many; this is the target's part.
    unsafe {
        assert_eq!(operands.read_unaligned(), [2, 3, 4]);
        found.write_unaligned([7, 8, 9]);
        list.land();
    }
    assert_eq!(results, [7, 8, 9]);
    list.reset();
    assert!(list.is_empty() && list.state == State::Open);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let order = Order {
        code: u32::MAX,
        element_bytes: 8,
        base: 0,
        operands: 1,
        results: 0,
        there: Layout::of(&Shape::bytes_at(0, 24)).expect("short"),
    };
    assert!(order.update().is_none(), "no such operation");
    let code = Update::Replace.code().expect("any process can");
    let without = Order {
        code,
        operands: 0,
        ..order.clone()
    };
    assert!(without.update().is_none(), "no operands");
    let odd = Order {
        code,
        element_bytes: 5,
        ..order.clone()
    };
    assert!(odd.update().is_none(), "half an element");
    let mut words = Vec::new();
    order.write(&mut words).expect("memory");
    assert!(Order::read(&words[..words.len() - 1]).is_none());
    assert!(Order::read(&words[..3]).is_none());
}

#[test]
fn a_list_that_is_full_takes_nothing_more() {
    let most = Runs::dense(8).repeated(STAGED_MAX / 16, 16);
    let most = most.expect("regular");
    let there = Shape::Runs {
        runs: &most,
        count: 1,
        extent: 0,
    };
    let mut numbers = vec![3u8; STAGED_MAX / 2];
    let dense = Shape::bytes_at(0, numbers.len());
    let side = Side {
        address: numbers.as_mut_ptr(),
        shape: &dense,
    };
    let mut list = List::default();
    // SAFETY: operands are this frame's own.
    let taken =
        [(); 3].map(|()| unsafe { list.append(&job(&there, side, Update::Replace), false) });
    assert_eq!(taken, [true, true, false]);
    let mut seen = 0;
    let outcome = list.each_job(TARGET, |job| {
        seen += 1;
        let side = job.origin.expect("operands");
        // SAFETY: packed operands, of which the first is this.
        assert_eq!(unsafe { side.address.read() }, 3);
        assert_eq!(
            (job.target, job.base, job.there.bytes()),
            (TARGET, 16, STAGED_MAX / 2)
        );
        match seen {
            1 => Ok(()),
            _ => Err(WindowError::Displacement(-1)),
        }
    });
    assert!(outcome.is_err() && seen == 2);
}

/// Both ranks of a window, whose epochs are of this `mode`, over memory of theirs that each reaches as another process's.
fn pair(memory: &mut [[u64; 16]; 2], mode: u8) -> [Arc<Window<Narrow>>; 2] {
    let shape = WindowLayout {
        ranks: 2,
        local_ranks: 2,
        rails: false,
        dynamic: false,
        operand_bytes: 0,
    };
    let bases = memory
        .each_mut()
        .map(|words| words.as_mut_ptr().expose_provenance());
    let reach = |from: u32, to: u32| {
        let address = bases[to as usize];
        let way = match from == to {
            true => Memory::Mapped(address),
            false => Memory::Attach {
                process: Cma::of(process_id()),
                address: address as u64,
            },
        };
        (128, way)
    };
    let settings = WindowSettings {
        scattered: ferrorail_base::config::Scattered::Target,
        ..WindowSettings::default()
    };
    let windows = on_one_node_over(shape, settings, reach);
    for window in &windows {
        window.mode.store(mode, Ordering::Relaxed);
    }
    windows
        .try_into()
        .unwrap_or_else(|_| unreachable!("two ranks"))
}

/// Puts three numbers into a column of rank 1's, and gets those that were there in another.
fn exchange(origin: &Window<Narrow>, numbers: &[u64; 3], into: &mut [u64; 3]) {
    let runs = column();
    let there = once(&runs);
    let dense = Shape::bytes_at(0, 24);
    let (from, into) = (numbers.as_ptr().cast(), into.as_mut_ptr().cast());
    // SAFETY: both are the caller's until it has finished the lists.
    unsafe {
        origin
            .put(from, &dense, TARGET, 8, &there)
            .expect("in order");
        origin
            .get(into, &dense, TARGET, 16, &there)
            .expect("in order");
    }
    assert_eq!(origin.counters().by_target.load(Ordering::Relaxed), 2);
    assert!(origin.hand_over_all().expect("nobody else has the list"));
    assert!(
        !origin.hand_over_all().expect("nobody else has the list"),
        "once"
    );
}

#[test]
fn a_target_carries_out_what_was_left() {
    let mut memory = [[0; 16], std::array::from_fn(|index| index as u64)];
    let [origin, target] = pair(&mut memory, active::mode::FENCE);
    let (numbers, mut found) = ([70, 80, 90], [0; 3]);
    exchange(&origin, &numbers, &mut found);
    target.serve_lists().expect("it makes sense");
    target.serve_lists().expect("nothing is left");
    assert_eq!(target.counters().for_origins.load(Ordering::Relaxed), 2);
    origin.land_all().expect("it was carried out");
    assert_eq!(found, [2, 7, 12]);
    let changed = |index| match index {
        1 => 70,
        6 => 80,
        11 => 90,
        _ => index,
    };
    assert_eq!(
        memory[1],
        std::array::from_fn(|index| changed(index as u64))
    );
}

#[test]
fn what_a_target_cannot_carry_out_is_an_error_at_both_ends() {
    let mut memory = [[0; 16]; 2];
    let [origin, target] = pair(&mut memory, active::mode::FENCE);
    let mut found = [5; 3];
    exchange(&origin, &[70, 80, 90], &mut found);
    // Nothing is at that address.
    let address = layout::left(2, 0) + layout::LEFT_ADDRESS;
    target.own_word(address).store(8, Ordering::Relaxed);
    let outcome = target.serve_lists();
    assert!(
        matches!(outcome, Err(WindowError::CrossMemory { rank: 0, .. })),
        "{outcome:?}"
    );
    let outcome = origin.land_all();
    assert!(
        matches!(outcome, Err(WindowError::ByTarget { rank: 1 })),
        "{outcome:?}"
    );
    assert_eq!((found, memory[1]), ([5; 3], [0; 16]));
}

/// Puts three numbers into a column of rank 1's, adds them to another, and gets that, under a lock.
fn exchange_locked(
    origin: &Window<Narrow>,
    numbers: &[u64; 3],
    into: &mut [u64; 3],
) -> Result<(), WindowError> {
    let runs = column();
    let there = once(&runs);
    let dense = Shape::bytes_at(0, 24);
    let from = numbers.as_ptr().cast();
    origin.lock(TARGET, Mode::Shared, false)?;
    // SAFETY: both are the caller's, and complete when the lock is given back.
    let outcome = unsafe {
        (origin.put(from, &dense, TARGET, 8, &there))
            .and_then(|()| {
                let update = sum_of_longs();
                origin.accumulate((from, &dense), None, TARGET, 16, &there, 8, update)
            })
            .and_then(|()| origin.get(into.as_mut_ptr().cast(), &dense, TARGET, 16, &there))
    };
    origin.unlock(TARGET)?;
    outcome
}

const EXCHANGED: [u64; 16] = [0, 70, 72, 3, 4, 5, 80, 87, 8, 9, 10, 90, 102, 13, 14, 15];

/// Runs `exchange_locked` while rank 1 does `waits` again and again; what became of it, and what rank 0 got.
fn exchange_while(
    [origin, target]: &[Arc<Window<Narrow>>; 2],
    waits: impl Fn(&Window<Narrow>) + Sync,
) -> (Result<(), WindowError>, [u64; 3]) {
    let is_over = AtomicBool::new(false);
    let mut found = [0; 3];
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                waits(target);
                yield_now();
            }
        });
        let outcome = exchange_locked(origin, &[70, 80, 90], &mut found);
        is_over.store(true, Ordering::Release);
        outcome
    });
    (outcome, found)
}

#[test]
fn a_target_that_waits_carries_out_what_is_offered() {
    let mut memory = [[0; 16], std::array::from_fn(|index| index as u64)];
    let windows = pair(&mut memory, active::mode::NONE);
    let (outcome, found) = exchange_while(&windows, |target| {
        if target.is_offered() {
            target.serve_offers();
        }
    });
    outcome.expect("in order");
    assert_eq!((found, memory[1]), ([72, 87, 102], EXCHANGED));
    let [origin, target] = windows.each_ref().map(|window| window.counters());
    assert_eq!(origin.by_target.load(Ordering::Relaxed), 3);
    assert_eq!(target.for_origins.load(Ordering::Relaxed), 3);
}

#[test]
fn an_origin_takes_back_what_its_target_does_not_claim() {
    let mut memory = [[0; 16], std::array::from_fn(|index| index as u64)];
    let windows = pair(&mut memory, active::mode::NONE);
    let (outcome, found) = exchange_while(&windows, |_| ());
    outcome.expect("in order");
    assert_eq!((found, memory[1]), ([72, 87, 102], EXCHANGED));
    let [origin, target] = &windows;
    assert_eq!(origin.counters().by_target.load(Ordering::Relaxed), 0);
    // Two were offered, and then one was not.
    let offers = target.own_word(layout::offers(2));
    assert_eq!(offers.load(Ordering::Relaxed), 2);
    // What was taken back is nobody's to carry out.
    assert!(target.is_offered());
    target.serve_offers();
    assert!(!target.is_offered());
    assert_eq!(target.counters().for_origins.load(Ordering::Relaxed), 0);
}

#[test]
fn an_offer_that_makes_no_sense_fails_at_its_origin() {
    let mut memory = [[0; 16]; 2];
    let windows = pair(&mut memory, active::mode::NONE);
    let (outcome, found) = exchange_while(&windows, |target| {
        if target.is_offered() {
            // Nothing is at that address.
            let address = layout::left(2, 0) + layout::LEFT_ADDRESS;
            target.own_word(address).store(8, Ordering::Relaxed);
            target.serve_offers();
        }
    });
    assert!(
        matches!(outcome, Err(WindowError::ByTarget { rank: 1 })),
        "{outcome:?}"
    );
    assert_eq!((found, memory[1]), ([0; 3], [0; 16]));
}
