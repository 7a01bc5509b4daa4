//! What all teams of a process share: settings, the host's progress, rails, statistics.

use crate::domains::Place;
use crate::multicast::{MulticastRow, Service};
use crate::rails::{Rails, RailsKind, open};
use crate::stats::Stats;
use crate::window::{OneSided, ServiceThread};
use ferrorail_base::ProcessId;
use ferrorail_base::config::Settings;
use ferrorail_base::sync::Mutex;
use ferrorail_fabric::{FabricError, RailInfo};
use ferrorail_rdma_transport::failover::Watchdog;
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, OnceLock, Weak};

/// The process context that a waiting rank must keep going.
pub trait Host: Send + Sync {
    /// Drives the host MPI's progress a little: another rank may be stuck in a rendezvous with us.
    fn poke(&self);
}

/// A host with nothing to drive, for programs without MPI.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn poke(&self) {}
}

/// One per process.
pub struct Context {
    settings: Settings,
    /// This process, as found when there were descriptors to find it with.
    pub(crate) process: ProcessId,
    pub(crate) host: Box<dyn Host>,
    stats: Stats,
    /// Those opened so far.
    rails: Mutex<Vec<(RailsKind, Arc<Rails>)>>,
    /// Of these.
    watchdogs: Mutex<Vec<Watchdog>>,
    /// The thread that serves windows, as long as one of them wants it.
    service_thread: Mutex<Weak<ServiceThread>>,
    /// Those that serve one window each.
    own_handlers: Mutex<Vec<Weak<ServiceThread>>>,
    /// Windows to which other processes may offer operations.
    offered: Mutex<Vec<Arc<OneSided>>>,
    /// The thread that drives multicasts, once some team has them.
    multicast_service: Mutex<Option<Arc<Service>>>,
    warned: Mutex<HashSet<String>>,
    /// Processes whose memory this one was found to read.
    pub(crate) reached: Mutex<HashSet<ProcessId>>,
    /// Where this process runs, once asked.
    place: OnceLock<Place>,
    /// Who shares this host, as far as that was said.
    neighbours: OnceLock<Neighbours>,
}

/// Processes of the job on this host.
struct Neighbours {
    /// Sorted.
    pids: Vec<u32>,
    /// The cores that they may run on, once asked.
    cores: OnceLock<u32>,
}

impl Context {
    /// Opens nothing yet: rails are opened by the first team that spans nodes.
    pub fn new(settings: Settings, host: Box<dyn Host>) -> Arc<Self> {
        // Remembered there.
        ferrorail_bootstrap::probe::host_key();
        Arc::new(Self {
            settings,
            process: ferrorail_shm::process_id(),
            host,
            stats: Stats::default(),
            rails: Mutex::default(),
            watchdogs: Mutex::default(),
            service_thread: Mutex::default(),
            own_handlers: Mutex::default(),
            offered: Mutex::default(),
            multicast_service: Mutex::default(),
            warned: Mutex::default(),
            reached: Mutex::default(),
            place: OnceLock::new(),
            neighbours: OnceLock::new(),
        })
    }

