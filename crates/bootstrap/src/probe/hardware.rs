//! Cores and NUMA nodes, through libhwloc where it is installed, else from the kernel.

use super::sysfs;
use ferrorail_base::last_cache::processor;
use hwloc2::{CpuBindFlags, ObjectType, Topology};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::path::Path;

/// Where the numbers of a [`HostInfo`] come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// libhwloc.
    Hwloc,
    /// `sched_getaffinity` and `/sys`.
    Kernel,
}

/// The processors and memory that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInfo {
    /// Cores on which this process may run; a core with two hardware threads counts once.
    pub cores: u32,
    /// Hardware threads on which this process may run, by operating system index, ascending.
    pub processors: Vec<u32>,
    /// How many threads of this process can run at once: the processors, or fewer where a control
    /// group has a quota.
    pub parallelism: u32,
    /// NUMA nodes of the host by operating system index, ascending; never empty.
    pub numa_nodes: Vec<u32>,
    /// The NUMA node of all `processors`; `None` if they are spread over several.
    pub numa_node: Option<u32>,
    /// The last-level cache of all `processors`, by the first processor of the host that shares it; `None` if they are
    /// spread over several or the system does not say.
    pub cache: Option<u32>,
    /// Where all this comes from.
    pub source: Source,
}

impl HostInfo {
    /// Asks about this process. It takes some milliseconds: keep the result.
    pub fn probe() -> Self {
        if hwloc_available() {
            match probe_hwloc() {
                Some(info) => return info,
                None => tracing::debug!("libhwloc found no processors: asking the kernel"),
            }
        }
        probe_kernel(Pid::this())
    }

    fn new(
        processors: BTreeSet<u32>,
        cores: usize,
        numa_nodes: Vec<u32>,
        (cache, numa_node): (Option<u32>, Option<u32>),
        source: Source,
    ) -> Self {
        let quota = std::thread::available_parallelism().map_or(usize::MAX, |count| count.get());
        Self {
            cores: cores.max(1) as u32,
            parallelism: quota.min(processors.len().max(1)) as u32,
            processors: processors.into_iter().collect(),
            numa_nodes: if numa_nodes.is_empty() {
                vec![0]
            } else {
                numa_nodes
            },
            numa_node,
            cache,
            source,
        }
    }
}

/// Whether functions of libhwloc may be called.
fn hwloc_available() -> bool {
    ferrorail_delay_load::hwloc()
        .inspect_err(|error| tracing::debug!("{error}; cores and NUMA nodes from the kernel"))
        .is_ok()
}

fn probe_hwloc() -> Option<HostInfo> {
    let topology = Topology::new()?;
    let bound = topology.get_cpubind(CpuBindFlags::CPUBIND_PROCESS)?;
    let mut processors = BTreeSet::new();
    let mut near = BTreeSet::new();
    for unit in topology.objects_with_type(&ObjectType::PU).ok()? {
        if !bound.is_set(unit.os_index()) {
            continue;
        }
        processors.insert(unit.os_index());
        // A set of all nodes is infinite and says nothing.
        let nodes = unit.nodeset().filter(|nodes| nodes.weight() >= 0);
        near.extend(nodes.into_iter().flatten());
    }
    if processors.is_empty() {
        return None;
    }
    let cores = topology
        .objects_with_type(&ObjectType::Core)
        .map_or(0, |cores| {
            let usable = |set: hwloc2::CpuSet| processors.iter().any(|&unit| set.is_set(unit));
            cores
                .iter()
                .filter(|core| core.cpuset().is_some_and(usable))
                .count()
        });
    // Some virtual machines show processors but no cores.
    let cores = if cores == 0 { processors.len() } else { cores };
    let numa_nodes = topology
        .object_at_root()
        .nodeset()
        .filter(|nodes| nodes.weight() >= 0)
        .map_or(Vec::new(), |nodes| nodes.into_iter().collect());
    let bound = (cache_hwloc(&topology, &processors), only(&near));
    Some(HostInfo::new(
        processors,
        cores,
        numa_nodes,
        bound,
        Source::Hwloc,
    ))
}

/// The NUMA node that is all of `near`, or the first where the system says nothing.
fn only(near: &BTreeSet<u32>) -> Option<u32> {
    match near.len() {
        0 => Some(0),
        1 => near.first().copied(),
        _ => None,
    }
}

