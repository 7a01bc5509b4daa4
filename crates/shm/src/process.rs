//! Processes of this host: who I am, who still lives, which cores they may use.

use ferrorail_base::ProcessId;
use ferrorail_base::hash::fnv1a;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::io;
use std::sync::OnceLock;

/// This process, told apart from every other on all hosts of a job. Reads `/proc`; keep the result,
/// but ask again after a fork.
pub fn process_id() -> ProcessId {
    let pid = std::process::id();
    ProcessId {
        host: host(),
        pid,
        started: started(pid).ok().flatten().unwrap_or(0),
    }
}

/// Whether a process of this host still runs. A zombie is dead, and so is a pid that was given to
/// another process meanwhile. A process of another host, or of another pid namespace of this one,
/// cannot be judged from here and counts as alive: taking a living peer for dead would end a job.
///
/// Costs a few system calls; for waits that have lasted, not for the fast path.
pub fn is_alive(id: ProcessId) -> bool {
    if id.host != host() {
        return true;
    }
    if !exists(id.pid) {
        return false;
    }
    match stat_of(id.pid) {
        Ok(Some(stat)) => !stat.dead && (id.started == 0 || id.started == stat.started),
        // `/proc` hides it (or it ended just now).
        _ => exists(id.pid),
    }
}

/// Cores that the processes `pids` may run on together: the union of their affinity masks, within
/// the CPU bandwidth that the control group grants. At least 1.
///
/// A rank's own mask would not do: a launcher that binds each rank to a core of its own makes every
/// mask one core wide although nobody shares.
pub fn cores_of(pids: &[u32]) -> u32 {
    let masks: Vec<CpuSet> = pids
        .iter()
        .filter_map(|&pid| sched_getaffinity(Pid::from_raw(pid as i32)).ok())
        .collect();
    let in_any = |masks: &[CpuSet]| {
        let usable = |&cpu: &usize| masks.iter().any(|mask| mask.is_set(cpu) == Ok(true));
        (0..CpuSet::count()).filter(usable).count()
    };
    let union = in_any(&masks);
    let own = sched_getaffinity(Pid::from_raw(0)).map_or(usize::MAX, |mask| in_any(&[mask]));
    // The standard library knows the control group's quota but reports the smaller of quota and
    // mask; only where it is below the mask is it the quota.
    let available = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
    let quota = if available < own {
        available
    } else {
        usize::MAX
    };
    let cores = if union == 0 { available } else { union };
    u32::try_from(cores.min(quota)).unwrap_or(1).max(1)
}

/// When the process that is `pid` now was started, in clock ticks since boot, if it lives.
///
/// # Errors
/// The system does not say, for lack of descriptors or memory.
pub(crate) fn started(pid: u32) -> io::Result<Option<u64>> {
    let living = stat_of(pid)?.filter(|stat| !stat.dead);
    Ok(living.map(|stat| stat.started))
}

/// Whether `pid` is a process that is not a zombie.
pub(crate) fn is_running(pid: u32) -> bool {
    exists(pid) && !matches!(stat_of(pid), Ok(Some(stat)) if stat.dead)
}

/// Whether there is such a process, zombies included.
fn exists(pid: u32) -> bool {
    match i32::try_from(pid) {
        Ok(pid) if pid > 0 => nix::sys::signal::kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH),
        _ => false,
    }
}

/// What this host calls itself, for messages; empty if it does not say.
#[must_use]
pub fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Equal for processes that share a kernel, since one boot, and a numbering of processes.
fn host() -> u64 {
    static HOST: OnceLock<u64> = OnceLock::new();
    *HOST.get_or_init(|| {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| {
            nix::unistd::gethostname().map_or_else(|_| Vec::new(), |name| name.into_encoded_bytes())
        });
        let numbering = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        fnv1a(&[&boot, numbering.as_os_str().as_encoded_bytes()].concat())
    })
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    dead: bool,
    started: u64,
}

fn stat_of(pid: u32) -> io::Result<Option<Stat>> {
    match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(parse_stat(&stat)),
        Err(error) => match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => Err(error),
            _ => Ok(None),
        },
    }
}

/// Fields of `/proc/<pid>/stat` (proc(5)). The command name may hold anything, parentheses too.
fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let after_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[after_name..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Field 3 of the manual is index 0 here.
    let (state, threads, started) = (*fields.first()?, *fields.get(17)?, *fields.get(19)?);
    // A leader thread may end while others go on: such a process is no corpse yet.
    let leader_only = threads.parse::<u32>().ok()? <= 1;
    Some(Stat {
        dead: matches!(state, "X" | "x") || (state == "Z" && leader_only),
        started: started.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, state: &str, threads: u32) -> String {
        format!(
            "42 ({name}) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 {threads} 0 987654 19 20\n"
        )
    }

    #[test]
    fn stat_lines_are_understood() {
        let alive = Some(Stat {
            dead: false,
            started: 987_654,
        });
        let dead = Some(Stat {
            dead: true,
            started: 987_654,
        });
        assert_eq!(parse_stat(line("a", "R", 1).as_bytes()), alive);
        assert_eq!(parse_stat(line("x) Z (y", "S", 3).as_bytes()), alive);
        assert_eq!(parse_stat(line("a b", "Z", 1).as_bytes()), dead);
        assert_eq!(parse_stat(line("a", "Z", 2).as_bytes()), alive);
        assert_eq!(parse_stat(b"42 (a) R 1"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn i_am_alive_and_a_namesake_is_not() {
        let me = process_id();
        assert_eq!(me, process_id());
        assert!(me.started > 0 && is_alive(me));
        assert!(!is_alive(ProcessId {
            started: me.started + 1,
            ..me
        }));
        assert!(!is_alive(ProcessId { pid: 0, ..me }));
        assert!(is_alive(ProcessId {
            host: me.host ^ 1,
            pid: 0,
            ..me
        }));
    }

    #[test]
    fn cores_are_counted_once() {
        let me = std::process::id();
        let cores = cores_of(&[me]);
        assert!(cores >= 1);
        assert_eq!(cores_of(&[me, me]), cores);
        let available = std::thread::available_parallelism().map_or(0, usize::from);
        assert_eq!(cores_of(&[]) as usize, available);
    }
}
