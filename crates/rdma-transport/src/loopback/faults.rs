//! Faults of modelled rails, for tests of what must survive them: `FERRORAIL_LOOPBACK_FAULTS`.
//!
//! `rail:kind[:after=OPERATIONS][:for=MS][:every=OPERATIONS]`, several separated by commas. A fault
//! begins with the rail's operation number `after` (0), lasts `for` milliseconds (0: for ever), and
//! comes again after every so many operations more.
//!
//! * `down`: nothing gets through. What waits longer than `FERRORAIL_RAIL_TIMEOUT` breaks its lane.
//! * `mute`: operations take effect, but their completions are lost, which breaks the lane.
//! * `late`: as `down`, but what broke its lane takes effect when the fault ends, as packets do that
//!   were held up in a network, unless the target has ended the lane by then.

use ferrorail_fabric::RailInfo;
use std::time::{Duration, Instant};

/// What befalls a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing gets through.
    Down,
    /// Completions are lost.
    Mute,
    /// What fails takes effect afterwards.
    Late,
}

/// One fault of one rail.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    kind: Kind,
    after: u64,
    lasts: Option<Duration>,
    every: Option<u64>,
    /// End of the present occurrence, while there is one; `None` inside is never.
    present: Option<Option<Instant>>,
}

impl Fault {
    fn parse(words: &[&str]) -> Option<Self> {
        let (kind, options) = words.split_first()?;
        let kind = match *kind {
            "down" => Kind::Down,
            "mute" => Kind::Mute,
            "late" => Kind::Late,
            _ => return None,
        };
        let mut fault = Self {
            kind,
            after: 0,
            lasts: None,
            every: None,
            present: None,
        };
        for option in options {
            let (name, number) = option.split_once('=')?;
            let number: u64 = number.parse().ok()?;
            match name {
                "after" => fault.after = number,
                "for" => fault.lasts = (number > 0).then(|| Duration::from_millis(number)),
                "every" => fault.every = (number > 0).then_some(number),
                _ => return None,
            }
        }
        Some(fault)
    }

    /// What it does at `now`, when `posted` operations have been posted on the rail.
    fn at(&mut self, posted: u64, now: Instant) -> Option<Kind> {
        if self.present.is_none() && posted >= self.after {
            self.present = Some(self.lasts.map(|lasts| now + lasts));
        }
        match self.present {
            Some(Some(end)) if now >= end => {
                self.present = None;
                self.after = self.every.map_or(u64::MAX, |every| posted + every);
                None
            }
            Some(_) => Some(self.kind),
            None => None,
        }
    }
}

/// The faults of one rail.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    /// What befalls the rail at `now`.
    pub(super) fn at(&mut self, posted: u64, now: Instant) -> Option<Kind> {
        self.0.iter_mut().find_map(|fault| fault.at(posted, now))
    }
}

/// The faults of each of `rails`; the part of `text` that cannot be read if there is one.
pub(super) fn parse(text: &str, rails: &[RailInfo]) -> Result<Vec<Faults>, String> {
    let mut faults = vec![Faults::default(); rails.len()];
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let words: Vec<&str> = part.split(':').collect();
        let rail = rails.iter().position(|rail| rail.name == words[0]);
        let fault = Fault::parse(&words[1..]);
        match (rail, fault) {
            (Some(rail), Some(fault)) => faults[rail].0.push(fault),
            _ => return Err(part.to_owned()),
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_and_go() {
        let mut fault = Fault::parse(&["mute", "after=3", "for=50", "every=10"]).unwrap();
        let start = Instant::now();
        let ms = |ms| start + Duration::from_millis(ms);
        assert_eq!(fault.at(2, start), None);
        assert_eq!(fault.at(3, start), Some(Kind::Mute));
        assert_eq!(fault.at(5, ms(49)), Some(Kind::Mute));
        assert_eq!(fault.at(6, ms(50)), None);
        assert_eq!(fault.at(15, ms(60)), None);
        assert_eq!(fault.at(16, ms(70)), Some(Kind::Mute));
        let mut forever = Fault::parse(&["down"]).unwrap();
        assert_eq!(forever.at(0, ms(1 << 40)), Some(Kind::Down));
    }

    #[test]
    fn nonsense_is_named() {
        let Err(part) = parse("loop0:down", &[]) else {
            panic!("there is no such rail");
        };
        assert_eq!(part, "loop0:down");
        assert!(Fault::parse(&["up"]).is_none());
        assert!(Fault::parse(&["down", "for"]).is_none());
        assert!(Fault::parse(&["down", "for=x"]).is_none());
    }
}
