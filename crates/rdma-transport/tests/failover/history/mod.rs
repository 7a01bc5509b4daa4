//! Histories in virtual time: two sides exchange rounds, and put, read and add words at each other, while the network
//! loses what it likes. Nothing is lost or done twice, and every history ends.

mod network;
mod side;
mod transport;

use ferrorail_base::config::Settings;
use ferrorail_base::random::SplitMix64;
use ferrorail_base::sync::Mutex;
use ferrorail_rdma_transport::failover::Failover;
use network::{GIVE_UP, Gap, Network, RAILS, RESEND};
use side::Side;
use std::sync::Arc;
use std::time::Duration;
use transport::{Virtual, VirtualClock};

/// Histories of each test.
const HISTORIES: u64 = 150;
const STEP: Duration = Duration::from_millis(1);
/// When the last failure begins.
const BUSY: u64 = 1200;
/// Until when every history has ended.
const LIMIT: Duration = Duration::from_secs(20);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A history: what fails, and who looks when.
struct History {
    seed: u64,
    gaps: Vec<Gap>,
    atomics: bool,
    /// Whether programs do something else at times.
    absences: bool,
}

/// Names the history that fails.
struct Playing(u64);

impl Drop for Playing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in history {}", self.0);
        }
    }
}

/// What came of it.
#[derive(Debug, Default)]
struct Outcome {
    /// Atomics that may have taken effect or not.
    unknown: u64,
    /// Whether a side was told that no rail is left.
    unreachable: bool,
    /// The longest time without a round.
    pause: Duration,
    failures: u64,
}

impl History {
    fn new(seed: u64, gaps: Vec<Gap>) -> Self {
        Self {
            seed,
            gaps,
            atomics: seed.is_multiple_of(2),
            absences: true,
        }
    }

    fn play(self) -> Outcome {
        let seed = self.seed;
        let _playing = Playing(seed);
        let mut random = SplitMix64(!seed);
        let delay = [(); RAILS].map(|()| Duration::from_micros(50 + random.below(2500)));
        let network = Network::new(seed, delay, self.gaps);
        let network = Arc::new(Mutex::new(network));
        let settings = Settings {
            rail_timeout_ms: GIVE_UP.as_millis() as u64,
            rail_suspect_ms: Some(40),
            rail_probe_ms: Some(20),
            ..Settings::default()
        };
        let mut sides = [0, 1].map(|side| {
            let process = crate::conformance::process(1 + side as u64);
            let rails = Arc::new(Virtual::new(side, network.clone()));
            let clock = Box::new(VirtualClock(rails.clone()));
            let rails = Failover::with_clock(rails, process, &settings, clock);
            Side::new(
                rails,
                2 - side as u64,
                random.draw(),
                (self.atomics, self.absences),
            )
        });
        Side::connect(&mut sides);
        let mut outcome = Outcome::default();
        let (mut last, mut progressed) = (u64::MAX, Duration::ZERO);
        loop {
            let (now, said) = {
                let mut network = network.lock();
                network.advance(STEP);
                (network.now, [0, 1].map(|side| network.down(side)))
            };
            let before = sides[0].received;
            for (side, said) in sides.iter_mut().zip(said) {
                side.step(now, last, said);
            }
            if sides[0].received != before {
                outcome.pause = outcome.pause.max(now - progressed);
                progressed = now;
            }
            if last == u64::MAX && now >= ms(BUSY) {
                last = 1 + sides[0].sent.max(sides[1].sent);
            }
            if sides.iter().all(|side| side.is_over(last)) {
                break;
            }
            assert!(now < LIMIT, "it stands still: {sides:?}");
        }
        outcome.unreachable = sides.iter().any(|side| side.unreachable);
        outcome.unknown = sides.iter().map(|side| side.unknown).sum();
        outcome.failures = sides.iter().map(Side::failures).sum();
        // What is late must land nowhere.
        network.lock().advance(ms(500));
        let [a, b] = &sides;
        a.verify(b);
        b.verify(a);
        outcome
    }
}

