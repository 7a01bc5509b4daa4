//! Which ports become rails: a pure function of their descriptions and the setting.
//!
//! Ports are *arranged* first: every card's first port, then the second ports, and so on, because
//! the ports of a card share its slot. The position is a port's *plane*, whatever the state of its
//! link, so that hosts on which different links are down still agree.

use super::reach::PortAddress;
use ferrorail_base::config::RailChoice;
use ferrorail_fabric::RAILS_MAX;
use std::collections::HashMap;

/// A rail slower than the fastest by more than this factor would hold it back.
const SLOWER_MAX: u64 = 4;

/// Whether a port carries data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The link is up, and there is an address to send from.
    Active,
    /// It does not, for this reason.
    Unusable(String),
}

/// A port, as far as choices depend on it, and users care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Device name, e.g. `mlx5_0`.
    pub device: String,
    /// 1-based port number.
    pub number: u8,
    /// The card it is on: its PCI slot, or the device's name.
    pub card: String,
    /// NUMA node of the device, if it is close to one.
    pub numa_node: Option<u32>,
    /// Whether it carries data.
    pub state: State,
    /// Data rate of the link in MB/s, 0 if unknown.
    pub rate_mb_s: u64,
    /// What the card's slot carries in MB/s, 0 if unknown.
    pub slot_mb_s: u64,
    /// Largest packet in bytes.
    pub mtu_bytes: u32,
    /// What it speaks, and its address; `None` if that could not be found out.
    pub address: Option<PortAddress>,
    /// Local identifier of an InfiniBand port.
    pub lid: u16,
}

impl Port {
    /// `device:port`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.device, self.number)
    }

    fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// What it would carry alone on its card, in MB/s; 0 if unknown.
    fn speed_mb_s(&self) -> u64 {
        match self.slot_mb_s {
            0 => self.rate_mb_s,
            slot => slot.min(self.rate_mb_s),
        }
    }
}

/// A port to open, and the plane it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Index into the arranged ports.
    pub port: usize,
    /// Position among the requested rails.
    pub plane: u8,
    /// Its share of what its card carries, in MB/s; 0 if unknown.
    pub bandwidth_mb_s: u64,
}

/// What becomes of ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The rails, by ascending plane.
    pub picks: Vec<Pick>,
    /// Why a port is no rail, by port.
    pub left_out: Vec<Option<String>>,
    /// Rails asked for that cannot be had.
    pub warnings: Vec<String>,
}

/// The order in which ports become planes, as indices.
pub fn arrange(ports: &[Port]) -> Vec<usize> {
    let by_name = |port: usize| (natural(&ports[port].device), ports[port].number);
    let mut order: Vec<usize> = (0..ports.len()).collect();
    order.sort_by(|&a, &b| by_name(a).cmp(&by_name(b)));
    let mut on_card: HashMap<&str, u32> = HashMap::new();
    let mut nth = vec![0; ports.len()];
    for &port in &order {
        let count = on_card.entry(&ports[port].card).or_default();
        nth[port] = *count;
        *count += 1;
    }
    order.sort_by_key(|&port| nth[port]);
    order
}

/// Chooses among arranged ports.
pub fn choose(ports: &[Port], choice: &RailChoice) -> Choice {
    let mut chosen = match choice {
        RailChoice::Auto => automatic(ports, None),
        RailChoice::Count(count) => automatic(ports, Some(usize::from(*count))),
        RailChoice::Names(names) => by_name(ports, names),
    };
    share(ports, &mut chosen.picks);
    chosen
}