/// The last-level cache that all of `processors` share, by its first processor.
fn cache_hwloc(topology: &Topology, processors: &BTreeSet<u32>) -> Option<u32> {
    let levels = [
        ObjectType::L5Cache,
        ObjectType::L4Cache,
        ObjectType::L3Cache,
        ObjectType::L2Cache,
    ];
    let found = levels.iter().find_map(|level| {
        let caches = topology.objects_with_type(level).ok()?;
        (!caches.is_empty()).then_some(caches)
    });
    // Those that this process may not use count as well: ranks that may use others are to find the same number.
    let caches = found.into_iter().flatten();
    let mut sets = caches.filter_map(|cache| cache.complete_cpuset());
    let shared = sets.find(|set| processors.iter().all(|&unit| set.is_set(unit)))?;
    u32::try_from(shared.first()).ok()
}

/// Where the kernel tells of processors and memory.
const SYSTEM: &str = "/sys/devices/system";

/// What this process is bound to: its [`HostInfo::cache`] and [`HostInfo::numa_node`]. It takes microseconds, as the
/// kernel's files about these are all that is read.
pub fn bound_to() -> (Option<u32>, Option<u32>) {
    let processors = processors_of(Pid::this());
    if processors.is_empty() {
        // The host has more than a set of the system's call holds; libhwloc asks for larger ones.
        let info = HostInfo::probe();
        return (info.cache, info.numa_node);
    }
    let nodes = sysfs::numa_nodes(&Path::new(SYSTEM).join("node"));
    bound_among(&processors, &nodes)
}

/// As [`bound_to`], of who may run on `processors` where `nodes` are the host's.
fn bound_among(
    processors: &BTreeSet<u32>,
    nodes: &[(u32, Vec<u32>)],
) -> (Option<u32>, Option<u32>) {
    let first = processors.first();
    let sharers = first.map_or(Vec::new(), |&first| sysfs::cache_of(&processor(first)));
    let shares = |processor: &u32| sharers.contains(processor);
    let cache = sharers.first().filter(|_| processors.iter().all(shares));
    let near = nodes.iter();
    let near = near.filter(|(_, units)| units.iter().any(|unit| processors.contains(unit)));
    let near = near.map(|&(node, _)| node).collect();
    (cache.copied(), only(&near))
}

/// Processors on which `thread` may run.
fn processors_of(thread: Pid) -> BTreeSet<u32> {
    let allowed = sched_getaffinity(thread).unwrap_or_else(|error| {
        tracing::debug!("sched_getaffinity: {error}");
        CpuSet::new()
    });
    (0..CpuSet::count())
        .filter(|&index| allowed.is_set(index).unwrap_or(false))
        .map(|index| index as u32)
        .collect()
}

/// As [`HostInfo::probe`] for the thread `thread`; a process's first thread stands for the process.
fn probe_kernel(thread: Pid) -> HostInfo {
    let processors = processors_of(thread);
    let system = Path::new(SYSTEM);
    let cores: BTreeSet<Vec<u32>> = processors
        .iter()
        .map(|&index| sysfs::core_of(&system.join("cpu"), index))
        .collect();
    let nodes = sysfs::numa_nodes(&system.join("node"));
    let indices = nodes.iter().map(|&(node, _)| node).collect();
    let bound = bound_among(&processors, &nodes);
    let source = Source::Kernel;
    HostInfo::new(processors, cores.len(), indices, bound, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hwloc_and_kernel_agree() {
        let kernel = probe_kernel(Pid::this());
        assert_eq!(bound_to(), (kernel.cache, kernel.numa_node));
        assert!(!kernel.processors.is_empty());
        assert!(kernel.cores as usize <= kernel.processors.len());
        assert!(kernel.parallelism as usize <= kernel.processors.len());
        if let Some(node) = kernel.numa_node {
            assert!(kernel.numa_nodes.contains(&node));
        }
        let probed = HostInfo::probe();
        assert_eq!(
            HostInfo {
                source: Source::Kernel,
                ..probed
            },
            kernel
        );
    }

    #[test]
    fn affinity_is_respected() {
        let worker = std::thread::spawn(|| {
            let this_thread = Pid::from_raw(0);
            let only = *probe_kernel(this_thread)
                .processors
                .last()
                .expect("a processor");
            let mut set = CpuSet::new();
            set.set(only as usize).unwrap();
            nix::sched::sched_setaffinity(this_thread, &set).unwrap();
            (only, probe_kernel(this_thread))
        });
        let (only, info) = worker.join().unwrap();
        assert_eq!(info.processors, [only]);
        assert_eq!((info.cores, info.parallelism), (1, 1));
    }
}
