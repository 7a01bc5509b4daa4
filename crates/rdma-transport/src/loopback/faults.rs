//! Faults of modelled rails, for tests of what must survive them: `FERRORAIL_LOOPBACK_FAULTS`.
//!
//! `rail:kind[:after=OPERATIONS][:for=MS][:every=OPERATIONS]`, several separated by commas. A fault
//! begins with the rail's operation number `after` (0), lasts `for` milliseconds (0: for ever), and
//! comes again after every so many operations more.
//!
//! * `down`: nothing gets through. What waits longer than `FERRORAIL_RAIL_TIMEOUT` breaks its lane.
//! * `stuck`: as `down`, but nothing ever breaks: the device says nothing of what waits.
//! * `unplugged`: as `stuck`, and the device says that its port is down.
//! * `mute`: operations take effect, but their completions are lost, which breaks the lane.
//! * `late`: as `down`, but what broke its lane takes effect when the fault ends, as packets do that
//!   were held up in a network, unless the target has ended the lane by then; so does what was in flight on
//!   a lane that its side ended meanwhile.
//! * `delay`: one operation, and those behind it, take `for` milliseconds longer.
//! * `corrupt`: one message (a put with bytes and a notification) arrives with a flipped bit.
//! * `gone`: the card is pulled: nothing gets through any more, nothing is registered with the rail, and
//!   no lane is made. For good.
//! * `apart`: one attempt to connect a lane fails.
//! * `refuse`: one registration of private memory is refused.
//! * `limit`: registrations of any memory are refused that would have more than `bytes=BYTES`
//!   registered at a time, as under a limit of locked memory.
//!
//! `delay` and `corrupt` befall the first operation from number `after` on, and the first from each
//! `every` further on; `refuse` counts registrations of private memory instead, and `apart` attempts to
//! connect. `corrupt`, `refuse` and `apart` have no duration. A registration that one rail refuses
//! fails; on rails that are gone the memory only has no key.

use ferrorail_fabric::RailInfo;
use std::time::{Duration, Instant};

/// What befalls a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing gets through.
    Down,
    /// Nothing gets through, and nothing breaks.
    Stuck,
    /// Nothing gets through, and the device says that the port is down.
    Unplugged,
    /// Completions are lost.
    Mute,
    /// What fails takes effect afterwards.
    Late,
    /// One operation is held back.
    Delay,
    /// One message is damaged.
    Corrupt,
    /// The card is pulled.
    Gone,
    /// One attempt to connect a lane fails.
    Apart,
    /// One registration is refused.
    Refuse,
    /// So much may be registered.
    Limit,
}

/// One fault of one rail.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    kind: Kind,
    after: u64,
    lasts: Option<Duration>,
    every: Option<u64>,
    /// Of a limit, its bytes.
    bytes: Option<u64>,
    /// End of the present occurrence, while there is one; `None` inside is never.
    present: Option<Option<Instant>>,
}

impl Fault {
    fn parse(words: &[&str]) -> Option<Self> {
        let (kind, options) = words.split_first()?;
        let kind = match *kind {
            "down" => Kind::Down,
            "stuck" => Kind::Stuck,
            "unplugged" => Kind::Unplugged,
            "mute" => Kind::Mute,
            "late" => Kind::Late,
            "delay" => Kind::Delay,
            "corrupt" => Kind::Corrupt,
            "gone" => Kind::Gone,
            "apart" => Kind::Apart,
            "refuse" => Kind::Refuse,
            "limit" => Kind::Limit,
            _ => return None,
        };
        let mut fault = Self {
            kind,
            after: 0,
            lasts: None,
            every: None,
            bytes: None,
            present: None,
        };
        for option in options {
            let (name, number) = option.split_once('=')?;
            let number: u64 = number.parse().ok()?;
            match name {
                "after" => fault.after = number,
                "for" => fault.lasts = (number > 0).then(|| Duration::from_millis(number)),
                "every" => fault.every = (number > 0).then_some(number),
                "bytes" => fault.bytes = Some(number),
                _ => return None,
            }
        }
        let complete = fault.kind != Kind::Delay || fault.lasts.is_some();
        let limits = fault.kind == Kind::Limit;
        let returns = fault.kind == Kind::Gone && fault.lasts.is_some();
        (complete && !returns && limits == fault.bytes.is_some()).then_some(fault)
    }

    /// Whether it befalls the rail for some time.
    fn lasts(&self) -> bool {
        matches!(
            self.kind,
            Kind::Down | Kind::Stuck | Kind::Unplugged | Kind::Mute | Kind::Late | Kind::Gone
        )
    }

