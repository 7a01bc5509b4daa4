//! Whether two ports can talk to each other, as far as their addresses tell.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// What a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// InfiniBand.
    InfiniBand,
    /// RDMA over Ethernet frames, which nothing routes.
    RoceV1,
    /// RDMA over UDP.
    RoceV2,
}

impl Link {
    /// Whether packets go by GID over Ethernet.
    pub fn is_ethernet(self) -> bool {
        self != Self::InfiniBand
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfiniBand => "InfiniBand",
            Self::RoceV1 => "RoCE v1",
            Self::RoceV2 => "RoCE v2",
        })
    }
}

/// One end of a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAddress {
    /// What it speaks.
    pub link: Link,
    /// Its address; all zero on InfiniBand if it has none but its LID.
    pub gid: [u8; 16],
}

/// This process's end of a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    /// What peers see of it.
    pub address: PortAddress,
    /// Bits of its address that the hosts of its subnet share, if known.
    pub prefix_bits: Option<u8>,
    /// Index of the network interface, 0 if there is none.
    pub interface: u32,
}

/// Why two ends cannot talk to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// One speaks Ethernet, the other InfiniBand.
    LinkLayers,
    /// InfiniBand ports of different fabrics.
    Fabrics,
    /// RoCE of different versions.
    Versions,
    /// One address is IPv4, the other IPv6.
    Families,
    /// RoCE v1 addresses of different subnets: frames are not routed.
    Segments,
    /// Addresses of different subnets, and no route between them.
    Subnets,
}

impl Obstacle {
    /// What is wrong, and what helps.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::LinkLayers => (
                "one is Ethernet, the other InfiniBand",
                "name rails in the same order on all hosts (FERRORAIL_RAILS)",
            ),
            Self::Fabrics => (
                "their InfiniBand subnet prefixes differ",
                "name rails in the same order on all hosts (FERRORAIL_RAILS), or give both ports' \
                 subnet managers one prefix",
            ),
            Self::Versions => (
                "they speak different versions of RoCE",
                "choose GIDs of one version (FERRORAIL_GID_INDEX)",
            ),
            Self::Families => (
                "one address is IPv4, the other IPv6",
                "give both interfaces IPv4 addresses, or choose GIDs of one kind \
                 (FERRORAIL_GID_INDEX)",
            ),
            Self::Segments => (
                "their subnets differ, and RoCE v1 is not routed",
                "choose RoCE v2 addresses (FERRORAIL_GID_INDEX), or name rails in the same order on \
                 all hosts (FERRORAIL_RAILS)",
            ),
            Self::Subnets => (
                "their subnets differ, and no route of that interface leads there",
                "name rails in the same order on all hosts (FERRORAIL_RAILS), or add a route",
            ),
        }
    }
}

impl PortAddress {
    /// The address as users write it.
    pub fn address(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.gid)
    }

    fn ip(&self) -> IpAddr {
        let address = self.address();
        match address.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(address),
        }
    }
}

impl Here {
    /// Bits by which `theirs` must agree with this address; `None` if unknown.
    fn shares_subnet(&self, theirs: &PortAddress) -> Option<bool> {
        // Bits of the GID: an IPv4 address is its last 32.
        let family_bits = if self.address.ip().is_ipv4() { 96 } else { 0 };
        let bits = family_bits + u32::from(self.prefix_bits?);
        let differing = u128::from_be_bytes(self.address.gid) ^ u128::from_be_bytes(theirs.gid);
        Some(bits == 0 || differing.leading_zeros() >= bits.min(128))
    }

