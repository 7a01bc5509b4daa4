//! Datagrams: a header of [`HEADER_BYTES`], then the fragment's payload.
//!
//! All fields are little-endian. The checksum covers header and payload, its own field taken as 0.

use crate::config::{Checksum, RAILS_MAX};
use crate::watermarks::Watermarks;
use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of a header in bytes.
pub const HEADER_BYTES: usize = size_of::<Raw>();

/// Every datagram starts with this: protocol and version of the layout.
const MAGIC: u32 = u32::from_le_bytes(*b"FRM1");

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A fragment.
    Data = 1,
    /// How far a subtree of members is: from a member to its parent.
    Ack = 2,
    /// How far all members are: from the manager, or the answer to a repeated [`Kind::Ack`].
    Progress = 3,
    /// A request for missing fragments.
    Nack = 4,
    /// How far a source has sent.
    Sent = 5,
    /// Does multicast work on this rail?
    Probe = 6,
    /// The answer to [`Kind::Probe`].
    Heard = 7,
    /// Is the member there? Measures a round trip.
    Query = 8,
    /// The answer to [`Kind::Query`].
    Alive = 9,
    /// The member had an error and takes part in nothing more: said once to all, and to whom it hears afterwards.
    GaveUp = 10,
}

impl Kind {
    fn from_wire(value: u8) -> Option<Self> {
        use Kind::{Ack, Alive, Data, GaveUp, Heard, Nack, Probe, Progress, Query, Sent};
        [
            Data, Ack, Progress, Nack, Sent, Probe, Heard, Query, Alive, GaveUp,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == value)
    }
}

/// Bits of [`Header::flags`].
pub mod flags {
    /// Sent to the group.
    pub const MULTICAST: u8 = 1;
    /// Travels by unicast along the tree rooted at the source; each member forwards it.
    pub const RELAY: u8 = 2;
    /// Sent before.
    pub const AGAIN: u8 = 4;
    /// An answer is wanted.
    pub const ANSWER: u8 = 8;
    /// All of the sender's subtree knows that all messages were received.
    pub const FINAL: u8 = 16;
    /// The request is for fragments of which later ones have come.
    pub const GAP: u8 = 32;
}

/// A header. Fields that a kind does not use are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What this is.
    pub kind: Kind,
    /// [`flags`].
    pub flags: u8,
    /// The rail it was sent on.
    pub rail: u8,
    /// Data: the rails the message is striped over, a bit each; 0 for relayed messages.
    pub stripe: u8,
    /// The session.
    pub session: u64,
    /// The member that put it on the network: the last one, if it was relayed.
    pub sender: u32,
    /// The member that made it.
    pub source: u32,
    /// Data: number of the message. Ack: messages completed.
    pub message: u64,
    /// Data: number of the fragment in the session. Nack: of the fragment that bit 0 stands for.
    /// Ack: fragments stored. Sent: fragments of the source below it have been sent.
    pub sequence: u64,
    /// Data: bytes of the message. Ack: messages opened. Nack: as `missed`.
    pub bytes: u64,
    /// Data: number of the fragment in its message. Nack: the source that is asked. Heard: the rail.
    pub fragment: u32,
    /// Nack: how many members lack fragments.
    pub count: u16,
    /// How far all members are, as far as the sender knows.
    pub known: Watermarks,
    /// The sender's clock, in units of 64 ns.
    pub timestamp: u32,
    /// The time-stamp of the datagram that this one answers, or 0.
    pub echo: u32,
    /// Nack: the fragments asked for. Ack: word 0 says how many of the manager's multicasts in a row
    /// were missed, 8 bits a rail.
    pub words: [u64; 2],
    /// Multicast datagrams that the source has sent so far, by rail.
    pub sent: [u16; RAILS_MAX],
}

