//! What was measured of the machine, and what follows for cells.

use super::copies::{Loop, Messages};
use crate::bench::mode::Reuse;
use crate::bench::timing::Timing;
use ferrorail_base::units::format_bytes;
use serde_json::{Value, json};

/// Bytes of a block of which bounds of latency are.
const SHORT: usize = 8;

/// Times of ranks 0 and 1, in blocks.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Cores that the ranks share; `None` if the job has several hosts.
    pub cores: Option<u32>,
    /// A cache line from one to the other and back.
    pub round_trip: Timing,
    /// What long collectives have to copy.
    pub copies: Vec<Copies>,
    /// From one to the other on one core, where they may share one.
    pub switch: Option<Timing>,
}

/// One loop with one kind of messages.
#[derive(Clone, Debug)]
pub struct Copies {
    pub which: Loop,
    pub messages: Messages,
    /// Where the system allows it.
    pub timing: Option<Timing>,
}

/// One number, as it is shown.
struct Quantity<'a> {
    /// In JSON.
    name: &'static str,
    /// For readers.
    what: &'static str,
    /// None for what has no length.
    messages: Option<Messages>,
    unit: Unit,
    /// None where the system does not allow it.
    timing: Option<&'a Timing>,
}

/// What a number counts.
#[derive(Clone, Copy)]
enum Unit {
    Nanoseconds,
    Microseconds,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
        }
    }

    /// Of an iteration of `us` microseconds.
    fn value(self, us: f64) -> f64 {
        match self {
            Self::Nanoseconds => us * 1e3,
            Self::Microseconds => us,
        }
    }
}

impl Quantity<'_> {
    fn line(&self) -> String {
        let messages = self.messages.map_or(String::new(), |messages| {
            let bytes = format_bytes(messages.bytes as u64);
            format!(", {bytes}, {} buffers", messages.buffers())
        });
        let values = match self.timing {
            None => "not allowed".to_owned(),
            Some(timing) => {
                let [median, best] = [timing.median_us(), timing.min_us()];
                let [median, best] = [median, best].map(|us| self.unit.value(us));
                format!("{median:.3} {}, best {best:.3}", self.unit.name())
            }
        };
        format!(
            "# Bounds of this machine, ranks 0 and 1: {}{messages}: {values}",
            self.what
        )
    }

    fn json(&self) -> Value {
        let value = |us: fn(&Timing) -> f64| self.timing.map(|timing| self.unit.value(us(timing)));
        json!({
            "name": self.name,
            "bytes": self.messages.map(|messages| messages.bytes),
            "buffers": self.messages.map(Messages::buffers),
            "unit": self.unit.name(),
            "median": value(Timing::median_us),
            "best": value(Timing::min_us),
        })
    }
}

