//! Which devices and ports there are.

use super::choice::{self, Port, State};
use super::gid::{self, Source};
use super::handles::{Context, PortAttributes};
use super::reach::{Here, Link, PortAddress};
use super::{speed, sysfs};
use ibverbs_sys as ffi;
use nix::ifaddrs::InterfaceAddress;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

/// A port as surveyed.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// What choices depend on.
    pub port: Port,
    /// The opened device, if it could be opened.
    pub context: Option<Arc<Context>>,
    /// Where packets come from, if it has a GID.
    pub source: Option<Source>,
    /// This end of its connections, unless the port is unusable.
    pub here: Option<Here>,
}

/// libibverbs' list of devices.
struct DeviceList {
    raw: *mut *mut ffi::ibv_device,
    count: usize,
}

impl DeviceList {
    fn get() -> io::Result<Self> {
        let mut count = 0;
        // SAFETY: the counter is ours.
        let raw = unsafe { ffi::ibv_get_device_list(&raw mut count) };
        if raw.is_null() {
            return Err(io::Error::last_os_error());
        }
        let count = count as usize;
        Ok(Self { raw, count })
    }

    fn devices(&self) -> &[*mut ffi::ibv_device] {
        // SAFETY: the list holds `count` entries until it is freed.
        unsafe { std::slice::from_raw_parts(self.raw, self.count) }
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: from `ibv_get_device_list`, freed once; opened devices outlive it.
        unsafe { ffi::ibv_free_device_list(self.raw) }
    }
}

/// All ports of all devices, arranged as [`choice`] wants them, each with the address at `gid_index`
/// of its table or the best one.
pub fn survey(gid_index: Option<u32>) -> io::Result<Vec<Surveyed>> {
    let list = match DeviceList::get() {
        // A kernel without RDMA.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => return Ok(Vec::new()),
        list => list?,
    };
    let mut surveyed = Vec::new();
    for device in list.devices() {
        let name = ibverbs::Device::from(device).name();
        let Some(name) = name.and_then(|name| name.to_str().ok()) else {
            continue;
        };
        surveyed.extend(ports_of(name, *device, gid_index));
    }
    let ports: Vec<Port> = surveyed.iter().map(|one| one.port.clone()).collect();
    let order = choice::arrange(&ports);
    Ok(order.into_iter().map(|at| surveyed[at].clone()).collect())
}

fn ports_of(device: &str, raw: *mut ffi::ibv_device, gid_index: Option<u32>) -> Vec<Surveyed> {
    let place = sysfs::place(Path::new(sysfs::CLASSES), device);
    let nothing = |number, reason: String| Surveyed {
        port: Port {
            device: device.to_owned(),
            number,
            card: place.card.clone(),
            numa_node: place.numa_node,
            state: State::Unusable(reason),
            rate_mb_s: 0,
            slot_mb_s: place.slot_mb_s,
            mtu_bytes: 0,
            address: None,
            lid: 0,
        },
        context: None,
        source: None,
        here: None,
    };
    // SAFETY: an entry of the list, which the caller holds.
    let opened = unsafe { Context::open(raw) }.map_err(|error| format!("ibv_open_device: {error}"));
    let attributes = opened.and_then(|context| match context.device_attributes() {
        Ok(attributes) => Ok((Arc::new(context), attributes)),
        Err(error) => Err(format!("ibv_query_device: {error}")),
    });
    match attributes {
        Err(reason) => vec![nothing(1, reason)],
        Ok((context, attributes)) => (1..=attributes.phys_port_cnt)
            .map(|number| match context.port_attributes(number) {
                Ok(found) => look_at(&context, nothing(number, String::new()), &found, gid_index),
                Err(error) => nothing(number, format!("ibv_query_port: {error}")),
            })
            .collect(),
    }
}

