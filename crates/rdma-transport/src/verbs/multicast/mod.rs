//! Groups on RDMA devices: unreliable datagram queue pairs, one for each group and rail.
//!
//! Joining takes three steps, each at its level: the network learns of the member (`cm` on
//! InfiniBand and RoCE, `ip` on RoCE), the device lets the group's datagrams through to the queue
//! pair (`queue_pair::Attachment`), and receives are posted (`work_request`); `membership` is all that together. `address` makes the group's
//! address on the network, `pool` is the registered memory that datagrams leave from and arrive in.
//!
//! Devices may hand a sender its own multicasts. They are not passed on; until they are found, now and
//! then while sending and whenever the group is looked at, they take places in its receive queue.

mod address;
mod cm;
mod ip;
mod membership;
mod pool;
mod queue_pair;
mod work_request;

use super::VerbsTransport;
use super::queue_pair::path;
use super::rail::Rail;
use super::reach::Link;
use address::GroupAddress;
use cm::CmMembership;
use ferrorail_base::RailId;
use ferrorail_fabric::multicast::DatagramLimits;
use ferrorail_fabric::{Group, GroupId, Multicast, MulticastError};
use ibverbs_sys as ffi;
use ip::IpMembership;
use membership::Membership;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

/// Sends that may be pending; each has a slot of registered memory.
const SENDS_MAX: u32 = 128;
/// Deepest receive queue: 33 MB of registered memory at the largest packets.
const DEPTH_MAX: u32 = 8192;

impl Multicast for VerbsTransport {
    fn multicast_rails(&self) -> Vec<Result<DatagramLimits, MulticastError>> {
        self.opened().iter().map(limits).collect()
    }

    fn join(
        &self,
        rail: RailId,
        group: GroupId,
        depth: u32,
    ) -> Result<Box<dyn Group>, MulticastError> {
        let index = rail.index();
        let found = self.opened().get(index);
        let rail = found.ok_or_else(|| MulticastError::Unsupported {
            rail: rail.to_string(),
            reason: "there is no such rail".to_owned(),
        })?;
        let most = limits(rail)?;
        let limits = DatagramLimits {
            depth: depth.clamp(1, most.depth),
            ..most
        };
        let network = Network::join(rail, group)?;
        let ways = (network, self.port(index));
        Ok(Box::new(Membership::create(rail, group, ways, limits)?))
    }
}

/// What a rail bears.
fn limits(rail: &Rail) -> Result<DatagramLimits, MulticastError> {
    let unsupported = |reason: &str| MulticastError::Unsupported {
        rail: rail.info.name.clone(),
        reason: reason.to_owned(),
    };
    if rail.is_gone() {
        return Err(unsupported("its device is gone"));
    }
    if rail.local.here.address.link == Link::RoceV1 {
        let words = "RoCE v1 has no IP groups; choose a RoCE v2 address (FERRORAIL_GID_INDEX)";
        return Err(unsupported(words));
    }
    let device = rail.domain.context().device_attributes();
    let device = device.map_err(|source| failed(rail, "ibv_query_device", source))?;
    if device.max_mcast_grp <= 0 || device.max_mcast_qp_attach <= 0 {
        return Err(unsupported("its device has no multicast groups"));
    }
    // Requests of a queue pair, and the completions of as many.
    let requests = device.max_qp_wr.min(device.max_cqe).max(1) as u32;
    Ok(DatagramLimits {
        bytes: 128 << rail.local.mtu,
        depth: DEPTH_MAX.min(requests),
        sends: SENDS_MAX.min(requests),
    })
}

fn failed(rail: &Rail, verb: &'static str, source: io::Error) -> MulticastError {
    MulticastError::Device {
        rail: rail.info.name.clone(),
        verb,
        source: super::error::with_memlock_hint(source),
    }
}

/// A group as the network of a rail knows it, which this process has joined.
struct Network {
    address: GroupAddress,
    /// The way to all members.
    path: ffi::ibv_ah_attr,
    /// The group's LID on InfiniBand, else 0.
    lid: u16,
    _ip: Option<IpMembership>,
    _cm: Option<CmMembership>,
}

impl Network {
    fn join(rail: &Rail, group: GroupId) -> Result<Self, MulticastError> {
        let port_address = &rail.local.here.address;
        let address = GroupAddress::new(group, rail.info.plane, port_address);
        let joined = match port_address.link.is_ethernet() {
            true => Self::join_ethernet(rail, address),
            false => Self::join_infiniband(rail, address),
        };
        joined.map_err(|(verb, source)| MulticastError::Join {
            group: address.ip().to_string(),
            rail: rail.info.name.clone(),
            verb,
            source,
        })
    }

    /// The level of IP is what devices and switches go by. librdmacm is asked too, as on real systems
    /// it is what drivers and tools see; without it (no `rdma_ucm` in the kernel) the group works.
    fn join_ethernet(rail: &Rail, address: GroupAddress) -> Result<Self, cm::Failed> {
        let here = &rail.local.here;
        let source = address::ip(here.address.gid);
        let membership = IpMembership::join(address.ip(), here.interface, source)?;
        let cm = match cm::join(source, here.interface, address.ip()) {
            Ok(joined) => Some(joined.membership),
            Err((call, error)) => {
                let name = &rail.info.name;
                tracing::debug!("rail {name} joined a group without librdmacm: {call}: {error}");
                None
            }
        };
        Ok(Self {
            address,
            path: path(&rail.local, address.mgid, 0),
            lid: 0,
            _ip: Some(membership),
            _cm: cm,
        })
    }

    fn join_infiniband(rail: &Rail, address: GroupAddress) -> Result<Self, cm::Failed> {
        let info = &rail.info;
        let source = ipoib_address(&info.device, info.port).ok_or_else(|| {
            let words =
                "the port has no IPoIB interface with an address, by which groups are joined";
            (
                "looking for IPoIB",
                io::Error::new(io::ErrorKind::NotFound, words),
            )
        })?;
        let mgid = IpAddr::V6(Ipv6Addr::from(address.mgid));
        let joined = cm::join(source, 0, mgid)?;
        // SAFETY: a plain number and 16 bytes share the union; any bytes are a GID.
        let mgid = unsafe { joined.path.grh.dgid.raw };
        Ok(Self {
            address: GroupAddress {
                mgid,
                q_key: joined.q_key,
            },
            lid: joined.path.dlid,
            path: joined.path,
            _ip: None,
            _cm: Some(joined.membership),
        })
    }
}

/// An address of an IPoIB interface of a port.
fn ipoib_address(device: &str, port: u8) -> Option<IpAddr> {
    let classes = std::path::Path::new(super::sysfs::CLASSES);
    let names = super::sysfs::ipoib_interfaces(classes, device, port);
    let interfaces = nix::ifaddrs::getifaddrs().ok()?;
    let mut ours = interfaces.filter(|interface| names.contains(&interface.interface_name));
    ours.find_map(|interface| super::device::ip(&interface.address))
}
