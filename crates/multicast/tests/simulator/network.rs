//! Links that lose, repeat, delay and damage what they carry.

use super::{History, Random};
use ferrorail_multicast::{Checksum, To, wire};
use std::rc::Rc;

#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Nanoseconds from one member to another, and per byte on a link.
    pub latency: u64,
    pub per_byte: f64,
    /// Probabilities per datagram and receiver.
    pub loss: f64,
    /// Of a multicast, for all its receivers together.
    pub loss_at_sender: f64,
    pub duplicate: f64,
    pub damage: f64,
    pub reorder: f64,
    /// How much later reordered datagrams and duplicates come at most.
    pub delay: u64,
    /// A member that loses this share of all in addition.
    pub poor: Option<(u32, f64)>,
    /// (rail, from, to): carries nothing.
    pub rail_dead: Option<(u8, u64, u64)>,
    /// (from, to): multicast reaches nobody, unicast goes on.
    pub multicast_dead: Option<(u64, u64)>,
    /// Receive-queue depth, and how often the device's send queue is full.
    pub depth: usize,
    pub refuse: f64,
    /// Loses exactly this datagram of data, counted from 0, for one receiver.
    pub lose_one: Option<(u64, u32)>,
    /// Probability that a datagram of an earlier session comes along.
    pub stale: f64,
}

pub struct Network {
    settings: Settings,
    members: u32,
    random: Random,
    /// When the link of (member, rail) is free, and how far arrivals in order have come.
    free: Vec<u64>,
    order: Vec<u64>,
    rails: u8,
    pub data: u64,
    pub lost: u64,
    checksum: Checksum,
}

impl Network {
    pub fn new(history: &History) -> Self {
        let config = &history.config;
        let links = config.members as usize * usize::from(config.rails);
        Self {
            settings: history.network.clone(),
            members: config.members,
            random: Random(history.seed ^ 0xabcdef),
            free: vec![0; links],
            order: vec![0; links * config.members as usize],
            rails: config.rails,
            data: 0,
            lost: 0,
            checksum: config.checksum,
        }
    }

    /// When and where copies of a datagram arrive.
    pub fn carry(
        &mut self,
        now: u64,
        from: u32,
        to: To,
        rail: u8,
        datagram: Vec<u8>,
    ) -> Vec<(u64, u32, Rc<[u8]>)> {
        let link = from as usize * usize::from(self.rails) + usize::from(rail);
        let start = self.free[link].max(now);
        let wire = (datagram.len() as f64 * self.settings.per_byte) as u64;
        self.free[link] = start + wire;
        let is_data = datagram[8] == 1;
        let number = self.data;
        self.data += u64::from(is_data);
        let datagram: Rc<[u8]> = datagram.into();
        let (settings, random) = (&self.settings, &mut self.random);
        let within = |from, to| (from..to).contains(&now);
        let dead = settings
            .rail_dead
            .is_some_and(|(r, a, b)| r == rail && within(a, b))
            || (to == To::All && settings.multicast_dead.is_some_and(|(a, b)| within(a, b)))
            || (to == To::All && random.chance(settings.loss_at_sender));
        let mut arrivals = Vec::new();
        let receivers = match to {
            To::All => 0..self.members,
            To::Member(member) => member..member + 1,
        };
        for receiver in receivers.filter(|&receiver| receiver != from) {
            let poor = settings
                .poor
                .filter(|poor| poor.0 == receiver)
                .map_or(0.0, |poor| poor.1);
            let chosen = is_data && settings.lose_one == Some((number, receiver));
            if dead || chosen || random.chance(settings.loss) || random.chance(poor) {
                self.lost += 1;
                continue;
            }
            let order = &mut self.order[link * self.members as usize + receiver as usize];
            *order = (start + wire + settings.latency).max(*order + 1);
            let mut at = *order;
            if random.chance(settings.reorder) {
                at += random.below(settings.delay + 1);
            }
            if random.chance(settings.duplicate) {
                let later = at + random.below(settings.delay + 1);
                arrivals.push((later, receiver, datagram.clone()));
            }
            if random.chance(settings.stale) {
                let stale = stale(&datagram, self.checksum, random);
                arrivals.push((at, receiver, stale.into()));
            }
            let mut datagram = datagram.clone();
            if random.chance(settings.damage) {
                let bit = random.below(datagram.len() as u64 * 8) as usize;
                Rc::make_mut(&mut datagram)[bit / 8] ^= 1 << (bit % 8);
            }
            arrivals.push((at, receiver, datagram));
        }
        arrivals
    }
}

/// The same datagram as an earlier session may have sent it, with other contents.
fn stale(datagram: &[u8], checksum: Checksum, random: &mut Random) -> Vec<u8> {
    let (mut header, payload) = wire::open(datagram, checksum).unwrap();
    header.session ^= 1 << random.below(64);
    header.known.completed += 3;
    let payload: Vec<u8> = payload.iter().map(|byte| !byte).collect();
    let mut stale = wire::encode(&header, &payload, checksum).to_vec();
    stale.extend(payload);
    stale
}
