//! The local end of a membership, for which nothing of the fabric need live on.

use super::super::rail::Rail;
use super::address::{self, MemberAddress};
use super::path_by_gid;
use ibverbs_sys as ffi;
use std::net::IpAddr;

/// What devices put before a datagram's data: a global route header, or an IPv4 header in its last
/// 20 bytes.
pub const ROUTE_BYTES: usize = 40;

/// A rail's port.
pub struct Port {
    /// Name of the rail.
    pub rail: String,
    /// Its plane.
    pub plane: u8,
    /// Its address; all zero on InfiniBand if it has none but its LID.
    pub gid: [u8; 16],
    /// Local identifier of an InfiniBand port, 0 on Ethernet.
    pub lid: u16,
    is_ethernet: bool,
    /// The way to a GID, but for that.
    path: ffi::ibv_ah_attr,
}

impl Port {
    /// The end of `rail`.
    pub fn of(rail: &Rail) -> Self {
        let port_address = rail.local.here.address;
        Self {
            rail: rail.info.name.clone(),
            plane: rail.info.plane,
            gid: port_address.gid,
            lid: rail.lid,
            is_ethernet: port_address.link.is_ethernet(),
            path: path_by_gid(rail, [0; 16]),
        }
    }

    /// The way to a member: by GID on Ethernet, by LID inside an InfiniBand fabric.
    pub fn path_to(&self, member: &MemberAddress) -> ffi::ibv_ah_attr {
        let mut path = self.path;
        match self.is_ethernet {
            true => path.grh.dgid = ffi::ibv_gid { raw: member.gid },
            false => {
                path.is_global = 0;
                path.dlid = member.lid;
            }
        }
        path
    }

    /// Whether the header `route` before a datagram's data names this port as its source.
    pub fn sent(&self, route: &[u8]) -> bool {
        match address::ip(self.gid) {
            IpAddr::V4(_) if self.is_ethernet => route[32..36] == self.gid[12..],
            _ => route[8..24] == self.gid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    #[test]
    fn the_source_is_found_in_both_kinds_of_header() {
        let port = |address: &str| Port {
            rail: "rxe0:1".to_owned(),
            plane: 0,
            gid: address.parse::<Ipv6Addr>().unwrap().octets(),
            lid: 0,
            is_ethernet: true,
            path: ffi::ibv_ah_attr::default(),
        };
        let mut route = [0xee; ROUTE_BYTES];
        // An IPv4 header in the last 20 bytes: its source is 12 bytes further on.
        route[32..36].copy_from_slice(&[10, 0, 0, 7]);
        assert!(port("::ffff:10.0.0.7").sent(&route));
        assert!(!port("::ffff:10.0.0.8").sent(&route));
        assert!(!port("fd10::7").sent(&route));
        route[8..24].copy_from_slice(&port("fd10::7").gid);
        assert!(port("fd10::7").sent(&route));
    }
}
