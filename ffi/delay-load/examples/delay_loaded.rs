//! A shared library that uses both delay-loaded libraries, as the preload library does.
//! `tests/artifact.rs` looks at it and calls it.

/// Number of RDMA devices, -1 if they cannot be listed, -2 if libibverbs cannot be loaded.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_device_count() -> i32 {
    if ferrorail_delay_load::verbs().is_err() {
        return -2;
    }
    ibverbs::devices().map_or(-1, |devices| devices.len() as i32)
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
