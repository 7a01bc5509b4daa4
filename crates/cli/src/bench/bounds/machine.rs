//! What was measured of the machine, and what follows for cells.

use crate::bench::timing::Timing;
use ferrorail_base::units::format_bytes;
use serde_json::{Value, json};

/// Messages whose copies are timed, in bytes.
pub const SIZES: [usize; 2] = [64 << 10, 1 << 20];
/// Bytes of a block of which bounds of latency are.
const SHORT: usize = 8;

/// Times of ranks 0 and 1, in blocks.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Cores that the ranks share; `None` if the job has several hosts.
    pub cores: Option<u32>,
    /// A cache line from one to the other and back.
    pub round_trip: Timing,
    /// Through a ring, one copying in, the other out; a message of each of [`SIZES`].
    pub one_way: [Timing; 2],
    /// The same both ways at once.
    pub exchange: [Timing; 2],
    /// Each reading the other's memory, where that is allowed.
    pub attach: Option<[Timing; 2]>,
    /// Each copying within its own memory, the longer of [`SIZES`].
    pub own_copy: Timing,
    /// From one to the other on one core, where they may share one.
    pub switch: Option<Timing>,
}

/// What a number counts.
#[derive(Clone, Copy)]
enum Unit {
    Nanoseconds,
    Microseconds,
    /// 10^9 bytes per second, with so many bytes moved in each iteration.
    Gigabytes(usize),
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Gigabytes(_) => "GB/s",
        }
    }

    /// Of an iteration of `us` microseconds.
    fn value(self, us: f64) -> f64 {
        match self {
            Self::Nanoseconds => us * 1e3,
            Self::Microseconds => us,
            Self::Gigabytes(bytes) => bytes as f64 / us / 1e3,
        }
    }
}

/// One number, as it is shown.
struct Quantity<'a> {
    /// In JSON.
    name: &'static str,
    /// For readers.
    what: &'static str,
    /// Of a message; none for what has no length.
    bytes: Option<usize>,
    unit: Unit,
    /// None where the system does not allow it.
    timing: Option<&'a Timing>,
}