    /// Whether it befalls operation number `number`, which it then does once.
    fn befalls(&mut self, number: u64) -> bool {
        let befalls = number >= self.after;
        if befalls {
            self.after = self.every.map_or(u64::MAX, |every| number + every);
        }
        befalls
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
pub(super) struct Faults {
    faults: Vec<Fault>,
    /// Registrations of private memory so far.
    registrations: u64,
    /// Attempts to connect a lane so far.
    attempts: u64,
    /// Bytes that are registered.
    registered: u64,
}

impl Faults {
    /// What befalls the rail at `now`.
    pub(super) fn at(&mut self, posted: u64, now: Instant) -> Option<Kind> {
        let mut lasting = self.faults.iter_mut().filter(|fault| fault.lasts());
        lasting.find_map(|fault| fault.at(posted, now))
    }

    /// How much longer operation `number` takes.
    pub(super) fn delay(&mut self, number: u64) -> Duration {
        let delays = self.of_kind(Kind::Delay);
        let delays = delays.filter_map(|fault| fault.befalls(number).then_some(fault.lasts?));
        delays.sum()
    }

    /// Whether message `number`, counting operations, is damaged.
    pub(super) fn corrupts(&mut self, number: u64) -> bool {
        let corrupt = self.of_kind(Kind::Corrupt);
        corrupt.fold(false, |any, fault| fault.befalls(number) | any)
    }

    /// Whether the rail is gone, when `posted` operations have been posted on it.
    pub(super) fn is_gone(&self, posted: u64) -> bool {
        let gone = |fault: &Fault| fault.kind == Kind::Gone && posted >= fault.after;
        self.faults.iter().any(gone)
    }

    /// Whether a lane cannot be connected this time.
    pub(super) fn keep_apart(&mut self) -> bool {
        let number = self.attempts;
        self.attempts += 1;
        let apart = self.of_kind(Kind::Apart);
        apart.fold(false, |any, fault| fault.befalls(number) | any)
    }

    /// Whether the registration of `bytes` bytes, which are `private` or shared, is refused. If it
    /// is not, [`Faults::give_back`] undoes it.
    pub(super) fn refuses(&mut self, bytes: u64, private: bool) -> bool {
        let after = self.registered.saturating_add(bytes);
        let limit = |fault: &Fault| fault.bytes.is_some_and(|bytes| bytes < after);
        let mut refused = self.faults.iter().any(limit);
        if private {
            let number = self.registrations;
            self.registrations += 1;
            let refuse = self.of_kind(Kind::Refuse);
            refused |= refuse.fold(false, |any, fault| fault.befalls(number) | any);
        }
        if !refused {
            self.registered = after;
        }
        refused
    }

    /// Takes note that `bytes` bytes are no longer registered.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.registered -= bytes;
    }

    fn of_kind(&mut self, kind: Kind) -> impl Iterator<Item = &mut Fault> {
        let of_kind = move |fault: &&mut Fault| fault.kind == kind;
        self.faults.iter_mut().filter(of_kind)
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
            (Some(rail), Some(fault)) => faults[rail].faults.push(fault),
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
    fn single_operations_are_befallen_once() {
        let text = "loop0:corrupt:after=2:every=3,loop0:delay:after=4:for=7";
        let (rails, _) = super::super::rails::choose(&Default::default()).unwrap();
        let mut faults = parse(text, &rails).unwrap().swap_remove(0);
        let corrupt: Vec<u64> = (0..12).filter(|&n| faults.corrupts(n)).collect();
        assert_eq!(corrupt, [2, 5, 8, 11]);
        let late: Vec<u64> = (0..12)
            .filter(|&n| faults.delay(n) == Duration::from_millis(7))
            .collect();
        assert_eq!(late, [4]);
        assert_eq!(faults.at(100, Instant::now()), None);
    }

    #[test]
    fn registrations_are_refused_by_number_and_by_limit() {
        let (rails, _) = super::super::rails::choose(&Default::default()).unwrap();
        let faults = |text| parse(text, &rails).unwrap().swap_remove(0);
        let mut third = faults("loop0:refuse:after=2:every=3");
        let refused: Vec<u64> = (0..9).filter(|_| third.refuses(1, true)).collect();
        assert_eq!(refused.len(), 3);
        assert!(
            (0..9).all(|_| !third.refuses(1, false)),
            "shared memory is not"
        );
        let mut all = faults("loop0:refuse:every=1");
        assert!((0..5).all(|_| all.refuses(1, true)));
        let mut limited = faults("loop0:limit:bytes=100");
        assert!(!limited.refuses(60, false) && limited.refuses(41, true));
        assert!(!limited.refuses(40, true) && limited.refuses(1, true));
        limited.give_back(40);
        assert!(!limited.refuses(40, true));
        assert_eq!(limited.at(100, Instant::now()), None);
    }

    #[test]
    fn lanes_are_kept_apart_by_number_and_cards_are_gone_for_good() {
        let (rails, _) = super::super::rails::choose(&Default::default()).unwrap();
        let faults = |text| parse(text, &rails).unwrap().swap_remove(0);
        let mut second = faults("loop0:apart:after=1");
        let apart: Vec<u64> = (0..5).filter(|_| second.keep_apart()).collect();
        assert_eq!(apart.len(), 1);
        assert!(!second.is_gone(u64::MAX));
        let mut gone = faults("loop0:gone:after=3");
        assert!(!gone.is_gone(2) && gone.is_gone(3));
        let now = Instant::now();
        assert_eq!(gone.at(2, now), None);
        assert_eq!(gone.at(3, now), Some(Kind::Gone));
        let later = now + Duration::from_secs(1 << 20);
        assert_eq!(gone.at(4, later), Some(Kind::Gone));
    }

    #[test]
    fn nonsense_is_named() {
        let Err(part) = parse("loop0:down", &[]) else {
            panic!("there is no such rail");
        };
        assert_eq!(part, "loop0:down");
        assert!(Fault::parse(&["up"]).is_none());
        assert!(Fault::parse(&["delay"]).is_none());
        assert!(Fault::parse(&["limit"]).is_none());
        assert!(Fault::parse(&["gone", "for=5"]).is_none());
        assert!(Fault::parse(&["down", "bytes=5"]).is_none());
        assert!(Fault::parse(&["down", "for"]).is_none());
        assert!(Fault::parse(&["down", "for=x"]).is_none());
    }
}
