//! Runs tests on several lanes at a time and keeps the tally.

use crate::Setup;
use anyhow::Result;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What runs a test.
pub type Act<'a> = Box<dyn Fn(&Setup) -> Result<()> + Send + Sync + 'a>;

/// What a test takes of the machine. Ranks that wait look around for a while before they sleep, and know
/// nothing of other jobs' ranks: two busy jobs at a time take longer than one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The cores, but for starting and ending what is short; two such tests run at a time, and no busy one.
    Light,
    /// The cores; one such test runs at a time.
    Busy,
    /// Next to nothing: it waits most of the time. Several run at a time, beside a busy one.
    Asleep,
    /// It disturbs others, or they disturb it.
    Alone,
}

/// One test that counts.
pub struct Item<'a> {
    /// Its name in the log.
    pub name: &'a str,
    /// How long it is expected to take, in any unit.
    pub weight: u64,
    /// What it takes of the machine.
    pub load: Load,
    /// Runs it; the setup is the lane's own.
    pub run: Act<'a>,
}

/// What came of the tests.
pub struct Tally {
    verbose: bool,
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    times: Vec<(Duration, String)>,
}

/// How many of the slowest tests are listed.
const SLOWEST: usize = 10;

impl Tally {
    /// Of no test yet; a verbose one prints a line for tests that pass too.
    pub fn new(verbose: bool) -> Self {
        Self {
            verbose,
            passed: 0,
            failed: 0,
            times: Vec::new(),
        }
    }

    /// Counts one test and prints its line.
    pub fn count(&mut self, name: &str, elapsed: Duration, outcome: &Result<()>) {
        let seconds = elapsed.as_secs_f64();
        match outcome {
            Ok(()) => {
                self.passed += 1;
                if self.verbose {
                    println!("ok   {name} ({seconds:.1} s)");
                }
            }
            Err(error) => {
                self.failed += 1;
                println!("FAIL {name} ({seconds:.1} s): {error:#}");
            }
        }
        self.times.push((elapsed, name.to_owned()));
    }

    /// Prints the slowest tests and the totals; whether all passed.
    pub fn finish(mut self) -> bool {
        self.times.sort_by(|a, b| b.cmp(a));
        for (elapsed, name) in self.times.iter().take(SLOWEST) {
            println!("slow {name} ({:.1} s)", elapsed.as_secs_f64());
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        self.failed == 0
    }
}

/// Light tests at a time.
const LIGHT: usize = 2;

/// Tests that may be asleep at a time.
const SLEEPERS: usize = 3;

/// Runs all `items` as their loads allow; `together` false: one after the other.
pub fn run(setup: &Setup, together: bool, mut items: Vec<Item>, tally: &mut Tally) {
    // The next one is taken from the end: of the busy ones the light first, as those that are asleep do take
    // something of the cores; of these the longest first.
    items.sort_by_key(|item| match item.load {
        Load::Asleep => item.weight,
        Load::Light | Load::Busy | Load::Alone => u64::MAX - item.weight,
    });
    let (alone, items): (Vec<_>, Vec<_>) = items.into_iter().partition(|i| i.load == Load::Alone);
    let (asleep, items): (Vec<_>, Vec<_>) = items.into_iter().partition(|i| i.load == Load::Asleep);
    let (light, busy): (Vec<_>, Vec<_>) = items.into_iter().partition(|i| i.load == Load::Light);
    let tally = Mutex::new(tally);
    if together {
        std::thread::scope(|scope| {
            scope.spawn(|| run_on(setup, LIGHT..LIGHT + SLEEPERS, asleep, &tally));
            run_on(setup, 0..LIGHT, light, &tally);
            run_on(setup, 0..1, busy, &tally);
        });
    } else {
        run_on(setup, 0..1, light, &tally);
        run_on(setup, 0..1, busy, &tally);
        run_on(setup, 0..1, asleep, &tally);
    }
    run_on(setup, 0..1, alone, &tally);
}

/// Runs the items, the last one first, on these lanes.
fn run_on(setup: &Setup, lanes: Range<usize>, items: Vec<Item>, shared: &Mutex<&mut Tally>) {
    let queue = Mutex::new(items);
    let work = |lane: usize| {
        let setup = Setup {
            lane,
            ..setup.clone()
        };
        loop {
            // The queue is free again before the item runs.
            let item = queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(item) = item else { break };
            let start = Instant::now();
            let outcome = (item.run)(&setup);
            let mut tally = shared.lock().unwrap_or_else(PoisonError::into_inner);
            tally.count(item.name, start.elapsed(), &outcome);
        }
    };
    std::thread::scope(|scope| {
        for lane in lanes {
            let work = &work;
            scope.spawn(move || work(lane));
        }
    });
}

/// Calls `act` with each of `inputs`, on as many threads as there are lanes; the first error.
pub fn each<T: Sync>(
    lanes: usize,
    inputs: &[T],
    act: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    let queue = Mutex::new(inputs.iter());
    let errors = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..lanes.max(1) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(input) = next else { break };
                    if let Err(error) = act(input) {
                        errors
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(error);
                    }
                }
            });
        }
    });
    let errors = errors.into_inner().unwrap_or_else(PoisonError::into_inner);
    errors.into_iter().next().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use std::path::PathBuf;

    fn setup() -> Setup {
        Setup {
            root: PathBuf::new(),
            library: None,
            command: PathBuf::new(),
            work: PathBuf::new(),
            lane: 0,
            abi_prefix: PathBuf::new(),
            mpi4py: PathBuf::new(),
            hosts: Vec::new(),
            seed: 1,
            failures: 0,
            extent: crate::Extent::List,
            ran: std::sync::Arc::default(),
        }
    }

    #[test]
    fn light_ones_start_first_and_those_that_run_alone_last() {
        let started = &Mutex::new(Vec::new());
        let item = |name: &'static str, weight, load| Item {
            name,
            weight,
            load,
            run: Box::new(move |_: &Setup| {
                started.lock().unwrap().push(name);
                match name {
                    "long" => bail!("as it must"),
                    _ => Ok(()),
                }
            }),
        };
        let items = vec![
            item("alone", 9, Load::Alone),
            item("short", 1, Load::Busy),
            item("long", 5, Load::Busy),
            item("alone for long", 10, Load::Alone),
        ];
        let mut tally = Tally::new(false);
        run(&setup(), true, items, &mut tally);
        assert_eq!((tally.passed, tally.failed), (3, 1));
        assert!(!tally.finish());
        let order = ["short", "long", "alone", "alone for long"];
        assert_eq!(*started.lock().unwrap(), order);
    }

    #[test]
    fn sleepers_run_beside_a_busy_one() {
        let meet = std::sync::Barrier::new(3);
        let item = |name, load| Item {
            name,
            weight: 1,
            load,
            run: Box::new(|_: &Setup| {
                meet.wait();
                Ok(())
            }),
        };
        let items = vec![
            item("busy", Load::Busy),
            item("a", Load::Asleep),
            item("b", Load::Asleep),
        ];
        let mut tally = Tally::new(false);
        run(&setup(), true, items, &mut tally);
        assert_eq!((tally.passed, tally.failed), (3, 0));
    }

    #[test]
    fn an_error_of_any_input_is_told() {
        let odd = |n: &u32| {
            if n % 2 == 1 {
                Ok(())
            } else {
                bail!("{n} is even")
            }
        };
        assert!(each(2, &[1, 3, 5], odd).is_ok());
        assert_eq!(
            each(2, &[1, 4, 5], odd).unwrap_err().to_string(),
            "4 is even"
        );
    }
}
