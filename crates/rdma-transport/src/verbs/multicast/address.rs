//! Addresses of groups on the network, and of members.

use super::super::reach::{Link, PortAddress};
use ferrorail_base::random::SplitMix64;
use ferrorail_fabric::GroupId;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Start of a member's address; the last byte is the version of the format.
const MAGIC: [u8; 4] = *b"FVm1";

/// Where the datagrams of a group go on the network of one rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAddress {
    /// The multicast GID.
    pub mgid: [u8; 16],
    /// What a queue pair must carry to receive them. InfiniBand's is the subnet manager's to say.
    pub q_key: u32,
}

impl GroupAddress {
    /// The address of `group` for a rail of `plane` that ends at `end`; ports of one rail may share a
    /// network with those of another, and are kept apart.
    ///
    /// * RoCE v2 from an IPv4 address: `239.128.0.0/10`, administratively scoped and unassigned (RFC
    ///   2365), with 22 bits of the group;
    /// * RoCE v2 from an IPv6 address: `ff15::/16`, transient and of the site, with 112 bits;
    /// * InfiniBand: `ff12:a01b::/32`, which librdmacm passes on as it is, with 80 bits.
    ///
    /// The Q_Key adds 31 bits on RoCE: datagrams of a group that has the same network address by
    /// chance are dropped by the device.
    pub fn new(group: GroupId, plane: u8, port_address: &PortAddress) -> Self {
        let mixed = mix(group, plane);
        let word = u64::from_be_bytes(*mixed.last_chunk().expect("16 bytes"));
        let mgid = match (port_address.link, port_address.address().to_ipv4_mapped()) {
            (Link::InfiniBand, _) => {
                let mut mgid = mixed;
                // After the scope and the signature comes the partition: the default one.
                mgid[..6].copy_from_slice(&[0xff, 0x12, 0xa0, 0x1b, 0xff, 0xff]);
                mgid
            }
            (_, Some(_)) => {
                let address = Ipv4Addr::from_bits(0xef80_0000 | (word >> 32) as u32 & 0x003f_ffff);
                address.to_ipv6_mapped().octets()
            }
            (_, None) => {
                let mut mgid = mixed;
                mgid[..2].copy_from_slice(&[0xff, 0x15]);
                mgid
            }
        };
        Self {
            mgid,
            // The high bit would ask for a privileged one.
            q_key: word as u32 & 0x7fff_ffff,
        }
    }

    /// The address as IP has it.
    pub fn ip(&self) -> IpAddr {
        ip(self.mgid)
    }
}

/// The IP address that a GID stands for.
pub fn ip(gid: [u8; 16]) -> IpAddr {
    let address = Ipv6Addr::from(gid);
    address
        .to_ipv4_mapped()
        .map_or(IpAddr::V6(address), IpAddr::V4)
}

/// What devices put before a datagram's data: a global route header, or an IPv4 header in its last
/// 20 bytes.
pub const ROUTE_BYTES: usize = 40;

/// Whether the header `route` before a datagram's data names the port with that address as its source.
pub fn is_from(port: &PortAddress, route: &[u8]) -> bool {
    match ip(port.gid) {
        IpAddr::V4(_) if port.link.is_ethernet() => route[32..36] == port.gid[12..],
        _ => route[8..24] == port.gid,
    }
}

/// Bits that differ between groups and planes wherever one looks.
fn mix(group: GroupId, plane: u8) -> [u8; 16] {
    let (low, high) = group.0.split_at(8);
    let scatter = |word| SplitMix64(word).draw();
    let word = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("8 bytes"));
    let first = scatter(word(low) ^ scatter(u64::from(plane) + 1));
    let second = scatter(word(high) ^ first);
    let mut mixed = [0; 16];
    mixed[..8].copy_from_slice(&scatter(first ^ second).to_be_bytes());
    mixed[8..].copy_from_slice(&second.to_be_bytes());
    mixed
}

/// What others need to reach one member, and to see that they mean the same group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberAddress {
    /// The plane of its rail.
    pub plane: u8,
    /// The group.
    pub group: GroupId,
    /// Where that is on the member's network.
    pub mgid: [u8; 16],
    /// The member's own address; all zero on InfiniBand if it has none but its LID.
    pub gid: [u8; 16],
    /// Local identifier of an InfiniBand port, 0 on Ethernet.
    pub lid: u16,
    /// Its queue pair; 24 bits.
    pub queue_pair: u32,
}

impl MemberAddress {
    const BYTES: usize = 4 + 1 + 3 * 16 + 2 + 4;

    /// As bytes for the out-of-band exchange.
    pub fn to_wire(self) -> Vec<u8> {
        let mut wire = MAGIC.to_vec();
        wire.push(self.plane);
        for part in [self.group.0, self.mgid, self.gid] {
            wire.extend(part);
        }
        wire.extend(self.lid.to_le_bytes());
        wire.extend(self.queue_pair.to_le_bytes());
        wire
    }

