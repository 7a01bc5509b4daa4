//! Which rails multicast works on. Without one the source binds its messages to the tree.

use super::{Session, To};
use crate::config::{Config, RAILS_MAX, Time};
use crate::wire::{Header, Kind, flags};

/// So many multicasts in a row that a member missed make a rail suspect.
const MISSED: u8 = 6;

#[derive(Clone, Debug, Default)]
struct Rail {
    /// The device says that the port is down.
    down: bool,
    /// Members miss what is sent on it.
    suspect: bool,
    /// A member reported so, but may only not have received yet what is on its way.
    reported: Option<(u32, Time)>,
    probe_at: Option<Time>,
    probes: u32,
    /// Who has answered probes since the rail left the striping.
    heard: Vec<bool>,
}

#[derive(Debug)]
pub(super) struct Paths {
    rails: Vec<Rail>,
    /// Answers to probes that wait for their time: when, to whom, rail, time-stamp.
    answers: Vec<(Time, u32, u8, u32)>,
}

impl Paths {
    pub fn new(config: &Config) -> Self {
        Self {
            rails: vec![Rail::default(); config.rails.into()],
            answers: Vec::new(),
        }
    }

    fn mask(&self, which: impl Fn(&Rail) -> bool) -> u8 {
        let bits = self.rails.iter().enumerate();
        bits.fold(0, |mask, (rail, state)| {
            mask | u8::from(which(state)) << rail
        })
    }

    /// The rails that multicasts are striped over, a bit each.
    pub fn usable(&self) -> u8 {
        self.mask(|rail| !rail.down && !rail.suspect)
    }

    /// The rails whose ports are up.
    pub fn up(&self) -> u8 {
        self.mask(|rail| !rail.down)
    }

    pub fn due(&self) -> Option<Time> {
        let probes = self.rails.iter().filter_map(|rail| rail.probe_at);
        probes
            .chain(self.answers.iter().map(|answer| answer.0))
            .min()
    }
}

impl Session {
    /// The port of a rail went down: it leaves the striping at once, and returns by probes after
    /// [`Session::rail_up`].
    pub fn rail_down(&mut self, rail: u8, now: Time) {
        self.advance_clock(now);
        if usize::from(rail) < self.paths.rails.len() {
            self.lose(rail);
            self.paths.rails[usize::from(rail)].down = true;
            self.paths.rails[usize::from(rail)].probe_at = None;
        }
    }

    /// The port of a rail is up again.
    pub fn rail_up(&mut self, rail: u8, now: Time) {
        self.advance_clock(now);
        let at = self.now;
        if let Some(rail) = self
            .paths
            .rails
            .get_mut(usize::from(rail))
            .filter(|rail| rail.down)
        {
            rail.down = false;
            rail.probe_at = Some(at);
        }
    }

    /// Whether this member's messages are bound to the tree at present.
    #[must_use]
    pub fn is_relaying(&self) -> bool {
        self.paths.usable() == 0
    }

    /// Takes a rail out of the striping.
    fn lose(&mut self, rail: u8) {
        let before = self.paths.usable();
        if before >> rail & 1 == 0 {
            return;
        }
        let at = self.now.after(self.round_trip.late_after(2));
        let state = &mut self.paths.rails[usize::from(rail)];
        state.suspect = true;
        state.reported = None;
        state.probe_at = Some(at);
        state.probes = 0;
        state.heard = vec![false; self.config.members as usize];
        self.counters.rails_lost += 1;
        if self.is_relaying() {
            self.counters.failovers += 1;
        }
    }

    /// A member reports how many of this member's multicasts in a row are missed, 8 bits a rail.
    pub(super) fn on_missed(&mut self, reporter: u32, missed: u64) {
        let sustained = self.round_trip.late();
        for rail in 0..self.config.rails {
            let count = (missed >> (8 * rail)) as u8;
            let state = &mut self.paths.rails[usize::from(rail)];
            if state.suspect {
                continue;
            }
            match state.reported {
                Some((by, since)) if count >= MISSED => {
                    if by == reporter && self.now.since(since) >= sustained {
                        self.lose(rail);
                    } else if by != reporter && self.now.since(since) >= 16 * sustained {
                        state.reported = Some((reporter, self.now));
                    }
                }
                None if count >= MISSED => state.reported = Some((reporter, self.now)),
                Some((by, _)) if by == reporter => state.reported = None,
                _ => {}
            }
        }
    }

    /// Tries rails that left the striping, and answers probes whose time has come.
    pub(super) fn probe(&mut self) {
        let mut index = 0;
        while let Some(&(at, to, rail, timestamp)) = self.paths.answers.get(index) {
            if at > self.now {
                index += 1;
                continue;
            }
            self.paths.answers.swap_remove(index);
            let mut heard = self.header(Kind::Heard, 0);
            heard.fragment = rail.into();
            heard.echo = timestamp;
            self.post(To::Member(to), heard);
        }
        for rail in 0..self.config.rails {
            let state = &mut self.paths.rails[usize::from(rail)];
            if state.probe_at.is_none_or(|at| at > self.now) {
                continue;
            }
            let interval = self.round_trip.late_after(state.probes + 2);
            state.probes += 1;
            state.probe_at = Some(self.now.after(interval));
            let probe = self.header(Kind::Probe, flags::ANSWER);
            self.post_on(rail, probe, None);
        }
    }

    pub(super) fn on_probe(&mut self, header: &Header) {
        let spread = self.nack_jitter();
        let at = self.now.after(spread);
        let answer = (at, header.source, header.rail, header.timestamp);
        let same = |kept: &&mut (Time, u32, u8, u32)| (kept.1, kept.2) == (answer.1, answer.2);
        match self.paths.answers.iter_mut().find(same) {
            Some(kept) => kept.3 = answer.3,
            None => self.paths.answers.push(answer),
        }
        if spread == 0 {
            self.probe();
        }
    }

    /// A member hears a rail again; once all do, it returns.
    pub(super) fn on_heard(&mut self, header: &Header) {
        let relaying = self.is_relaying();
        let me = self.config.me as usize;
        let Some(rail) = self.paths.rails.get_mut(header.fragment as usize) else {
            return;
        };
        if !rail.suspect || rail.down {
            return;
        }
        rail.heard[header.source as usize] = true;
        if rail
            .heard
            .iter()
            .enumerate()
            .all(|(member, heard)| *heard || member == me)
        {
            (rail.suspect, rail.probe_at) = (false, None);
            self.counters.rails_returned += 1;
            self.counters.returns += u64::from(relaying);
        }
    }
}

const _: () = assert!(RAILS_MAX <= u8::BITS as usize);
