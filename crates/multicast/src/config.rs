//! What a session is made with, and points in time.

use std::num::NonZeroU64;
use thiserror::Error;

/// The most rails a session stripes over.
pub const RAILS_MAX: usize = 8;

/// A point in time: nanoseconds since any fixed moment of this process. Clocks of members need not agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// `nanoseconds` later; at the end of the range if that is beyond it.
    #[must_use]
    pub const fn after(self, nanoseconds: u64) -> Self {
        Self(self.0.saturating_add(nanoseconds))
    }

    /// Nanoseconds since `earlier`, 0 if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// What protects header and data of every datagram (Yu et al., section 4.4: additive or CRC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing: a trusted network.
    None,
    /// 32-bit sum of the datagram's little-endian 32-bit words.
    Additive,
    /// CRC32C (Castagnoli).
    Crc32c,
}

/// Bounds of the timers, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Timers {
    /// Round trip assumed until one is measured.
    pub initial_round_trip: u64,
    /// Shortest time after which something counts as late.
    pub shortest: u64,
    /// Longest interval between two attempts: where exponential back-off ends.
    pub longest: u64,
    /// A member that is waited for and is silent for this long is reported by [`Session::failure`].
    /// `None` waits for ever. A member that computes without polling is silent.
    ///
    /// [`Session::failure`]: crate::Session::failure
    pub peer_timeout: Option<NonZeroU64>,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            initial_round_trip: 200_000,
            shortest: 20_000,
            longest: 200_000_000,
            peer_timeout: None,
        }
    }
}

/// Settings of a session. All but `me` and `seed` must be the same at all members.
#[derive(Clone, Debug)]
pub struct Config {
    /// Identity of the session, in every datagram: 64 random bits that no other session has had.
    pub session: u64,
    /// Number of members.
    pub members: u32,
    /// This member, `0..members`. Member 0 is the manager of the synchronisation.
    pub me: u32,
    /// Broadcast channels, 2 to 64 (Yu et al., section 4.1).
    pub channels: u32,
    /// Bytes of payload in a datagram: the MTU less [`HEADER_BYTES`](crate::wire::HEADER_BYTES).
    pub fragment_bytes: usize,
    /// Bytes of a channel, and so the longest message that is copied (16 KB in the paper).
    pub channel_bytes: usize,
    /// Datagrams of data that may be under way towards a receiver, from all sources together. What control
    /// datagrams need in addition is in [`Config::queue_depth`].
    pub window: u32,
    /// Rails, 1 to [`RAILS_MAX`].
    pub rails: u8,
    /// Children of a member in the trees.
    pub arity: u32,
    /// What the datagrams are protected with; the driver passes it to [`wire`](crate::wire).
    pub checksum: Checksum,
    /// Whether lost datagrams are asked for and sent again. Without it only channels are synchronised.
    pub reliable: bool,
    /// From so many members that lack a fragment on, it is sent again by multicast.
    pub multicast_repairs_from: u32,
    /// Up to so many members, each asks the source itself; beyond, requests are combined in the tree.
    pub direct_nacks_up_to: u32,
    /// Where the jitter starts; should differ between members.
    pub seed: u64,
    /// Bounds of the timers.
    pub timers: Timers,
}

impl Config {
    /// The defaults for `me` of `members`: 16 channels of 16 KB, 4 KB fragments, one rail, CRC32C.
    #[must_use]
    pub fn new(session: u64, members: u32, me: u32) -> Self {
        Self {
            session,
            members,
            me,
            channels: 16,
            fragment_bytes: 3968,
            channel_bytes: 16 << 10,
            window: 64,
            rails: 1,
            arity: 4,
            checksum: Checksum::Crc32c,
            reliable: true,
            multicast_repairs_from: 2,
            direct_nacks_up_to: 16,
            seed: session ^ u64::from(me),
            timers: Timers::default(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let (members, timers) = (u64::from(self.members), &self.timers);
        let repairs_from = self.multicast_repairs_from.into();
        let bounds = [
            ("members", members, 1, 1 << 20),
            ("me", self.me.into(), 0, members.saturating_sub(1)),
            ("channels", self.channels.into(), 2, 64),
            ("fragment_bytes", self.fragment_bytes as u64, 1, 1 << 30),
            ("window", self.window.into(), 2, 1 << 14),
            ("rails", self.rails.into(), 1, RAILS_MAX as u64),
            ("arity", self.arity.into(), 2, 1 << 10),
            ("multicast_repairs_from", repairs_from, 2, 1 << 20),
            ("shortest", timers.shortest, 1, timers.longest),
            ("initial_round_trip", timers.initial_round_trip, 1, 1 << 40),
        ];
        let outside = |&(_, value, least, most): &(_, u64, u64, u64)| value < least || value > most;
        match bounds.into_iter().find(outside) {
            None => Ok(()),
            Some((what, value, least, most)) => Err(ConfigError {
                what,
                value,
                least,
                most,
            }),
        }
    }

    /// Datagrams that a message takes; one without bytes takes one too.
    #[must_use]
    pub fn fragments(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(self.fragment_bytes))
            .unwrap_or(u32::MAX)
            .max(1)
    }

    /// Whether a message is copied into a channel rather than sent from where it lies.
    #[must_use]
    pub const fn is_eager(&self, bytes: usize) -> bool {
        bytes <= self.channel_bytes
    }

    /// The depth of receive queues that overflow only after a long silence of this member's: the window, and
    /// what others repeat meanwhile. What overflows is lost and asked for again.
    #[must_use]
    pub fn queue_depth(&self) -> u32 {
        let talkers = self
            .members
            .min(self.direct_nacks_up_to.max(2 * self.arity));
        self.window + 8 + 16 * talkers + 4 * self.members
    }

    /// The channel that a message uses.
    #[must_use]
    pub const fn channel(&self, id: crate::MessageId) -> usize {
        (id.0 % self.channels as u64) as usize
    }
}

/// A setting out of its range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("multicast session: {what} is {value}, but must lie between {least} and {most}")]
pub struct ConfigError {
    /// The field of [`Config`] or [`Timers`].
    pub what: &'static str,
    /// Its value.
    pub value: u64,
    /// The least value allowed.
    pub least: u64,
    /// The largest value allowed.
    pub most: u64,
}
