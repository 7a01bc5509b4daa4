//! Names for this host that hold across the job.

use ferrorail_base::hash::fnv1a;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// Identity of this boot of this host. Containers on one host have the same.
pub fn host_id() -> u64 {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = boot.trim();
    if !boot.is_empty() {
        return fnv1a(boot.as_bytes());
    }
    let name = nix::unistd::gethostname().unwrap_or_default();
    fnv1a(name.as_encoded_bytes())
}

/// Equal keys mean that processes can share memory: one boot of one host, one IPC namespace and one
/// PID namespace (a peer's memory file and cross-memory attach are reached through its pid).
///
/// Found once: later there may be no descriptor left to read it with.
pub fn host_key() -> u64 {
    static KEY: OnceLock<u64> = OnceLock::new();
    *KEY.get_or_init(find_host_key)
}

fn find_host_key() -> u64 {
    let namespace = |name| fs::metadata(format!("/proc/self/ns/{name}")).map_or(0, |ns| ns.ino());
    let words = [host_id(), namespace("ipc"), namespace("pid")];
    fnv1a(&words.map(u64::to_le_bytes).concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_stable() {
        assert_eq!(host_key(), host_key());
        assert_ne!(host_key(), host_id());
    }
}