impl Bounds {
    fn quantities(&self) -> Vec<Quantity<'_>> {
        let time = |(name, what), unit, timing| Quantity {
            name,
            what,
            messages: None,
            unit,
            timing,
        };
        let copies = self.copies.iter().map(|copies| Quantity {
            name: copies.which.name(),
            what: copies.which.what(),
            messages: Some(copies.messages),
            unit: Unit::Microseconds,
            timing: copies.timing.as_ref(),
        });
        let round_trip = ("round_trip", "round trip of a cache line");
        let switch = ("switch", "context switch, by yields on one core");
        let mut all = vec![time(round_trip, Unit::Nanoseconds, Some(&self.round_trip))];
        all.extend(copies);
        all.push(time(switch, Unit::Microseconds, self.switch.as_ref()));
        all
    }

    /// A line about each number.
    pub fn lines(&self) -> Vec<String> {
        self.quantities().iter().map(Quantity::line).collect()
    }

    /// All numbers, for reports.
    pub fn json(&self) -> Value {
        json!({
            "cores": self.cores,
            "quantities": self.quantities().iter().map(Quantity::json).collect::<Vec<_>>(),
        })
    }

    /// Microseconds that a call of `collective` takes at least, with blocks (of a broadcast, a vector) of `bytes` in
    /// buffers as `reuse` has them; `None` where nothing follows. `ranks` are the first of the job.
    ///
    /// Each is of the best blocks: what the machine was seen to do.
    pub fn least_us(
        &self,
        collective: &str,
        ranks: usize,
        bytes: usize,
        reuse: Reuse,
    ) -> Option<f64> {
        match (collective, bytes) {
            ("allgather", SHORT) => self.least_short_us(ranks),
            _ if ranks == 2 => self.least_long_us(collective, bytes, reuse),
            _ => None,
        }
    }

    /// Of an all-gather of [`SHORT`] blocks.
    fn least_short_us(&self, ranks: usize) -> Option<f64> {
        let cores = self.cores.map(|cores| cores as usize);
        if let Some(cores) = cores.filter(|&cores| ranks > cores) {
            // Every rank has to have run before any can finish; who runs last on a core may begin the next call.
            let switches = (ranks.div_ceil(cores) - 1) as f64;
            return self
                .switch
                .as_ref()
                .map(|switch| switches * switch.min_us());
        }
        // Both lines cross at the same time: half of what a line there and then another back take.
        (ranks == 2).then(|| self.round_trip.min_us() / 2.0)
    }

    /// Of two ranks: the better of the ways across.
    fn least_long_us(&self, collective: &str, bytes: usize, reuse: Reuse) -> Option<f64> {
        let messages = Messages::like(bytes, reuse)?;
        let copies = self.copies.iter().filter(|copies| {
            copies.messages == messages && copies.which.collective() == collective
        });
        let least = copies
            .filter_map(|copies| copies.timing.as_ref())
            .map(Timing::min_us);
        let least = least.min_by(f64::total_cmp)?;
        Some(least * bytes as f64 / messages.bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loops take so long with 1 MB in warm buffers, twice as long in rotating ones, and five times with 4 MB.
    fn bounds() -> Bounds {
        let timing = |us: f64| Timing::of(&[3.0 * us, us, 2.0 * us]);
        let us = [100.0, 80.0, 180.0, 210.0, 190.0, 220.0];
        let kinds = [(1, false, 1.0), (1, true, 2.0), (4, false, 5.0)];
        let copies = kinds.iter().flat_map(|&(mib, rotate, factor)| {
            let messages = Messages {
                bytes: mib << 20,
                rotate,
            };
            let timings = us.map(|us| Some(timing(factor * us)));
            let loops = Loop::ALL.into_iter().zip(timings);
            loops.map(move |(which, timing)| Copies {
                which,
                messages,
                timing,
            })
        });
        Bounds {
            cores: Some(4),
            round_trip: timing(0.2),
            copies: copies.collect(),
            switch: Some(timing(1.5)),
        }
    }

    fn without_attach() -> Bounds {
        let mut bounds = bounds();
        let attaching = bounds.copies.iter_mut();
        for copies in attaching.filter(|copies| copies.which.attaches()) {
            copies.timing = None;
        }
        bounds
    }

    #[test]
    fn short_all_gathers_are_bounded_by_a_line_or_by_switches() {
        let bounds = bounds();
        let least = |ranks, bytes| bounds.least_us("allgather", ranks, bytes, Reuse::Warm);
        assert_eq!(least(2, 8), Some(0.1));
        assert_eq!((least(4, 8), least(2, 16), least(1, 8)), (None, None, None));
        assert_eq!((least(5, 8), least(9, 8)), (Some(1.5), Some(3.0)));
        assert_eq!(bounds.least_us("bcast", 2, 8, Reuse::Warm), None);
        let on = |cores| Bounds {
            cores,
            ..bounds.clone()
        };
        let short = |bounds: &Bounds, ranks| bounds.least_us("allgather", ranks, 8, Reuse::Warm);
        assert_eq!(short(&on(Some(1)), 2), Some(1.5));
        assert_eq!(short(&on(None), 9), None);
        let unpinned = Bounds {
            switch: None,
            ..on(Some(1))
        };
        assert_eq!(short(&unpinned, 2), None);
    }

    #[test]
    fn long_messages_are_bounded_by_the_better_way_across() {
        for (collective, either, rings_only) in [
            ("bcast", Some(80.0), Some(100.0)),
            ("allgather", Some(180.0), Some(180.0)),
            ("alltoall", Some(190.0), Some(190.0)),
            ("gather", None, None),
        ] {
            for (bounds, least) in [(bounds(), either), (without_attach(), rings_only)] {
                let bound = |ranks, bytes, reuse| bounds.least_us(collective, ranks, bytes, reuse);
                let times = |factor: f64| least.map(|us| us * factor);
                assert_eq!(bound(2, 1 << 20, Reuse::Warm), least);
                assert_eq!(bound(2, 2 << 20, Reuse::Warm), times(2.0));
                assert_eq!(bound(2, 8 << 20, Reuse::Warm), times(10.0));
                assert_eq!(bound(2, 3 << 20, Reuse::Rotating), times(6.0));
                assert_eq!(bound(2, 1 << 20, Reuse::Dirty), times(2.0));
                assert_eq!(bound(2, 4 << 20, Reuse::Rotating), None, "not measured");
                assert_eq!(bound(3, 2 << 20, Reuse::Warm), None);
                assert_eq!(bound(2, (1 << 20) - 8, Reuse::Warm), None);
            }
        }
    }

    #[test]
    fn every_number_has_a_line_with_its_unit() {
        let bounds = without_attach();
        let prefix = "# Bounds of this machine, ranks 0 and 1: ";
        let lines = bounds.lines();
        let lines: Vec<&str> = lines
            .iter()
            .map(|line| line.strip_prefix(prefix).unwrap())
            .collect();
        let expected = [
            "round trip of a cache line: 400.000 ns, best 200.000",
            "broadcast through a ring, 1M, warm buffers: 200.000 us, best 100.000",
            "broadcast by cross-memory attach, 1M, warm buffers: not allowed",
            "all-gather through rings, 1M, warm buffers: 360.000 us, best 180.000",
            "all-gather by cross-memory attach, 1M, warm buffers: not allowed",
        ];
        assert_eq!(lines[..5], expected);
        let switch = "context switch, by yields on one core: 3.000 us, best 1.500";
        assert_eq!((lines.len(), lines[19]), (20, switch));
        let rotating = "broadcast through a ring, 1M, rotating buffers: 400.000 us, best 200.000";
        assert_eq!(lines[7], rotating);
        let report = bounds.json();
        assert_eq!(report["cores"], 4);
        let quantities = report["quantities"].as_array().unwrap();
        assert_eq!(quantities.len(), lines.len());
        assert_eq!(quantities[0]["bytes"], Value::Null);
        assert_eq!(
            quantities[7],
            json!({
                "name": "bcast_ring", "bytes": 1 << 20, "buffers": "rotating",
                "unit": "us", "median": 400.0, "best": 200.0,
            })
        );
        assert_eq!(quantities[4]["best"], Value::Null);
    }
}