/// All ports worth using, or the first `count`, filled up from the others.
fn automatic(ports: &[Port], count: Option<usize>) -> Choice {
    let mut left_out: Vec<Option<String>> =
        ports.iter().map(|port| not_worth(port, ports)).collect();
    let mut taken: HashMap<&str, u64> = HashMap::new();
    for (port, reason) in ports.iter().zip(&mut left_out) {
        let before = taken.entry(&port.card).or_default();
        if reason.is_some() {
            continue;
        }
        let full = port.slot_mb_s > 0 && port.slot_mb_s < *before + port.rate_mb_s / 2;
        if *before > 0 && full {
            *reason = Some(format!(
                "the slot of its card carries {} MB/s, which other ports take up",
                port.slot_mb_s
            ));
        } else {
            *before += port.rate_mb_s;
        }
    }
    let limit = count.unwrap_or(RAILS_MAX).min(RAILS_MAX);
    let worth = |wanted: bool| {
        let left_out = &left_out;
        let active = ports
            .iter()
            .enumerate()
            .filter(|(_, port)| port.is_active());
        active.filter(move |(port, _)| left_out[*port].is_none() == wanted)
    };
    // Who asks for a number of rails gets as many, if there are.
    let others = worth(false).filter(|_| count.is_some());
    let mut chosen: Vec<usize> = worth(true).chain(others).map(|(port, _)| port).collect();
    chosen.truncate(limit);
    chosen.sort_unstable();

    let keep_planes = ports.len() <= RAILS_MAX;
    let pick = |(nth, &port): (usize, &usize)| Pick {
        port,
        plane: if keep_planes { port } else { nth } as u8,
        bandwidth_mb_s: 0,
    };
    let picks: Vec<Pick> = chosen.iter().enumerate().map(pick).collect();
    for (port, reason) in left_out.iter_mut().enumerate() {
        if chosen.contains(&port) {
            *reason = None;
        } else {
            reason.get_or_insert_with(|| format!("{limit} others come before it"));
        }
    }
    let missing = count.map_or(0, |count| count - picks.len().min(count));
    let warnings = match missing {
        0 => Vec::new(),
        _ => vec![format!(
            "{missing} of the {} rails asked for do not exist",
            count.unwrap_or(0)
        )],
    };
    Choice {
        picks,
        left_out,
        warnings,
    }
}

/// Why a port is not worth using if nobody asks for it.
fn not_worth(port: &Port, ports: &[Port]) -> Option<String> {
    if let State::Unusable(reason) = &port.state {
        return Some(reason.clone());
    }
    let active = ports.iter().filter(|port| port.is_active());
    let fastest = active.map(Port::speed_mb_s).max().unwrap_or(0);
    let speed = port.speed_mb_s();
    (speed > 0 && speed * SLOWER_MAX < fastest).then(|| {
        format!(
            "it would hold others back: {speed} MB/s beside {fastest}; FERRORAIL_RAILS can name it"
        )
    })
}

fn by_name(ports: &[Port], names: &[String]) -> Choice {
    let unnamed = Some("FERRORAIL_RAILS does not name it".to_owned());
    let mut choice = Choice {
        left_out: vec![unnamed; ports.len()],
        ..Choice::default()
    };
    for (plane, name) in names.iter().enumerate() {
        let warning = if plane >= RAILS_MAX {
            Some(format!("rail {name} is not used: {RAILS_MAX} is the most"))
        } else {
            one_by_name(ports, name, plane as u8, &mut choice)
        };
        choice.warnings.extend(warning);
    }
    choice
}

/// Picks the port called `name`, or says why it cannot.
fn one_by_name(ports: &[Port], name: &str, plane: u8, choice: &mut Choice) -> Option<String> {
    let matching = |port: &Port| port.device == name || port.name() == name;
    let active = ports
        .iter()
        .position(|port| port.is_active() && matching(port));
    match (active, ports.iter().position(matching)) {
        (Some(port), _) if choice.picks.iter().any(|pick| pick.port == port) => {
            Some(format!("rail {name} is named twice"))
        }
        (Some(port), _) => {
            choice.left_out[port] = None;
            choice.picks.push(Pick {
                port,
                plane,
                bandwidth_mb_s: 0,
            });
            None
        }
        (None, Some(port)) => {
            let State::Unusable(reason) = &ports[port].state else {
                return None;
            };
            choice.left_out[port] = Some(reason.clone());
            Some(format!("rail {name} is not used: {reason}"))
        }
        (None, None) => {
            let have = describe(ports);
            Some(format!("rail {name} does not exist; there is {have}"))
        }
    }
}

/// Gives each rail its part of what its card's slot carries.
fn share(ports: &[Port], picks: &mut [Pick]) {
    let mut wanted: HashMap<&str, u64> = HashMap::new();
    for pick in &*picks {
        *wanted.entry(&ports[pick.port].card).or_default() += ports[pick.port].rate_mb_s;
    }
    for pick in picks {
        let port = &ports[pick.port];
        let all = wanted[port.card.as_str()];
        pick.bandwidth_mb_s = if port.slot_mb_s > 0 && port.slot_mb_s < all {
            (u128::from(port.rate_mb_s) * u128::from(port.slot_mb_s) / u128::from(all)) as u64
        } else {
            port.rate_mb_s
        };
    }
}

/// The ports and their states, for messages.
pub fn describe(ports: &[Port]) -> String {
    if ports.is_empty() {
        return "no RDMA device".to_owned();
    }
    let words = ports.iter().map(|port| match &port.state {
        State::Active => format!("{} (active)", port.name()),
        State::Unusable(reason) => format!("{} ({reason})", port.name()),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Sort key that puts `mlx5_2` before `mlx5_10`.
fn natural(name: &str) -> (&str, u64, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(0), name)
}

#[cfg(test)]
mod tests;
