//! Trying the path: networks accept members of groups whose datagrams they then lose.
//!
//! Each leader multicasts hellos that say from whom it has had one, until it knows that everybody has
//! heard everybody, or time is up. A lost hello is made good by the next.

use ferrorail_fabric::MulticastError;
use ferrorail_fabric::multicast::{Group, Payload, To};
use std::thread;
use std::time::{Duration, Instant};

/// How long leaders try: several times what a switch may need to learn of a new member.
const LIMIT: Duration = Duration::from_millis(1500);

/// Between hellos: short in the beginning, as most paths work at once.
const INTERVAL_MIN: Duration = Duration::from_micros(100);
const INTERVAL_MAX: Duration = Duration::from_millis(20);

/// How a hello begins; no datagram of the protocol does.
const START: [u8; 4] = *b"FRhi";

/// What a hello says: who, and whom it has heard.
struct Hello {
    member: u32,
    heard: Vec<u8>,
}

impl Hello {
    fn to_wire(&self, session: u64) -> Vec<u8> {
        let mut wire = START.to_vec();
        wire.extend(session.to_le_bytes());
        wire.extend(self.member.to_le_bytes());
        wire.extend(&self.heard);
        wire
    }

    fn from_wire(session: u64, wire: &[u8], members: u32) -> Option<Self> {
        let rest = wire.strip_prefix(&START)?;
        let rest = rest.strip_prefix(&session.to_le_bytes())?;
        let (member, heard) = rest.split_first_chunk()?;
        let member = u32::from_le_bytes(*member);
        let fits = member < members && heard.len() == bytes_of(members);
        fits.then(|| Self {
            member,
            heard: heard.to_vec(),
        })
    }
}

/// Whether `datagram` belongs to a trial, perhaps one that is over.
pub(super) fn is_hello(datagram: &[u8]) -> bool {
    datagram.starts_with(&START)
}

/// Bytes with a bit for each member.
fn bytes_of(members: u32) -> usize {
    members.div_ceil(8) as usize
}

fn is_set(bits: &[u8], member: u32) -> bool {
    bits[member as usize / 8] & 1 << (member % 8) != 0
}

fn set(bits: &mut [u8], member: u32) {
    bits[member as usize / 8] |= 1 << (member % 8);
}

/// Largest group whose hellos fit into the shortest datagrams there are.
pub(super) const MEMBERS_MAX: u32 = 8 * 900;

/// Whether multicasts of all `members` reach all others through `group`, as far as `me` finds out. A member
/// that finds so has told the others.
///
/// # Errors
/// If the device fails.
pub(super) fn hears_everybody(
    group: &mut dyn Group,
    session: u64,
    me: u32,
    members: u32,
) -> Result<bool, MulticastError> {
    let begun = Instant::now();
    let mut own = Hello {
        member: me,
        heard: vec![0; bytes_of(members)],
    };
    set(&mut own.heard, me);
    // Members that have heard all.
    let mut content = vec![0; bytes_of(members)];
    let full = |bits: &[u8]| (0..members).all(|member| is_set(bits, member));
    let mut interval = INTERVAL_MIN;
    let mut next = begun;
    while begun.elapsed() < LIMIT {
        if Instant::now() >= next {
            let wire = own.to_wire(session);
            // SAFETY: the payload is copied.
            match unsafe { group.send(To::All, &[], Payload::Copied(&wire)) } {
                Ok(()) => {}
                Err(MulticastError::WouldBlock) => {
                    group.pending_sends()?;
                }
                Err(error) => return Err(error),
            }
            interval = (interval * 2).min(INTERVAL_MAX);
            next = Instant::now() + interval;
        }
        group.poll(usize::MAX, &mut |datagram| {
            if let Some(hello) = Hello::from_wire(session, datagram, members) {
                set(&mut own.heard, hello.member);
                if full(&hello.heard) {
                    set(&mut content, hello.member);
                }
            }
        })?;
        if full(&own.heard) {
            set(&mut content, me);
            if full(&content) {
                // Others may lack this.
                let wire = own.to_wire(session);
                for _ in 0..3 {
                    // SAFETY: the payload is copied.
                    let _ = unsafe { group.send(To::All, &[], Payload::Copied(&wire)) };
                }
                return Ok(true);
            }
        }
        thread::yield_now();
    }
    // Who has heard all may have been heard by all: those say what they miss.
    Ok(full(&own.heard))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_of_another_session_or_size_are_ignored() {
        let hello = Hello {
            member: 9,
            heard: vec![0xff, 0x03],
        };
        let wire = hello.to_wire(7);
        let read = |session, members| Hello::from_wire(session, &wire, members);
        let same = read(7, 10).expect("its own session");
        assert_eq!((same.member, &same.heard), (9, &hello.heard));
        assert!(read(8, 10).is_none() && read(7, 9).is_none() && read(7, 17).is_none());
        assert!(Hello::from_wire(7, &wire[..10], 10).is_none());
    }
}
