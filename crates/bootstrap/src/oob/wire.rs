//! Bytes between [`super::SocketOob`] and the rendezvous server of `ferrorail run`.
//!
//! A client opens with a hello (magic, version, rank, size) and then has at most one request under
//! way; the server answers each with one reply. All numbers are little-endian.

use ferrorail_base::Rank;
use std::io::{self, Read, Write};

/// First bytes of a hello.
pub(super) const MAGIC: [u8; 8] = *b"ferroRUN";
/// Version of everything below; both sides must have the same.
pub(super) const VERSION: u32 = 1;
/// Largest payload of a request; a reply may have this for every rank.
pub(super) const MESSAGE_BYTES_MAX: u64 = 64 << 20;
/// Longest error text.
const REASON_BYTES_MAX: u64 = 4096;

/// First byte of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Request {
    Allgather = 1,
    Exchange = 2,
    Goodbye = 3,
}

const REPLY_OK: u8 = 0;
const REPLY_ERROR: u8 = 1;

/// Who opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub version: u32,
    pub rank: u32,
    pub size: u32,
}

impl Hello {
    pub(super) fn write(self, stream: &mut impl Write) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        for number in [self.version, self.rank, self.size] {
            bytes.extend(number.to_le_bytes());
        }
        stream.write_all(&bytes)
    }

    pub(super) fn read(stream: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; MAGIC.len() + 12];
        stream.read_exact(&mut bytes)?;
        let Some(mut numbers) = bytes.strip_prefix(&MAGIC) else {
            return Err(invalid("this is not a ferrorail rank".into()));
        };
        Ok(Self {
            version: read_u32(&mut numbers)?,
            rank: read_u32(&mut numbers)?,
            size: read_u32(&mut numbers)?,
        })
    }
}

/// Sends one request.
pub(super) fn write_request(
    stream: &mut impl Write,
    request: Request,
    payload: &[u8],
) -> io::Result<()> {
    check_length(payload.len() as u64, MESSAGE_BYTES_MAX)?;
    write(stream, request as u8, payload)
}

fn write(stream: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    let mut head = vec![kind];
    head.extend((payload.len() as u64).to_le_bytes());
    stream.write_all(&head)?;
    stream.write_all(payload)
}

/// Receives one request.
pub(super) fn read_request(stream: &mut impl Read) -> io::Result<(Request, Vec<u8>)> {
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    let request = match kind[0] {
        1 => Request::Allgather,
        2 => Request::Exchange,
        3 => Request::Goodbye,
        other => return Err(invalid(format!("unknown request {other}"))),
    };
    Ok((request, read_payload(stream, MESSAGE_BYTES_MAX)?))
}

/// Sends the outcome of a request.
pub(super) fn write_reply(stream: &mut impl Write, outcome: Result<&[u8], &str>) -> io::Result<()> {
    match outcome {
        Ok(payload) => write(stream, REPLY_OK, payload),
        Err(reason) => {
            let mut end = reason.len().min(REASON_BYTES_MAX as usize);
            while !reason.is_char_boundary(end) {
                end -= 1;
            }
            write(stream, REPLY_ERROR, &reason.as_bytes()[..end])
        }
    }
}

/// Receives the outcome of a request; the inner error is the server's.
pub(super) fn read_reply(
    stream: &mut impl Read,
    bytes_max: u64,
) -> io::Result<Result<Vec<u8>, String>> {
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    match kind[0] {
        REPLY_OK => Ok(Ok(read_payload(stream, bytes_max)?)),
        REPLY_ERROR => {
            let reason = read_payload(stream, REASON_BYTES_MAX)?;
            Ok(Err(String::from_utf8_lossy(&reason).into_owned()))
        }
        other => Err(invalid(format!("unknown reply {other}"))),
    }
}

