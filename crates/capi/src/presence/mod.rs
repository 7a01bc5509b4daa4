//! Which ranks run ferrorail, and which of them on this host. A rank without it makes no host call that is not the
//! program's, so none may be made on a communicator that has such a member (`docs/design/0021-presence.md`).
//!
//! Each rank tells the launcher's key-value service before the host's `MPI_Init`, and asks it about
//! all others afterwards. The exchange inside `MPI_Init` orders the two, so that all ranks get the
//! same answers.

mod hydra;
pub mod pmix;

use crate::reason;
use crate::runtime;
use ferrorail_base::sync::Mutex;
use ferrorail_bootstrap::probe::host_key;
use ferrorail_mpi_abi::{AbiKind, Comm, Host, MpiError};
use std::fmt;
use std::time::Instant;

/// What a rank says of itself first. Ranks with another version count as ranks without.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a rank says of itself, without a space, which no service need keep: its version, host and process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    host_key: u64,
    pid: u32,
}

impl Entry {
    fn own() -> Self {
        Self {
            host_key: host_key(),
            pid: std::process::id(),
        }
    }

    /// None of a rank that has another version.
    fn parse(text: &str) -> Option<Self> {
        let (host_key, pid) = text
            .strip_prefix(VERSION)?
            .strip_prefix('/')?
            .split_once('/')?;
        Some(Self {
            host_key: u64::from_str_radix(host_key, 16).ok()?,
            pid: pid.parse().ok()?,
        })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}/{:x}/{}", self.host_key, self.pid)
    }
}

/// The launcher's key-value service, in which every rank has an entry.
trait KeyValues: Send {
    /// Sets this rank's entry; others see it once they have left `MPI_Init`.
    fn put(&mut self, value: &str) -> Result<(), String>;

    /// The entry of `rank`, if it has set one.
    fn get(&mut self, rank: u32) -> Result<Option<String>, String>;

    /// Name of the host on which `rank` runs, if the service tells.
    fn host_of(&mut self, _rank: u32) -> Option<String> {
        None
    }
}

type Announced = Result<Box<dyn KeyValues>, String>;

/// The service, from the announcement to the questions; or why there is none.
static ANNOUNCED: Mutex<Option<Announced>> = Mutex::new(None);

/// The ranks of `MPI_COMM_WORLD`.
pub enum World {
    /// These run ferrorail, by rank; the same on all of them.
    Known(Vec<bool>),
    /// All do: there is only this one, or the user says so.
    Full,
    /// Nothing is known.
    Unknown,
}

/// Says that this rank runs ferrorail. Called before each kind of `MPI_Init`.
pub fn announce() {
    let Some(runtime) = runtime::get() else {
        return;
    };
    let mut announced = ANNOUNCED.lock();
    // Also where the user says that all ranks have it: others may not have been told.
    if announced.is_some() || runtime.host.is_active() {
        return;
    }
    if runtime.host.kind() != AbiKind::OpenMpi
        && let Some(service) = hydra::Client::connect()
    {
        *announced = Some(service.and_then(|mut service| {
            service.put(&Entry::own().to_string())?;
            Ok(Box::new(service) as Box<dyn KeyValues>)
        }));
        return;
    }
    pmix::watch();
}

/// Called before each `MPI_Session_init`. If it starts MPI, the exchange is over before `MPI_Init`, which
/// then orders nothing: some ranks would see this one's entry, and others not.
pub fn session_begins() {
    let Some(runtime) = runtime::get() else {
        return;
    };
    if runtime.host.is_active() {
        return;
    }
    let mut announced = ANNOUNCED.lock();
    if announced.is_none() {
        *announced = Some(Err("a session was opened before MPI_Init".into()));
    }
}

impl World {
    /// Asks about all ranks; with the processes of those that run ferrorail on this host, as far as known. Called as soon
    /// as the host's `MPI_Init` is over, while nobody else uses the service.
    ///
    /// # Errors
    /// The host's.
    pub fn find(host: &Host, assumed: bool) -> Result<(Self, Vec<u32>), MpiError> {
        let announced = ANNOUNCED.lock().take();
        pmix::ignore();
        let world = host.predefined().comm_world;
        let (rank, size) = (host.comm_rank(world)?, host.comm_size(world)?);
        if assumed || size == 1 {
            return Ok((Self::Full, Vec::new()));
        }
        let announced = announced.unwrap_or_else(|| {
            Err(
                "MPI_Init did not pass through ferrorail, or the launcher offers neither PMIx nor \
                 Hydra's PMI"
                    .into(),
            )
        });
        let started = Instant::now();
        let asked = announced.and_then(|mut service| ask(&mut *service, rank, size));
        tracing::debug!(took = ?started.elapsed(), "the launcher was asked which ranks run ferrorail");
        Ok(asked.unwrap_or_else(|why| {
            if rank == 0 {
                tracing::warn!(
                    "which ranks run ferrorail is unknown ({why}): all communicators are left to \
                     the host MPI; if all ranks do, set FERRORAIL_PRESENCE=assume"
                );
            }
            (Self::Unknown, Vec::new())
        }))
    }