impl Quantity<'_> {
    fn line(&self) -> String {
        let bytes = self.bytes.map_or(String::new(), |bytes| {
            format!(", {}", format_bytes(bytes as u64))
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
            "# Bounds of this machine, ranks 0 and 1: {}{bytes}: {values}",
            self.what
        )
    }

    fn json(&self) -> Value {
        let value = |us: fn(&Timing) -> f64| self.timing.map(|timing| self.unit.value(us(timing)));
        json!({
            "name": self.name,
            "bytes": self.bytes,
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
            bytes: None,
            unit,
            timing,
        };
        let copies = |(name, what, ways), index: usize, timing| Quantity {
            name,
            what,
            bytes: Some(SIZES[index]),
            unit: Unit::Gigabytes(ways * SIZES[index]),
            timing,
        };
        let round_trip = ("round_trip", "round trip of a cache line");
        let one_way = ("one_way", "copy through a ring, one way", 1);
        let exchange = ("exchange", "copies through rings, both ways together", 2);
        let attach = ("cross_memory", "cross-memory attach, both ways together", 2);
        let own_copy = ("own_copy", "copy in own memory, each while both do", 1);
        let switch = ("switch", "context switch, by yields on one core");
        let attached = |index| self.attach.as_ref().map(|both: &[Timing; 2]| &both[index]);
        let mut all = vec![time(round_trip, Unit::Nanoseconds, Some(&self.round_trip))];
        all.extend([0, 1].map(|index| copies(one_way, index, Some(&self.one_way[index]))));
        all.extend([0, 1].map(|index| copies(exchange, index, Some(&self.exchange[index]))));
        all.extend([0, 1].map(|index| copies(attach, index, attached(index))));
        all.push(copies(own_copy, 1, Some(&self.own_copy)));
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

    /// Microseconds that a call of `collective` takes at least, with blocks (of a broadcast, a vector) of `bytes`;
    /// `None` where nothing follows. `ranks` are the first of the job.
    ///
    /// Each is of the best blocks: what the machine was seen to do.
    pub fn least_us(&self, collective: &str, ranks: usize, bytes: usize) -> Option<f64> {
        let least = |timing: &Timing| timing.min_us();
        if (collective, bytes) == ("allgather", SHORT) {
            let cores = self.cores.map(|cores| cores as usize);
            if let Some(cores) = cores.filter(|&cores| ranks > cores) {
                // Every rank has to have run before any can finish.
                let turns = ranks.div_ceil(cores) as f64;
                return self.switch.as_ref().map(|switch| turns * least(switch));
            }
            // Both lines cross at the same time: half of what a line there and then another back take.
            return (ranks == 2).then(|| least(&self.round_trip) / 2.0);
        }
        let [_, long] = SIZES;
        if ranks != 2 || bytes < long {
            return None;
        }
        // Of 1 MB each way, each rank copying one of them; of 1 MB one way, each copying half of it.
        let attach = self
            .attach
            .as_ref()
            .map_or(f64::INFINITY, |both| least(&both[1]));
        let per_long_us = match collective {
            "bcast" => least(&self.one_way[1]).min(attach / 2.0),
            "allgather" | "alltoall" => {
                least(&self.exchange[1]).min(attach) + least(&self.own_copy)
            }
            _ => return None,
        };
        Some(per_long_us * bytes as f64 / long as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Bounds {
        let timing = |us: f64| Timing::of(&[3.0 * us, us, 2.0 * us]);
        let both = |us: f64| [timing(us / 16.0), timing(us)];
        Bounds {
            cores: Some(4),
            round_trip: timing(0.2),
            one_way: both(100.0),
            exchange: both(180.0),
            attach: Some(both(160.0)),
            own_copy: timing(50.0),
            switch: Some(timing(1.5)),
        }
    }

    #[test]
    fn short_all_gathers_are_bounded_by_a_line_or_by_switches() {
        let bounds = bounds();
        let least = |ranks, bytes| bounds.least_us("allgather", ranks, bytes);
        assert_eq!(least(2, 8), Some(0.1));
        assert_eq!((least(4, 8), least(2, 16), least(1, 8)), (None, None, None));
        assert_eq!((least(5, 8), least(9, 8)), (Some(3.0), Some(4.5)));
        assert_eq!(bounds.least_us("bcast", 2, 8), None);
        let on = |cores| Bounds {
            cores,
            ..bounds.clone()
        };
        assert_eq!(on(Some(1)).least_us("allgather", 2, 8), Some(3.0));
        assert_eq!(on(None).least_us("allgather", 9, 8), None);
        let unpinned = Bounds {
            switch: None,
            ..on(Some(1))
        };
        assert_eq!(unpinned.least_us("allgather", 2, 8), None);
    }

    #[test]
    fn long_messages_are_bounded_by_the_better_way_across() {
        let bounds = bounds();
        let no_attach = Bounds {
            attach: None,
            ..bounds.clone()
        };
        for (collective, either, ring_only) in [
            ("bcast", Some(160.0), Some(200.0)),
            ("allgather", Some(420.0), Some(460.0)),
            ("alltoall", Some(420.0), Some(460.0)),
            ("gather", None, None),
        ] {
            assert_eq!(bounds.least_us(collective, 2, 2 << 20), either);
            assert_eq!(no_attach.least_us(collective, 2, 2 << 20), ring_only);
            assert_eq!(bounds.least_us(collective, 3, 2 << 20), None);
            assert_eq!(bounds.least_us(collective, 2, (1 << 20) - 8), None);
        }
    }

    #[test]
    fn every_number_has_a_line_with_its_unit() {
        let bounds = Bounds {
            attach: None,
            ..bounds()
        };
        let prefix = "# Bounds of this machine, ranks 0 and 1: ";
        let lines = bounds.lines();
        let lines: Vec<&str> = lines
            .iter()
            .map(|line| line.strip_prefix(prefix).unwrap())
            .collect();
        let expected = [
            "round trip of a cache line: 400.000 ns, best 200.000",
            "copy through a ring, one way, 64K: 5.243 GB/s, best 10.486",
            "copy through a ring, one way, 1M: 5.243 GB/s, best 10.486",
            "copies through rings, both ways together, 64K: 5.825 GB/s, best 11.651",
            "copies through rings, both ways together, 1M: 5.825 GB/s, best 11.651",
            "cross-memory attach, both ways together, 64K: not allowed",
            "cross-memory attach, both ways together, 1M: not allowed",
            "copy in own memory, each while both do, 1M: 10.486 GB/s, best 20.972",
            "context switch, by yields on one core: 3.000 us, best 1.500",
        ];
        assert_eq!(lines, expected);
        let report = bounds.json();
        assert_eq!(report["cores"], 4);
        let quantities = report["quantities"].as_array().unwrap();
        assert_eq!(quantities.len(), expected.len());
        assert_eq!(quantities[1]["name"], "one_way");
        assert_eq!(quantities[1]["bytes"], 65536);
        assert_eq!(quantities[5]["best"], Value::Null);
        assert_eq!(
            (&quantities[8]["median"], &quantities[8]["unit"]),
            (&json!(3.0), &json!("us"))
        );
    }
}
