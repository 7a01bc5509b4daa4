//! Cores and NUMA nodes, through libhwloc where it is installed, else from the kernel.

use super::sysfs;
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
        near: &BTreeSet<u32>,
        caches: &[Option<u32>],
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
            numa_node: match near.len() {
                0 => Some(0),
                1 => near.first().copied(),
                _ => None,
            },
            cache: match caches {
                [first, others @ ..] if others.iter().all(|other| other == first) => *first,
                _ => None,
            },
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
    let caches = caches_hwloc(&topology, &processors);
    Some(HostInfo::new(
        processors,
        cores,
        numa_nodes,
        &near,
        &caches,
        Source::Hwloc,
    ))
}

/// The last-level cache of each of `processors`, by its first processor.
fn caches_hwloc(topology: &Topology, processors: &BTreeSet<u32>) -> Vec<Option<u32>> {
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
    let sets = caches.filter_map(|cache| cache.complete_cpuset());
    let sets: Vec<hwloc2::CpuSet> = sets.collect();
    let of = |&unit: &u32| {
        let shared = sets.iter().find(|set| set.is_set(unit));
        shared.and_then(|set| u32::try_from(set.first()).ok())
    };
    processors.iter().map(of).collect()
}

/// Where the kernel tells of processors and memory.
const SYSTEM: &str = "/sys/devices/system";

/// What this process is bound to: its [`HostInfo::cache`] and [`HostInfo::numa_node`]. It takes microseconds where it is
/// bound to few processors, as the kernel's files about these are all that is read.
pub fn bound_to() -> (Option<u32>, Option<u32>) {
    let processors = processors_of(Pid::this());
    let Some(&first) = processors.first() else {
        return (None, None);
    };
    let sharers = sysfs::cache_of(&Path::new(SYSTEM).join("cpu"), first);
    let shares = |processor: &u32| sharers.contains(processor);
    let cache = sharers.first().filter(|_| processors.iter().all(shares));
    let nodes = sysfs::numa_nodes(&Path::new(SYSTEM).join("node"));
    let near = nodes
        .iter()
        .filter(|(_, units)| units.iter().any(|unit| processors.contains(unit)));
    let near: Vec<u32> = near.map(|&(node, _)| node).collect();
    let numa_node = match near[..] {
        [] => Some(0),
        [node] => Some(node),
        _ => None,
    };
    (cache.copied(), numa_node)
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
    let near = nodes
        .iter()
        .filter(|(_, units)| units.iter().any(|unit| processors.contains(unit)))
        .map(|&(node, _)| node)
        .collect();
    let indices = nodes.iter().map(|&(node, _)| node).collect();
    let caches: Vec<_> = processors
        .iter()
        .map(|&index| sysfs::cache_of(&system.join("cpu"), index).first().copied())
        .collect();
    let source = Source::Kernel;
    HostInfo::new(processors, cores.len(), indices, &near, &caches, source)
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
