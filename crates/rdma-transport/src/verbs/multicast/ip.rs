//! Joining a group at the level of IP, as RoCE needs it: the interface then lets the group's frames in,
//! and switches and routers learn of the member by IGMP or MLD. `ibv_attach_mcast` does none of that,
//! and without it nothing arrives and nothing complains.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

/// Membership of an interface in a group; ends with the socket, also if the process dies.
#[derive(Debug)]
pub struct IpMembership(#[expect(dead_code, reason = "held open")] OwnedFd);

impl IpMembership {
    /// Joins `group` on the interface with index `interface`, or `source` if that is 0. A socket of
    /// its own for each: the system bounds memberships per socket.
    ///
    /// # Errors
    /// The failed call and the system's reason.
    pub fn join(
        group: IpAddr,
        interface: u32,
        source: IpAddr,
    ) -> Result<Self, (&'static str, io::Error)> {
        match (group, source) {
            (IpAddr::V4(group), IpAddr::V4(source)) => Self::join_v4(group, interface, source),
            (IpAddr::V6(group), _) => Self::join_v6(group, interface),
            _ => Err(("IP_ADD_MEMBERSHIP", io::ErrorKind::InvalidInput.into())),
        }
    }

    fn join_v4(
        group: Ipv4Addr,
        interface: u32,
        source: Ipv4Addr,
    ) -> Result<Self, (&'static str, io::Error)> {
        let address = |ip: Ipv4Addr| libc::in_addr {
            s_addr: ip.to_bits().to_be(),
        };
        let request = libc::ip_mreqn {
            imr_multiaddr: address(group),
            imr_address: address(source),
            imr_ifindex: interface as i32,
        };
        let socket = open(AddressFamily::Inet)?;
        set(
            &socket,
            (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP),
            &request,
        )
        .map_err(|error| ("IP_ADD_MEMBERSHIP", error))?;
        Ok(Self(socket))
    }

    fn join_v6(group: Ipv6Addr, interface: u32) -> Result<Self, (&'static str, io::Error)> {
        let request = libc::ipv6_mreq {
            ipv6mr_multiaddr: libc::in6_addr {
                s6_addr: group.octets(),
            },
            ipv6mr_interface: interface,
        };
        let socket = open(AddressFamily::Inet6)?;
        let option = (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP);
        set(&socket, option, &request).map_err(|error| ("IPV6_JOIN_GROUP", error))?;
        Ok(Self(socket))
    }
}

fn open(family: AddressFamily) -> Result<OwnedFd, (&'static str, io::Error)> {
    let opened = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    opened.map_err(|errno| ("socket", errno.into()))
}

fn set<T>(socket: &OwnedFd, (level, option): (i32, i32), value: &T) -> io::Result<()> {
    let (value, bytes) = (std::ptr::from_ref(value).cast(), size_of::<T>());
    // SAFETY: the value is that of the option, read during the call.
    let status =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, bytes as u32) };
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memberships() -> String {
        std::fs::read_to_string("/proc/net/igmp").expect("a host with IPv4")
    }

    #[test]
    fn the_interface_is_a_member_until_the_socket_closes() {
        let group = Ipv4Addr::new(239, 190, 17, 201);
        // As the kernel prints it: the bytes of the address as a number of this machine.
        let printed = format!("{:08X}", u32::from_ne_bytes(group.octets()));
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let lo = nix::net::if_::if_nametoindex("lo").expect("a loopback interface");
        assert!(!memberships().contains(&printed));
        let joined = IpMembership::join(group.into(), lo, here).expect("joined");
        let again = IpMembership::join(group.into(), 0, here).expect("by address");
        assert!(memberships().contains(&printed));
        drop(joined);
        assert!(memberships().contains(&printed), "one is left");
        drop(again);
        assert!(!memberships().contains(&printed));
    }

    #[test]
    fn what_is_no_group_is_refused_with_the_call_s_name() {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (call, _) = IpMembership::join(here, 0, here).expect_err("no group");
        assert_eq!(call, "IP_ADD_MEMBERSHIP");
        let none = IpAddr::V6(Ipv6Addr::LOCALHOST);
        assert!(IpMembership::join(none, 1, none).is_err());
    }
}
