//! Whether buffers of this process may lie in the memory of a device (GPU), which no CPU can touch.
//! Only a host MPI that knows such memory takes it (`docs/design/0022-device-memory.md`).

use ferrorail_mpi_abi::{Host, find_loaded, name_of};
use libc::c_int;

/// How the names of drivers and run-time libraries begin: CUDA, HIP, Level Zero.
const LIBRARIES: [&[u8]; 5] = [
    b"libcuda.so",
    b"libcudart.so",
    b"libamdhip64.so",
    b"libhsa-runtime64.so",
    b"libze_loader.so",
];

/// Extensions of Open MPI and MPICH that say what the library was built for.
const QUERIES: [&str; 4] = [
    "MPIX_Query_cuda_support",
    "MPIX_Query_rocm_support",
    "MPIX_Query_hip_support",
    "MPIX_Query_ze_support",
];

/// Whether a driver is loaded, or the host was built to use one. Takes some microseconds.
pub fn memory_possible(host: &Host) -> bool {
    driver_is_loaded() || QUERIES.iter().any(|name| says_yes(host, name))
}

fn says_yes(host: &Host, name: &str) -> bool {
    type Query = unsafe extern "C" fn() -> c_int;
    // SAFETY: both projects define this signature for these names, and allow the call at any time.
    unsafe { (host.function_as::<Query>(name)).is_some_and(|query| query() == 1) }
}

fn driver_is_loaded() -> bool {
    find_loaded(|info| is_driver(name_of(info).to_bytes()).then_some(())).is_some()
}

fn is_driver(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    LIBRARIES.iter().any(|library| name.starts_with(library))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_known_by_name() {
        assert!(is_driver(b"/usr/lib/x86_64-linux-gnu/libcuda.so.1"));
        assert!(is_driver(b"libze_loader.so.1"));
        assert!(!is_driver(b"/opt/libcuda.so/libm.so.6"));
        assert!(!is_driver(b""));
        assert!(!driver_is_loaded());
    }
}
