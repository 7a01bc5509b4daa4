//! The server side of `ferrorail run`: relays between the ranks it started.

use super::socket::socket_address;
use super::wire::{self, Hello, Request};
use super::world::World;
use crate::run_env::RunEnv;
use ferrorail_base::Rank;
use ferrorail_base::sync::Mutex;
use nix::sys::socket::{MsgFlags, getsockopt, recv, sockopt};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long a new connection may take to introduce itself.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// The meeting place of the ranks of one `ferrorail run`.
///
/// It serves from background threads for as long as the process lives. The socket is an abstract
/// one, which disappears with the process, and serves only this user.
pub struct Rendezvous {
    shared: Arc<Shared>,
    socket: String,
}

struct Shared {
    size: u32,
    state: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    /// Open worlds by number.
    worlds: HashMap<u64, Arc<World>>,
    /// How many connections each rank has opened: the next one belongs to the world of that number.
    opened: HashMap<u32, u64>,
    /// Ranks that will open no further ones, and why.
    exited: HashMap<u32, String>,
}

impl Rendezvous {
    /// Starts serving a world of `size` ranks.
    ///
    /// # Errors
    /// If the socket cannot be opened or a thread cannot be started.
    pub fn start(size: u32) -> io::Result<Self> {
        let (listener, socket) = bind()?;
        let shared = Arc::new(Shared {
            size,
            state: Mutex::default(),
        });
        let acceptor = shared.clone();
        thread::Builder::new()
            .name("rendezvous".into())
            .spawn(move || acceptor.accept(&listener))?;
        Ok(Self { shared, socket })
    }

    /// What the process of `rank` needs in its environment.
    pub fn env(&self, rank: Rank) -> RunEnv {
        RunEnv {
            rank: rank.0,
            size: self.shared.size,
            socket: self.socket.clone(),
        }
    }

    /// Tells that the process of `rank` has ended, so that nobody waits for it, even if it had
    /// never connected.
    pub fn rank_exited(&self, rank: Rank, reason: &str) {
        let worlds: Vec<_> = {
            let mut registry = self.shared.state.lock();
            registry.exited.insert(rank.0, reason.to_owned());
            registry.worlds.values().cloned().collect()
        };
        for world in worlds {
            world.leave(rank, reason);
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming() {
            let stream = match stream {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!("rendezvous: {error}");
                    thread::sleep(Duration::from_millis(10));
                    continue;
                }
            };
            let shared = self.clone();
            let served = thread::Builder::new()
                .name("rendezvous-rank".into())
                .spawn(move || {
                    if let Err(error) = shared.serve(stream) {
                        tracing::debug!("rendezvous connection: {error}");
                    }
                });
            if let Err(error) = served {
                tracing::warn!("rendezvous: {error}");
            }
        }
    }

    fn serve(&self, mut stream: UnixStream) -> io::Result<()> {
        let (rank, number, world) = match self.welcome(&mut stream) {
            Ok(place) => place,
            Err(error) => return wire::write_reply(&mut stream, Err(&error.to_string())),
        };
        let served =
            wire::write_reply(&mut stream, Ok(&[])).and_then(|()| relay(&mut stream, rank, &world));
        let reason = match &served {
            Ok(()) => "has left",
            Err(_) => "has died or closed its connection",
        };
        if world.leave(rank, reason) {
            self.state.lock().worlds.remove(&number);
        }
        served
    }

    /// Checks who connects and finds its world.
    fn welcome(&self, stream: &mut UnixStream) -> io::Result<(Rank, u64, Arc<World>)> {
        let peer = getsockopt(stream, sockopt::PeerCredentials)?;
        if peer.uid() != nix::unistd::geteuid().as_raw() {
            return Err(refuse(format!("user {} may not join", peer.uid())));
        }
        stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
        let hello = Hello::read(stream)?;
        stream.set_read_timeout(None)?;
        if hello.version != wire::VERSION {
            return Err(refuse(format!(
                "rank {} speaks protocol {}, this launcher {}: use the launcher of the same build",
                hello.rank,
                hello.version,
                wire::VERSION
            )));
        }
        if hello.size != self.size || hello.rank >= self.size {
            return Err(refuse(format!(
                "rank {} of {} does not belong to a world of {}",
                hello.rank, hello.size, self.size
            )));
        }
        let rank = Rank(hello.rank);
        let mut registry = self.state.lock();
        let opened = registry.opened.entry(rank.0).or_default();
        let number = *opened;
        *opened += 1;
        let world = registry
            .worlds
            .entry(number)
            .or_insert_with(|| World::new(self.size))
            .clone();
        for (&rank, reason) in &registry.exited {
            if registry
                .opened
                .get(&rank)
                .is_none_or(|&opened| opened <= number)
            {
                world.leave(Rank(rank), reason);
            }
        }
        Ok((rank, number, world))
    }
}

/// Serves one rank until it says goodbye or is gone.
fn relay(stream: &mut UnixStream, rank: Rank, world: &World) -> io::Result<()> {
    let fd = stream.as_raw_fd();
    let alive = || {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        recv(fd, &mut [0], flags) == Err(nix::errno::Errno::EAGAIN)
    };
    loop {
        let (request, payload) = wire::read_request(stream)?;
        let outcome = match request {
            Request::Goodbye => return Ok(()),
            Request::Allgather => world
                .allgather(rank, payload, &alive)
                .map(|all| wire::pack(all.iter().map(Vec::as_slice))),
            Request::Exchange => {
                let (peers, outgoing) = wire::unpack_exchange(&payload)?;
                world
                    .exchange(rank, &peers, outgoing, &alive)
                    .map(|received| wire::pack(received.iter().map(Vec::as_slice)))
            }
        };
        match outcome {
            Ok(reply) => wire::write_reply(stream, Ok(&reply))?,
            Err(error) => wire::write_reply(stream, Err(&error.reason))?,
        }
    }
}

/// Binds the first free abstract name.
fn bind() -> io::Result<(UnixListener, String)> {
    for attempt in 0.. {
        let name = format!("@ferrorail-run-{}-{attempt}", std::process::id());
        match UnixListener::bind_addr(&socket_address(&name)?) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return Ok((bound?, name)),
        }
    }
    unreachable!("an unbounded range does not end")
}

fn refuse(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}