/// Gaps shorter than devices take to give up, lost packets and ports that go down for a moment, on any lane at any time.
fn transient(random: &mut SplitMix64) -> Vec<Gap> {
    let mut gaps = Vec::new();
    // All together no device gives up.
    let mut left = GIVE_UP.as_millis() as u64 - 200;
    for _ in 0..random.below(8) {
        let from = ms(random.below(BUSY));
        let (side, rail) = (random.below(2) as usize, random.below(2) as usize);
        let (once, said) = (random.below(2) == 0, random.below(4) == 0);
        let longest = left.saturating_sub(RESEND.as_millis() as u64).min(250);
        if longest == 0 {
            break;
        }
        let lasts = 1 + random.below(longest);
        left -= lasts.max(RESEND.as_millis() as u64);
        let lasts = ms(lasts);
        let gap = Gap {
            side,
            rail,
            from,
            until: from + lasts,
            once,
            said: said && !once,
        };
        gaps.push(gap);
        // Both ways, or at the same time on the other lane and the other way.
        match random.below(3) {
            0 => gaps.push(Gap {
                side: 1 - side,
                said: gap.said && random.below(2) == 0,
                ..gap
            }),
            1 => gaps.push(Gap {
                side: 1 - side,
                rail: 1 - rail,
                said: gap.said && random.below(2) == 0,
                from: from + ms(random.below(20)),
                ..gap
            }),
            _ => {}
        }
    }
    gaps
}

/// No device gives anything up, so that nothing may be reported as failed: no atomic, and no last rail.
#[test]
fn suspicion_costs_nothing_that_was_alive() {
    let mut failures = 0;
    for seed in 0..HISTORIES {
        let gaps = transient(&mut SplitMix64(seed));
        let outcome = History::new(seed, gaps).play();
        assert!(!outcome.unreachable, "history {seed}: no lane was left");
        assert_eq!(outcome.unknown, 0, "history {seed}: an atomic was lost");
        failures += outcome.failures;
    }
    assert!(failures > HISTORIES, "{failures} lanes were left");
}

/// One rail loses everything, for a time or for good.
fn lost_rail(random: &mut SplitMix64) -> Gap {
    Gap {
        side: random.below(2) as usize,
        rail: random.below(2) as usize,
        from: ms(200 + random.below(300)),
        until: ms(600 + random.below(3) * 800),
        once: false,
        said: random.below(4) == 0,
    }
}

/// The longest time without a round in a history of programs that do nothing else.
fn pause_with(seed: u64, gaps: Vec<Gap>) -> Duration {
    let history = History {
        atomics: false,
        absences: false,
        ..History::new(seed, gaps)
    };
    let outcome = history.play();
    assert!(!outcome.unreachable && outcome.failures >= 2);
    outcome.pause
}

/// One rail loses everything, one way or both.
#[test]
fn a_lost_rail_is_a_short_pause() {
    let longest = (0..HISTORIES).map(|seed| {
        let mut random = SplitMix64(seed);
        let gap = lost_rail(&mut random);
        let mut gaps = vec![gap];
        if random.below(2) == 0 {
            gaps.push(Gap {
                side: 1 - gap.side,
                said: random.below(4) == 0,
                ..gap
            });
        }
        pause_with(seed, gaps)
    });
    let longest = longest.max().unwrap();
    assert!(longest < ms(150), "{longest:?}");
}

/// A device says that its port is down, at one side or at both: the sides agree, read what has arrived and do the
/// rest again, in round trips of up to 5 ms.
#[test]
fn a_port_that_is_down_is_a_pause_of_a_few_round_trips() {
    let longest = (0..HISTORIES).map(|seed| {
        let mut random = SplitMix64(seed);
        let mut gap = lost_rail(&mut random);
        gap.said = true;
        let mut gaps = vec![gap];
        if random.below(2) == 0 {
            gaps.push(Gap {
                side: 1 - gap.side,
                ..gap
            });
        }
        pause_with(seed, gaps)
    });
    let longest = longest.max().unwrap();
    assert!(longest < ms(30), "{longest:?}");
}

/// Devices do give up, also the last rail, and lanes come back or do not: every history ends, and what is reported as
/// done is done once.
#[test]
fn every_history_ends() {
    for seed in 0..HISTORIES {
        let mut random = SplitMix64(seed);
        let mut gaps = transient(&mut random);
        for _ in 0..=random.below(3) {
            let gap = Gap {
                side: random.below(2) as usize,
                rail: random.below(2) as usize,
                from: ms(random.below(BUSY)),
                until: ms(BUSY + random.below(3000)),
                once: false,
                said: random.below(4) == 0,
            };
            gaps.push(gap);
            if random.below(2) == 0 {
                gaps.push(Gap {
                    side: 1 - gap.side,
                    ..gap
                });
            }
        }
        History::new(seed, gaps).play();
    }
}