impl Header {
    /// Whether a flag is set.
    #[must_use]
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct Raw {
    magic: U32,
    checksum: U32,
    kind: u8,
    flags: u8,
    rail: u8,
    stripe: u8,
    sender: U32,
    source: U32,
    fragment: U32,
    session: U64,
    message: U64,
    sequence: U64,
    bytes: U64,
    completed: U64,
    stored: U64,
    /// Messages opened beyond those completed.
    opened: U32,
    timestamp: U32,
    echo: U32,
    count: U16,
    /// Bytes of payload, so that a datagram cut short is noticed without a checksum too.
    payload: U16,
    words: [U64; 2],
    sent: [U16; RAILS_MAX],
}

const _: () = assert!(HEADER_BYTES <= 128);

/// Why a datagram was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// Not of this protocol or version.
    #[error("not a datagram of this protocol")]
    Foreign,
    /// The checksum or the length is wrong: tell [`Session::damaged`](crate::Session::damaged).
    #[error("a damaged datagram")]
    Damaged,
}

/// The header as it goes before `payload`.
#[must_use]
pub fn encode(header: &Header, payload: &[u8], checksum: Checksum) -> [u8; HEADER_BYTES] {
    let opened = header.known.opened.saturating_sub(header.known.completed);
    let mut raw = Raw {
        magic: MAGIC.into(),
        checksum: 0.into(),
        kind: header.kind as u8,
        flags: header.flags,
        rail: header.rail,
        stripe: header.stripe,
        sender: header.sender.into(),
        source: header.source.into(),
        fragment: header.fragment.into(),
        session: header.session.into(),
        message: header.message.into(),
        sequence: header.sequence.into(),
        bytes: header.bytes.into(),
        completed: header.known.completed.into(),
        stored: header.known.stored.into(),
        opened: u32::try_from(opened).unwrap_or(u32::MAX).into(),
        timestamp: header.timestamp.into(),
        echo: header.echo.into(),
        count: header.count.into(),
        payload: (payload.len() as u16).into(),
        words: header.words.map(U64::from),
        sent: header.sent.map(U16::from),
    };
    raw.checksum = sum(raw.as_bytes(), payload, checksum).into();
    let mut bytes = [0; HEADER_BYTES];
    bytes.copy_from_slice(raw.as_bytes());
    bytes
}

/// Header and payload of a datagram.
///
/// # Errors
///
/// [`WireError`]; on [`WireError::Damaged`] the session is to be told.
pub fn open(datagram: &[u8], checksum: Checksum) -> Result<(Header, &[u8]), WireError> {
    let (mut raw, payload) = Raw::read_from_prefix(datagram).map_err(|_| WireError::Damaged)?;
    let claimed = raw.checksum.get();
    raw.checksum = 0.into();
    if checksum != Checksum::None && sum(raw.as_bytes(), payload, checksum) != claimed {
        return Err(WireError::Damaged);
    }
    if raw.magic.get() != MAGIC {
        return Err(WireError::Foreign);
    }
    if raw.payload.get() != payload.len() as u16 {
        return Err(WireError::Damaged);
    }
    let completed = raw.completed.get();
    let header = Header {
        kind: Kind::from_wire(raw.kind).ok_or(WireError::Foreign)?,
        flags: raw.flags,
        rail: raw.rail,
        stripe: raw.stripe,
        session: raw.session.get(),
        sender: raw.sender.get(),
        source: raw.source.get(),
        message: raw.message.get(),
        sequence: raw.sequence.get(),
        bytes: raw.bytes.get(),
        fragment: raw.fragment.get(),
        count: raw.count.get(),
        known: Watermarks {
            completed,
            stored: raw.stored.get(),
            opened: completed.saturating_add(raw.opened.get().into()),
        },
        timestamp: raw.timestamp.get(),
        echo: raw.echo.get(),
        words: raw.words.map(U64::get),
        sent: raw.sent.map(U16::get),
    };
    Ok((header, payload))
}

fn sum(header: &[u8], payload: &[u8], checksum: Checksum) -> u32 {
    match checksum {
        Checksum::None => 0,
        Checksum::Crc32c => crc32c::crc32c_append(crc32c::crc32c(header), payload),
        Checksum::Additive => additive(header).wrapping_add(additive(payload)),
    }
}

fn additive(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(4);
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    let word = |chunk: &[u8]| u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
    words.map(word).fold(word(&last), u32::wrapping_add)
}

#[cfg(test)]
mod tests;
