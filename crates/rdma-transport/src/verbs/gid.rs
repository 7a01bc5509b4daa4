//! Which entry of a port's GID table a rail uses.

use ibverbs::{Gid, GidEntry, ibv_gid_type};
use std::net::Ipv6Addr;

/// `IBV_GID_TYPE_ROCE_V2`.
const ROCE_V2: ibv_gid_type = ibverbs_sys::IBV_GID_TYPE_ROCE_V2;

/// An address to send from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Position in the port's table.
    pub index: u8,
    /// The address itself.
    pub gid: Gid,
    /// Whether packets from it are RoCE v2.
    pub roce_v2: bool,
    /// The network interface it belongs to, 0 if none.
    pub interface: u32,
}

impl Source {
    /// The address in network order.
    pub fn octets(&self) -> [u8; 16] {
        address(&self.gid).octets()
    }
}

fn address(gid: &Gid) -> Ipv6Addr {
    let (high, low) = (gid.subnet_prefix(), gid.interface_id());
    Ipv6Addr::from((u128::from(high) << 64) | u128::from(low))
}

/// Chooses among the entries of `port`: the one at `forced`, index 0 on InfiniBand, else the best
/// RoCE address — version 2 over 1 (it is routable), IPv4-mapped over IPv6 over link-local (every
/// host with an IPv4 address has the same kind, and link-local ones reach one segment only).
/// Among equals the lowest index wins. `None` if there is none.
pub fn choose(table: &[GidEntry], port: u8, ethernet: bool, forced: Option<u32>) -> Option<Source> {
    let rank = |entry: &GidEntry| {
        let address = address(&entry.gid);
        let kind = match address {
            _ if address.to_ipv4_mapped().is_some() => 0,
            _ if address.is_unicast_link_local() => 2,
            _ => 1,
        };
        (entry.gid_type != ROCE_V2, kind, entry.gid_index)
    };
    let mut entries = table
        .iter()
        .filter(|entry| entry.port_num == u32::from(port) && entry.gid_index <= u32::from(u8::MAX));
    let chosen = match forced {
        Some(index) => entries.find(|entry| entry.gid_index == index),
        None if ethernet => entries.min_by_key(|entry| rank(entry)),
        None => entries.find(|entry| entry.gid_index == 0),
    };
    chosen.map(|entry| Source {
        index: entry.gid_index as u8,
        gid: entry.gid,
        roce_v2: entry.gid_type == ROCE_V2,
        interface: entry.ndev_ifindex,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(port: u32, index: u32, kind: ibv_gid_type, address: &str) -> GidEntry {
        let raw = address.parse::<Ipv6Addr>().unwrap().octets();
        GidEntry {
            gid: ibverbs_sys::ibv_gid { raw }.into(),
            gid_index: index,
            port_num: port,
            gid_type: kind,
            ndev_ifindex: 0,
        }
    }

    fn table() -> Vec<GidEntry> {
        vec![
            entry(1, 0, 1, "fe80::1"),
            entry(1, 1, 2, "fe80::1"),
            entry(1, 2, 2, "fd10::1"),
            entry(1, 3, 1, "::ffff:10.0.0.1"),
            entry(1, 4, 2, "::ffff:10.0.0.1"),
            entry(2, 0, 2, "::ffff:10.0.1.1"),
        ]
    }

    fn index(table: &[GidEntry], forced: Option<u32>) -> Option<u8> {
        choose(table, 1, true, forced).map(|source| source.index)
    }

    #[test]
    fn version_2_with_an_ipv4_address_comes_first() {
        let mut table = table();
        let source = choose(&table, 1, true, None).unwrap();
        assert_eq!(
            (source.index, Ipv6Addr::from(source.octets()).to_string()),
            (4, "::ffff:10.0.0.1".to_owned())
        );
        table.remove(4);
        assert_eq!(index(&table, None), Some(2));
        table.remove(2);
        assert_eq!(index(&table, None), Some(1));
        table.remove(1);
        assert_eq!(
            index(&table, None),
            Some(3),
            "version 1 is better than nothing"
        );
        assert_eq!(choose(&table, 3, true, None), None);
    }

    #[test]
    fn settings_and_infiniband_go_by_index() {
        assert_eq!(index(&table(), Some(2)), Some(2));
        assert_eq!(index(&table(), Some(77)), None);
        assert_eq!(choose(&table(), 1, false, None).unwrap().index, 0);
    }
}
