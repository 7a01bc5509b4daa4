//! A shared library that uses all delay-loaded libraries, as the preload library does.
//! `tests/artifact.rs` looks at it and calls it.

/// Number of RDMA devices, -1 if they cannot be listed, -2 if libibverbs cannot be loaded.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_device_count() -> i32 {
    if ferrorail_delay_load::verbs().is_err() {
        return -2;
    }
    ibverbs::devices().map_or(-1, |devices| devices.len() as i32)
}

/// 1 if librdmacm opens a channel for events, 0 if it does not (a kernel without RDMA), -2 if it cannot be
/// loaded.
#[unsafe(no_mangle)]
pub extern "C" fn event_channel_count() -> i32 {
    if ferrorail_delay_load::rdmacm().is_err() {
        return -2;
    }
    // SAFETY: the library is loaded; a channel that it opens is closed once.
    unsafe {
        let channel = rdma_sys::rdma_create_event_channel();
        if channel.is_null() {
            return 0;
        }
        rdma_sys::rdma_destroy_event_channel(channel);
    }
    1
}

/// Number of processing units, -2 if libhwloc cannot be loaded.
#[unsafe(no_mangle)]
pub extern "C" fn processing_unit_count() -> i32 {
    if ferrorail_delay_load::hwloc().is_err() {
        return -2;
    }
    let topology = hwloc2::Topology::new();
    topology.map_or(-1, |topology| {
        topology
            .objects_with_type(&hwloc2::ObjectType::PU)
            .map_or(-1, |units| units.len() as i32)
    })
}
