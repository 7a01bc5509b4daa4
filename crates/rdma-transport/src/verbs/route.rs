//! Asking the kernel whether an address is reached through one interface.

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

/// Have the answer be an entry of the routing tables: without this, the kernel takes whatever no
/// entry covers for a neighbour.
const MATCH_ENTRY: u32 = 0x2000;
const HEADER: usize = 16;
const ROUTE: usize = 12;

/// Whether the routing tables lead from `source` through `interface` to `destination`; `None` if
/// the kernel does not say.
pub fn leads(source: IpAddr, interface: u32, destination: IpAddr) -> Option<bool> {
    let request = request(source, interface, destination)?;
    let answer = exchange(&request);
    if let Err(error) = &answer {
        tracing::debug!("no answer from the routing tables: {error}");
    }
    verdict(&answer.ok()?)
}

fn request(source: IpAddr, interface: u32, destination: IpAddr) -> Option<Vec<u8>> {
    let (family, source, destination) = match (source, destination) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (libc::AF_INET, a.octets().to_vec(), b.octets().to_vec()),
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (libc::AF_INET6, a.octets().to_vec(), b.octets().to_vec())
        }
        _ => return None,
    };
    let bits = 8 * destination.len() as u8;
    let mut body = vec![family as u8, bits, bits, 0, 0, 0, 0, 0];
    body.extend(MATCH_ENTRY.to_ne_bytes());
    attribute(&mut body, libc::RTA_DST, &destination);
    attribute(&mut body, libc::RTA_SRC, &source);
    attribute(&mut body, libc::RTA_OIF, &interface.to_ne_bytes());
    let mut request = Vec::with_capacity(HEADER + body.len());
    request.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    request.extend(libc::RTM_GETROUTE.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    Some(request)
}

fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
}

fn exchange(request: &[u8]) -> nix::Result<Vec<u8>> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    // The kernel answers at once; a lost answer must not hang a job.
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(1, 0))?;
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), request, &kernel, MsgFlags::empty())?;
    let mut answer = vec![0; 4096];
    let bytes = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(bytes);
    Ok(answer)
}

/// Reads an answer: a route, or an error that says there is none.
fn verdict(answer: &[u8]) -> Option<bool> {
    let word = |at: usize| Some(i32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    if kind == libc::RTM_NEWROUTE {
        let route = answer.get(HEADER..HEADER + ROUTE)?;
        return Some(matches!(route[7], libc::RTN_UNICAST | libc::RTN_LOCAL));
    }
    if i32::from(kind) != libc::NLMSG_ERROR {
        return None;
    }
    match -word(HEADER)? {
        libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_loopback_interface_leads_to_itself_only() {
        let here = address("127.0.0.1");
        let lo = nix::net::if_::if_nametoindex("lo").expect("a loopback interface");
        assert_eq!(leads(here, lo, address("127.0.0.2")), Some(true));
        assert_eq!(leads(here, lo, address("192.0.2.1")), Some(false));
        assert_eq!(leads(here, lo, address("::1")), None, "families differ");
    }

    #[test]
    fn answers_are_read() {
        let message = |kind: u16, body: &[u8]| {
            let mut wire = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
            wire.extend(kind.to_ne_bytes());
            wire.extend([0; 10]);
            wire.extend(body);
            wire
        };
        let route = |kind| {
            message(
                libc::RTM_NEWROUTE,
                &[2, 24, 0, 0, 254, 2, 0, kind, 0, 0, 0, 0],
            )
        };
        let error = |errno: i32| message(libc::NLMSG_ERROR as u16, &(-errno).to_ne_bytes());
        assert_eq!(verdict(&route(libc::RTN_UNICAST)), Some(true));
        assert_eq!(verdict(&route(libc::RTN_BLACKHOLE)), Some(false));
        assert_eq!(verdict(&error(libc::EHOSTUNREACH)), Some(false));
        assert_eq!(verdict(&error(libc::EPERM)), None);
        for cut in 0..HEADER + 4 {
            assert_eq!(verdict(&error(libc::ENETUNREACH)[..cut]), None);
        }
    }
}
