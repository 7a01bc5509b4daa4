//! The client side of `ferrorail run`: a rank that is a process of its own.

use super::wire::{self, Hello, Request};
use super::{Oob, OobError, world};
use crate::run_env::RunEnv;
use ferrorail_base::Rank;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

/// One rank of a world started by `ferrorail run`, talking through the launcher's rendezvous.
///
/// Opening one is collective: the n-th that each rank opens together form the n-th world. When a
/// rank exits, calls of the others that need it fail.
pub struct SocketOob {
    stream: UnixStream,
    rank: Rank,
    size: u32,
}

impl SocketOob {
    /// Connects as `env` says.
    ///
    /// # Errors
    /// If the launcher is gone or refuses this rank.
    pub fn connect(env: &RunEnv) -> Result<Self, OobError> {
        let fail = |error: io::Error| {
            OobError::new("connect", format!("rendezvous {}: {error}", env.socket))
        };
        let address = socket_address(&env.socket).map_err(fail)?;
        let mut stream = UnixStream::connect_addr(&address).map_err(fail)?;
        let hello = Hello {
            version: wire::VERSION,
            rank: env.rank,
            size: env.size,
        };
        hello.write(&mut stream).map_err(fail)?;
        wire::read_reply(&mut stream, 0)
            .map_err(fail)?
            .map_err(|reason| OobError::new("connect", reason))?;
        Ok(Self {
            stream,
            rank: Rank(env.rank),
            size: env.size,
        })
    }

    fn call(
        &mut self,
        act: &'static str,
        request: Request,
        payload: &[u8],
        messages: usize,
    ) -> Result<Vec<Vec<u8>>, OobError> {
        let fail = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => OobError::new(act, "`ferrorail run` is gone"),
            _ => OobError::new(act, error),
        };
        wire::write_request(&mut self.stream, request, payload).map_err(fail)?;
        let reply = wire::read_reply(&mut self.stream, wire::reply_bytes_max(self.size))
            .map_err(fail)?
            .map_err(|reason| OobError::new(act, reason))?;
        let received = wire::unpack(&reply).map_err(fail)?;
        if received.len() != messages {
            let reason = format!("{} messages came instead of {messages}", received.len());
            return Err(OobError::new(act, reason));
        }
        Ok(received)
    }
}

impl Oob for SocketOob {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn allgather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, OobError> {
        self.call("allgather", Request::Allgather, mine, self.size as usize)
    }

    fn exchange(&mut self, peers: &[Rank], outgoing: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, OobError> {
        world::check_peers(self.rank, self.size, peers, outgoing.len())?;
        let payload = wire::pack_exchange(peers, outgoing);
        self.call("exchange", Request::Exchange, &payload, peers.len())
    }
}

impl Drop for SocketOob {
    fn drop(&mut self) {
        // Without it the others learn the same from the closed connection.
        let _ = wire::write_request(&mut self.stream, Request::Goodbye, &[]);
    }
}

/// `@name` is an abstract socket, which leaves no file behind; anything else is a path.
pub(super) fn socket_address(name: &str) -> io::Result<SocketAddr> {
    match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    }
}