    /// Inverse of [`MemberAddress::to_wire`].
    pub fn from_wire(wire: &[u8]) -> Option<Self> {
        let wire: &[u8; Self::BYTES] = wire.try_into().ok()?;
        let (magic, rest) = wire.split_first_chunk()?;
        let (plane, rest) = rest.split_first()?;
        let (group, rest) = rest.split_first_chunk()?;
        let (mgid, rest) = rest.split_first_chunk()?;
        let (gid, rest) = rest.split_first_chunk()?;
        let (lid, rest) = rest.split_first_chunk()?;
        let address = Self {
            plane: *plane,
            group: GroupId(*group),
            mgid: *mgid,
            gid: *gid,
            lid: u16::from_le_bytes(*lid),
            queue_pair: u32::from_le_bytes(rest.try_into().ok()?),
        };
        (*magic == MAGIC && address.queue_pair < 1 << 24).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn end(link: Link, address: &str) -> PortAddress {
        let gid = address.parse::<Ipv6Addr>().unwrap().octets();
        PortAddress { link, gid }
    }

    fn group(number: u128) -> GroupId {
        GroupId(number.to_le_bytes())
    }

    #[test]
    fn the_source_is_found_in_both_kinds_of_header() {
        let port = |address| end(Link::RoceV2, address);
        let mut route = [0xee; ROUTE_BYTES];
        // An IPv4 header in the last 20 bytes: its source is 12 bytes further on.
        route[32..36].copy_from_slice(&[10, 0, 0, 7]);
        assert!(is_from(&port("::ffff:10.0.0.7"), &route));
        assert!(!is_from(&port("::ffff:10.0.0.8"), &route));
        assert!(!is_from(&port("fd10::7"), &route));
        route[8..24].copy_from_slice(&port("fd10::7").gid);
        assert!(is_from(&port("fd10::7"), &route));
    }

    #[test]
    fn groups_are_in_the_family_of_the_rail() {
        let of = |link, address| GroupAddress::new(group(7), 0, &end(link, address));
        let v4 = of(Link::RoceV2, "::ffff:10.0.0.1");
        let IpAddr::V4(ip) = v4.ip() else {
            panic!("{:?}", v4.ip());
        };
        assert!(ip.is_multicast() && ip.octets()[0] == 239);
        assert!((128..192).contains(&ip.octets()[1]), "{ip}");
        let v6 = of(Link::RoceV2, "fd10::1");
        assert_eq!(v6.mgid[..2], [0xff, 0x15]);
        assert!(matches!(v6.ip(), IpAddr::V6(ip) if ip.is_multicast()));
        let ib = of(Link::InfiniBand, "fe80::2:c903:1");
        assert_eq!(ib.mgid[..6], [0xff, 0x12, 0xa0, 0x1b, 0xff, 0xff]);
        assert_eq!((v4.q_key, v4.q_key >> 31), (v6.q_key, 0));
    }

    #[test]
    fn all_members_agree_and_others_differ() {
        let (here, there) = ("::ffff:10.0.0.1", "::ffff:10.1.2.3");
        let of = |number, plane, address| {
            GroupAddress::new(group(number), plane, &end(Link::RoceV2, address))
        };
        assert_eq!(of(1, 0, here), of(1, 0, there));
        assert_ne!(of(1, 0, here), of(1, 1, here), "planes may share a network");
        let numbers = (0..1000).flat_map(|i: u128| [i, i << 64, i << 120]);
        let distinct: HashSet<u128> = numbers.collect();
        let with_key = |&number: &u128| {
            let address = of(number, 0, here);
            (address.mgid, address.q_key)
        };
        let addresses: HashSet<_> = distinct.iter().map(with_key).collect();
        assert_eq!(addresses.len(), distinct.len());
        let networks: HashSet<_> = addresses.iter().map(|(mgid, _)| mgid).collect();
        assert!(networks.len() > distinct.len() - 10, "22 bits of them");
    }

    #[test]
    fn members_survive_the_wire_and_nothing_else_does() {
        let member = MemberAddress {
            plane: 3,
            group: group(5 << 77),
            mgid: [1; 16],
            gid: [2; 16],
            lid: 0x1234,
            queue_pair: 0x00ab_cdef,
        };
        let wire = member.to_wire();
        assert_eq!(MemberAddress::from_wire(&wire), Some(member));
        for cut in 0..wire.len() {
            assert_eq!(MemberAddress::from_wire(&wire[..cut]), None);
        }
        for (at, byte) in [(0, 0), (3, b'2'), (MemberAddress::BYTES - 1, 1)] {
            let mut wire = wire.clone();
            wire[at] = byte;
            assert_eq!(MemberAddress::from_wire(&wire), None);
        }
        let longer = [wire, vec![0]].concat();
        assert_eq!(MemberAddress::from_wire(&longer), None);
    }
}