/// Fills in what a port says of itself.
fn look_at(
    context: &Arc<Context>,
    mut surveyed: Surveyed,
    found: &PortAttributes,
    gid_index: Option<u32>,
) -> Surveyed {
    let ethernet = u32::from(found.link_layer) == ffi::IBV_LINK_LAYER_ETHERNET;
    let port = &mut surveyed.port;
    let speed = match found.active_speed_ex {
        0 => u32::from(found.active_speed),
        extended => extended,
    };
    port.rate_mb_s = match speed::port_mb_s(speed, found.active_width, ethernet) {
        0 => sysfs::port_rate_mb_s(Path::new(sysfs::CLASSES), &port.device, port.number),
        rate => rate,
    };
    port.mtu_bytes = 128 << found.active_mtu;
    port.lid = found.lid;
    let source = source(context, port.number, found, ethernet, gid_index);
    let link = match source {
        _ if !ethernet => Link::InfiniBand,
        Ok(Some(source)) if !source.roce_v2 => Link::RoceV1,
        _ => Link::RoceV2,
    };
    port.state = match (link_state(found.state), &source) {
        (Some(reason), _) => State::Unusable(reason.to_owned()),
        (None, Err(reason)) => State::Unusable(reason.clone()),
        (None, Ok(_)) => State::Active,
    };
    if let Ok(source) = source {
        let port_address = PortAddress {
            link,
            gid: source.map_or([0; 16], |source| source.octets()),
        };
        port.address = Some(port_address);
        surveyed.source = source;
        surveyed.here = Some(Here {
            address: port_address,
            prefix_bits: prefix_bits(port_address.address()),
            interface: source.map_or(0, |source| source.interface),
        });
    }
    surveyed.context = Some(Arc::clone(context));
    surveyed
}

/// Why a port in that state carries nothing.
fn link_state(state: ffi::ibv_port_state::Type) -> Option<&'static str> {
    match state {
        ffi::ibv_port_state::IBV_PORT_ACTIVE => None,
        ffi::ibv_port_state::IBV_PORT_INIT | ffi::ibv_port_state::IBV_PORT_ARMED => {
            Some("its port is not active: no subnet manager has set it up")
        }
        _ => Some("its port is not active: the link is down"),
    }
}

fn source(
    context: &Context,
    number: u8,
    found: &PortAttributes,
    ethernet: bool,
    gid_index: Option<u32>,
) -> Result<Option<Source>, String> {
    let entries_max = found.gid_tbl_len.max(0) as usize * usize::from(number);
    let table = context
        .gid_table(entries_max.max(256))
        .map_err(|error| format!("ibv_query_gid_table: {error}"))?;
    let source = gid::choose(&table, number, ethernet, gid_index);
    match gid_index {
        _ if source.is_some() => Ok(source),
        Some(index) => Err(format!(
            "GID index {index} is empty; see FERRORAIL_GID_INDEX"
        )),
        None if ethernet => {
            Err("no RoCE address; give the port's network interface an IP address".to_owned())
        }
        None => Ok(None),
    }
}

/// Bits of the netmask that this host has given to `address`.
fn prefix_bits(address: Ipv6Addr) -> Option<u8> {
    let wanted = match address.to_ipv4_mapped() {
        Some(v4) => IpAddr::V4(v4),
        None => IpAddr::V6(address),
    };
    let interfaces = nix::ifaddrs::getifaddrs().ok()?;
    let ones = |mask: IpAddr| match mask {
        IpAddr::V4(mask) => mask.to_bits().count_ones() as u8,
        IpAddr::V6(mask) => mask.to_bits().count_ones() as u8,
    };
    let mut found = interfaces.filter(|interface| ip(&interface.address) == Some(wanted));
    let interface: InterfaceAddress = found.next()?;
    ip(&interface.netmask).map(ones)
}

/// The IP address among those of an interface.
pub fn ip(address: &Option<nix::sys::socket::SockaddrStorage>) -> Option<IpAddr> {
    let address = address.as_ref()?;
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
}

/// Lets the program fork while queues and buffers are registered. Kernels since 5.12 copy pinned pages
/// at the fork, and this does nothing; with older ones the library keeps registered pages out of the
/// child, without which a write after the fork would part this process from its device.
pub fn allow_fork() {
    // SAFETY: takes no arguments; the library is loaded.
    let status = unsafe { ibverbs_sys::ibv_fork_init() };
    if status != 0 {
        // Somebody, such as the host MPI, registered memory before.
        let error = std::io::Error::from_raw_os_error(status.abs());
        tracing::debug!("ibv_fork_init failed: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netmasks_are_found() {
        let loopback = std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        assert_eq!(prefix_bits(loopback), Some(8));
        assert_eq!(prefix_bits("2001:db8::1".parse().unwrap()), None);
    }
}