    /// Why ferrorail keeps away from the intra-communicator `comm`, if it does: the same on all its
    /// ranks that run ferrorail. Local.
    ///
    /// # Errors
    /// The host's.
    pub fn keeps_away(&self, host: &Host, comm: Comm) -> Result<Option<&'static str>, MpiError> {
        Ok(self.members(host, comm)?.err())
    }

    /// The ranks in `MPI_COMM_WORLD` of the members of `comm`, or why some may not take part.
    pub fn members(
        &self,
        host: &Host,
        comm: Comm,
    ) -> Result<Result<Vec<u32>, &'static str>, MpiError> {
        let present = match self {
            Self::Known(present) => Some(present),
            Self::Full => None,
            Self::Unknown => return Ok(Err(reason::UNKNOWN_PRESENCE)),
        };
        let ranks = host.world_ranks(comm)?;
        let Some(ranks) = ranks.into_iter().collect::<Option<Vec<u32>>>() else {
            return Ok(Err(reason::BEYOND_WORLD));
        };
        let lacks = |present: &Vec<bool>| ranks.iter().any(|&rank| !present[rank as usize]);
        Ok(match present.is_some_and(lacks) {
            true => Err(reason::WITHOUT_FERRORAIL),
            false => Ok(ranks),
        })
    }
}

/// The entries of all ranks. The lowest rank that runs ferrorail says who does not.
fn ask(service: &mut dyn KeyValues, rank: u32, size: u32) -> Result<(World, Vec<u32>), String> {
    let mut entries = Vec::with_capacity(size as usize);
    for peer in 0..size {
        entries.push(service.get(peer)?.as_deref().and_then(Entry::parse));
    }
    let present: Vec<bool> = entries.iter().map(Option::is_some).collect();
    let own_host = host_key();
    let on_this_host = entries
        .iter()
        .flatten()
        .filter(|entry| entry.host_key == own_host);
    let neighbours = on_this_host.map(|entry| entry.pid).collect();
    if !present[rank as usize] {
        return Err("the launcher did not keep what this rank said".into());
    }
    let absent = present.iter().filter(|&&present| !present).count();
    let lowest = |wanted: bool| present.iter().position(|&present| present == wanted);
    match lowest(false) {
        None => return Ok((World::Full, neighbours)),
        Some(first) if lowest(true) == Some(rank as usize) => {
            let host = service.host_of(first as u32);
            let host = host.map_or(String::new(), |name| format!(" on {name}"));
            let others = match absent - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            tracing::warn!(
                "rank {first}{host}{others} of {size} without ferrorail {VERSION}: communicators \
                 with them are left to the host MPI; preload it on all ranks (mpirun -x LD_PRELOAD, \
                 or mpirun … ferrorail exec)"
            );
        }
        Some(_) => {}
    }
    Ok((World::Known(present), neighbours))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries as given.
    struct Listed(Vec<Option<String>>);

    impl KeyValues for Listed {
        fn put(&mut self, _value: &str) -> Result<(), String> {
            unreachable!("all is known")
        }

        fn get(&mut self, rank: u32) -> Result<Option<String>, String> {
            Ok(self.0[rank as usize].clone())
        }
    }

    #[test]
    fn ranks_say_where_they_are() {
        let own = Entry::own();
        let elsewhere = Entry {
            host_key: !own.host_key,
            pid: 7,
        };
        let beside = Entry { pid: 8, ..own };
        assert_eq!(Entry::parse(&beside.to_string()), Some(beside));
        assert!(!beside.to_string().contains(' '));
        let said = |entry: Entry| Some(entry.to_string());
        let all = vec![said(own), said(elsewhere), said(beside)];
        let (world, neighbours) = ask(&mut Listed(all.clone()), 0, 3).expect("answers");
        assert!(matches!(world, World::Full));
        assert_eq!(neighbours, [own.pid, 8]);
        // Another version, and one that tells nothing else.
        let others = [Some(format!("9{beside}")), Some(VERSION.into()), None];
        for other in others {
            let some = vec![all[0].clone(), other, all[2].clone()];
            let (world, neighbours) = ask(&mut Listed(some), 0, 3).expect("answers");
            let World::Known(present) = world else {
                panic!("one is not there")
            };
            assert_eq!(present, [true, false, true]);
            assert_eq!(neighbours, [own.pid, 8]);
        }
        assert!(ask(&mut Listed(vec![None, said(own)]), 0, 2).is_err());
    }
}