/// Largest reply to a world of `size` ranks: every rank's message with its length.
pub(super) fn reply_bytes_max(size: u32) -> u64 {
    u64::from(size) * (MESSAGE_BYTES_MAX + 4)
}

/// Joins messages as (length, bytes).
pub(super) fn pack<'a>(messages: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        // Requests are bounded well below 4 GiB before they are sent.
        bytes.extend((message.len() as u32).to_le_bytes());
        bytes.extend(message);
    }
    bytes
}

/// Inverse of [`pack`].
pub(super) fn unpack(mut bytes: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let length = read_u32(&mut bytes)? as usize;
        let Some((message, rest)) = bytes.split_at_checked(length) else {
            return Err(invalid(format!("a message of {length} bytes is cut short")));
        };
        messages.push(message.to_vec());
        bytes = rest;
    }
    Ok(messages)
}

/// Payload of an exchange request: count, peers, messages.
pub(super) fn pack_exchange(peers: &[Rank], outgoing: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = (peers.len() as u32).to_le_bytes().to_vec();
    bytes.extend(peers.iter().flat_map(|peer| peer.0.to_le_bytes()));
    bytes.extend(pack(outgoing.iter().map(Vec::as_slice)));
    bytes
}

/// Inverse of [`pack_exchange`].
pub(super) fn unpack_exchange(mut bytes: &[u8]) -> io::Result<(Vec<Rank>, Vec<Vec<u8>>)> {
    let count = read_u32(&mut bytes)? as usize;
    if count > bytes.len() / 4 {
        return Err(invalid(format!("{count} peers do not fit the request")));
    }
    let peers = (0..count)
        .map(|_| read_u32(&mut bytes).map(Rank))
        .collect::<io::Result<_>>()?;
    Ok((peers, unpack(bytes)?))
}

fn read_payload(stream: &mut impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    check_length(length, bytes_max)?;
    let mut payload = Vec::new();
    // `take` grows the buffer with what really arrives, not with what was announced.
    if stream.take(length).read_to_end(&mut payload)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(payload)
}

fn check_length(length: u64, max: u64) -> io::Result<()> {
    if length <= max {
        return Ok(());
    }
    Err(invalid(format!(
        "a message of {length} bytes exceeds {max}"
    )))
}

fn read_u32(stream: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire() {
        let peers = [Rank(3), Rank(0)];
        let outgoing = vec![vec![1, 2, 3], vec![]];
        let payload = pack_exchange(&peers, &outgoing);
        assert_eq!(
            unpack_exchange(&payload).unwrap(),
            (peers.to_vec(), outgoing)
        );

        let mut stream = Vec::new();
        write_request(&mut stream, Request::Exchange, &payload).unwrap();
        let mut reader = stream.as_slice();
        assert_eq!(
            read_request(&mut reader).unwrap(),
            (Request::Exchange, payload)
        );
        assert!(reader.is_empty());
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_an_error() {
        let payload = pack_exchange(&[Rank(1)], &[vec![7; 10]]);
        for end in 0..payload.len() {
            let part = unpack_exchange(&payload[..end]);
            // A cut between two messages leaves fewer messages, which check_peers refuses.
            assert!(part.is_err() || end == 8, "{end}");
        }
        assert!(unpack_exchange(&u32::MAX.to_le_bytes()).is_err());

        let mut huge = vec![Request::Allgather as u8];
        huge.extend(u64::MAX.to_le_bytes());
        let error = read_request(&mut huge.as_slice()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        huge[1..9].copy_from_slice(&MESSAGE_BYTES_MAX.to_le_bytes());
        let error = read_request(&mut huge.as_slice()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn long_reasons_are_cut_at_a_character() {
        let reason = "é".repeat(4000);
        let mut stream = Vec::new();
        write_reply(&mut stream, Err(&reason)).unwrap();
        let outcome = read_reply(&mut stream.as_slice(), 0).unwrap();
        assert_eq!(outcome, Err("é".repeat(2048)));
    }
}