    /// What keeps this end from reaching `theirs`. `leads` tells whether the routing tables lead
    /// from an address through an interface to another, if that is known; what is not known is left
    /// for connecting to find out.
    pub fn obstacle(
        &self,
        theirs: &PortAddress,
        leads: impl FnOnce(IpAddr, u32, IpAddr) -> Option<bool>,
    ) -> Option<Obstacle> {
        let mine = &self.address;
        match (mine.link, theirs.link) {
            (Link::InfiniBand, Link::InfiniBand) => {
                return (mine.gid[..8] != theirs.gid[..8]).then_some(Obstacle::Fabrics);
            }
            (a, b) if a.is_ethernet() != b.is_ethernet() => return Some(Obstacle::LinkLayers),
            (a, b) if a != b => return Some(Obstacle::Versions),
            _ => {}
        }
        if mine.ip().is_ipv4() != theirs.ip().is_ipv4() {
            return Some(Obstacle::Families);
        }
        match self.shares_subnet(theirs) {
            Some(false) if mine.link == Link::RoceV1 => Some(Obstacle::Segments),
            Some(false) => {
                let led = leads(mine.ip(), self.interface, theirs.ip());
                (led == Some(false)).then_some(Obstacle::Subnets)
            }
            Some(true) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(link: Link, address: &str) -> PortAddress {
        let gid = address.parse::<Ipv6Addr>().unwrap().octets();
        PortAddress { link, gid }
    }

    fn obstacle(
        mine: PortAddress,
        bits: Option<u8>,
        theirs: PortAddress,
        led: Option<bool>,
    ) -> Option<Obstacle> {
        let here = Here {
            address: mine,
            prefix_bits: bits,
            interface: 7,
        };
        here.obstacle(&theirs, |source, interface, destination| {
            assert_eq!((source, interface), (mine.ip(), 7));
            assert_eq!(destination, theirs.ip());
            led
        })
    }

    #[test]
    fn subnets_of_roce_v2() {
        let v2 = |address| end(Link::RoceV2, address);
        let (a, b) = (v2("::ffff:10.0.1.1"), v2("::ffff:10.0.2.1"));
        assert_eq!(
            obstacle(a, Some(24), b, Some(false)),
            Some(Obstacle::Subnets)
        );
        assert_eq!(
            obstacle(a, Some(24), b, Some(true)),
            None,
            "a routed fabric"
        );
        assert_eq!(obstacle(a, Some(24), b, None), None, "connecting will tell");
        assert_eq!(obstacle(a, Some(16), b, Some(false)), None, "one subnet");
        assert_eq!(obstacle(a, None, b, Some(false)), None, "no netmask known");
        assert_eq!(obstacle(a, Some(32), a, Some(false)), None, "itself");
        let (a, b) = (v2("fd10::1:0:0:0:1"), v2("fd10::2:0:0:0:1"));
        assert_eq!(
            obstacle(a, Some(64), b, Some(false)),
            Some(Obstacle::Subnets)
        );
        let (a, b) = (v2("fe80::1"), v2("fe80::2"));
        assert_eq!(obstacle(a, Some(64), b, Some(false)), None);
    }

    #[test]
    fn kinds_of_addresses_do_not_mix() {
        let infiniband = end(Link::InfiniBand, "fe80::1");
        let v1 = end(Link::RoceV1, "::ffff:10.0.0.1");
        let v2 = end(Link::RoceV2, "::ffff:10.0.0.2");
        let six = end(Link::RoceV2, "fd10::1");
        for (a, b, expected) in [
            (infiniband, v2, Obstacle::LinkLayers),
            (v1, v2, Obstacle::Versions),
            (v2, six, Obstacle::Families),
        ] {
            for (a, b) in [(a, b), (b, a)] {
                assert_eq!(obstacle(a, Some(8), b, Some(true)), Some(expected));
            }
        }
        let elsewhere = end(Link::RoceV1, "::ffff:10.9.0.1");
        let found = obstacle(v1, Some(24), elsewhere, Some(true));
        assert_eq!(found, Some(Obstacle::Segments), "routes do not help frames");
    }

    #[test]
    fn infiniband_fabrics_go_by_their_prefixes() {
        let a = end(Link::InfiniBand, "fe80::2:c903:0:1");
        let b = end(Link::InfiniBand, "fe80::2:c903:0:2");
        let c = end(Link::InfiniBand, "fec0:0:0:1:2:c903:0:3");
        assert_eq!(obstacle(a, None, b, None), None);
        assert_eq!(obstacle(a, None, c, None), Some(Obstacle::Fabrics));
    }
}