    /// This process's settings. Where ranks must agree a team has those it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Counters of this process.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(crate) fn rails(&self, kind: RailsKind) -> Result<Arc<Rails>, FabricError> {
        let mut opened = self.rails.lock();
        if let Some((_, rails)) = opened.iter().find(|(of, _)| *of == kind) {
            return Ok(rails.clone());
        }
        let rails = Arc::new(open(kind, &self.settings)?);
        tracing::info!(
            fabric = rails.attributes().name,
            rails = ?rails.attributes().rails.iter().map(|rail| rail.name.as_str()).collect::<Vec<_>>(),
            "rails opened"
        );
        let mut watchdogs = self.watchdogs.lock();
        watchdogs.extend(rails.watchdog()?);
        opened.push((kind, rails.clone()));
        Ok(rails)
    }

    /// The thread that serves windows, started if there is none.
    pub(crate) fn service_thread(&self) -> io::Result<Arc<ServiceThread>> {
        let mut known = self.service_thread.lock();
        if let Some(service_thread) = known.upgrade() {
            return Ok(service_thread);
        }
        let service_thread = Arc::new(ServiceThread::start()?);
        *known = Arc::downgrade(&service_thread);
        Ok(service_thread)
    }

    /// A thread that serves one window, as long as that keeps it.
    pub(crate) fn own_service_thread(&self) -> io::Result<Arc<ServiceThread>> {
        let service_thread = Arc::new(ServiceThread::start()?);
        let mut known = self.own_handlers.lock();
        known.retain(|other| other.strong_count() > 0);
        known.push(Arc::downgrade(&service_thread));
        Ok(service_thread)
    }

    /// The thread that drives multicasts, started if there is none.
    pub(crate) fn multicast_service(&self) -> io::Result<Arc<Service>> {
        let mut known = self.multicast_service.lock();
        if let Some(service) = &*known {
            return Ok(Arc::clone(service));
        }
        let service = Arc::new(Service::start()?);
        *known = Some(Arc::clone(&service));
        Ok(service)
    }

    /// What the multicasts of this process have come to up to now.
    pub fn multicasts(&self) -> MulticastRow {
        let service = self.multicast_service.lock().clone();
        if let Some(service) = service {
            service.tell_statistics();
        }
        *self.stats().multicast.lock()
    }

    /// Ends the threads that look after rails and windows.
    pub(crate) fn stop_watchdogs(&self) {
        // Nobody waits for a thread with a lock held.
        let service_thread = self.service_thread.lock().upgrade();
        if let Some(service_thread) = service_thread {
            service_thread.end();
        }
        let own = std::mem::take(&mut *self.own_handlers.lock());
        for service_thread in own.iter().filter_map(Weak::upgrade) {
            service_thread.end();
        }
        let service = self.multicast_service.lock().take();
        drop(service);
        let watchdogs = std::mem::take(&mut *self.watchdogs.lock());
        drop(watchdogs);
    }

    /// Says each line once in the life of the process.
    pub(crate) fn warn_once(&self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            self.warn_once_about(&line, || line.clone());
        }
    }

    /// Counts a buffer that could not be registered, and says so once.
    pub(crate) fn refused(&self, error: &FabricError) {
        self.stats().refused.add(1);
        self.warn_once_about("user buffers", || {
            format!(
                "large buffers go through scratch in pieces, which is slower and counted in the \
                 statistics: {error}"
            )
        });
    }

    /// Says the first of the lines about `subject` in the life of the process.
    pub fn warn_once_about(&self, subject: &str, line: impl FnOnce() -> String) {
        let mut warned = self.warned.lock();
        if warned.insert(subject.to_owned()) {
            tracing::warn!("{}", line());
        }
    }

    /// Takes `lines` as said: another rank says them.
    pub(crate) fn know(&self, lines: impl IntoIterator<Item = String>) {
        let mut warned = self.warned.lock();
        warned.extend(lines);
    }

    /// What this process is bound to.
    pub(crate) fn place(&self) -> Place {
        *self.place.get_or_init(|| {
            let (cache, numa_node) = ferrorail_bootstrap::probe::bound_to();
            Place { cache, numa_node }
        })
    }

    /// Has calls that wait look for what others offer to `window`.
    pub(crate) fn look_for_offers(&self, window: Arc<OneSided>) {
        self.offered.lock().push(window);
    }

    /// No call looks for offers to `window` any more.
    pub(crate) fn forget_offers(&self, window: &Arc<OneSided>) {
        let mut offered = self.offered.lock();
        offered.retain(|other| !Arc::ptr_eq(other, window));
    }

    /// For calls that wait: drives the host MPI's progress a little, and carries out what others have offered to this process.
    /// Whether it looked at any: more may come.
    pub(crate) fn poke(&self) -> bool {
        self.host.poke();
        // Another thread may be at it.
        let Some(offered) = self.offered.try_lock() else {
            return false;
        };
        let asked = offered.iter().filter(|window| window.is_offered());
        let asked: Vec<_> = asked.cloned().collect();
        drop(offered);
        asked
            .iter()
            .fold(false, |looked, window| window.serve_offers() | looked)
    }

    /// Drives the host MPI's progress a little, for calls that do not wait.
    #[cold]
    pub fn drive_host(&self) {
        self.host.poke();
    }

    /// Says which processes of the job run on this host, before any team is made: all of them share its cores, also with
    /// teams that they are not in. Unless it is said, a team knows of its own ranks.
    pub fn know_neighbours(&self, mut pids: Vec<u32>) {
        pids.sort_unstable();
        let cores = OnceLock::new();
        let _ = self.neighbours.set(Neighbours { pids, cores });
    }

    /// How many processes, as far as known, share how many cores of this host, on which these are.
    pub(crate) fn sharing(&self, pids: &[u32]) -> (u32, u32) {
        let known = self.neighbours.get();
        let are_known = |known: &&Neighbours| {
            let is_known = |pid| known.pids.binary_search(pid).is_ok();
            pids.iter().all(is_known)
        };
        match known.filter(are_known) {
            Some(Neighbours { pids, cores }) => (
                pids.len() as u32,
                *cores.get_or_init(|| ferrorail_shm::cores_of(pids)),
            ),
            None => (pids.len() as u32, ferrorail_shm::cores_of(pids)),
        }
    }

    /// The NUMA node that this process is bound to, if any, and if it matters for `rails`.
    pub(crate) fn numa_node_for(&self, rails: &[RailInfo]) -> Option<u32> {
        let matters = rails.iter().any(|rail| rail.numa_node.is_some());
        matters.then(|| self.place().numa_node)?
    }

    /// The rails opened so far.
    pub fn opened_rails(&self) -> Vec<Arc<Rails>> {
        let opened = self.rails.lock();
        opened.iter().map(|(_, rails)| rails.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_cores_with_those_of_other_teams() {
        let context = Context::new(Settings::default(), Box::new(NoHost));
        let own = std::process::id();
        let (ranks, cores) = context.sharing(&[own]);
        assert_eq!(ranks, 1);
        context.know_neighbours(vec![own, 1, 2]);
        assert_eq!(context.sharing(&[own]).0, 3);
        assert_eq!(context.sharing(&[2, own]).0, 3);
        assert!(context.sharing(&[own]).1 >= cores);
        // Somebody else is there: nothing is known of all.
        assert_eq!(context.sharing(&[own, 3]).0, 2);
    }
}
