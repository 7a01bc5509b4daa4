//! What a peer needs to connect its queue pairs to ours, as bytes for the out-of-band exchange.

use super::reach::{Link, PortAddress};
use ferrorail_fabric::{FabricError, RAILS_MAX};

/// Start of every address; the last byte is the version of the format.
const MAGIC: [u8; 4] = *b"FRV\x02";

/// Longest name on the wire, in bytes.
const NAME_MAX: usize = 63;

/// A process's addresses of its rails, with names for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessAddress {
    /// Its host.
    pub host: String,
    /// The rails.
    pub rails: Vec<(RailAddress, String)>,
}

/// One rail's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailAddress {
    /// Peers connect equal planes.
    pub plane: u8,
    /// Largest packet, as `enum ibv_mtu`: 1 is 256 bytes, 5 is 4096.
    pub mtu: u8,
    /// RDMA reads and atomics the device accepts at a time per queue pair.
    pub reads_in: u8,
    /// Local identifier of an InfiniBand port, 0 on Ethernet.
    pub lid: u16,
    /// Number of the queue pair that belongs to the peer.
    pub queue_pair: u32,
    /// First packet sequence number it sends.
    pub packet_sequence: u32,
    /// What the port speaks, and its address.
    pub address: PortAddress,
}

impl RailAddress {
    const BYTES: usize = 30;

    fn pack(&self, wire: &mut Vec<u8>) {
        let link = match self.address.link {
            Link::InfiniBand => 0,
            Link::RoceV1 => 1,
            Link::RoceV2 => 2,
        };
        wire.extend([self.plane, link, self.mtu, self.reads_in]);
        wire.extend(self.lid.to_le_bytes());
        wire.extend(self.queue_pair.to_le_bytes());
        wire.extend(self.packet_sequence.to_le_bytes());
        wire.extend(self.address.gid);
    }

    fn unpack(wire: &[u8; Self::BYTES]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| wire[at + i]));
        let mut gid = [0; 16];
        gid.copy_from_slice(&wire[14..]);
        let address = Self {
            plane: wire[0],
            mtu: wire[2],
            reads_in: wire[3],
            lid: u16::from_le_bytes([wire[4], wire[5]]),
            queue_pair: word(6),
            packet_sequence: word(10),
            address: PortAddress {
                link: [Link::InfiniBand, Link::RoceV1, Link::RoceV2]
                    .get(usize::from(wire[1]))
                    .copied()?,
                gid,
            },
        };
        let sound = usize::from(address.plane) < RAILS_MAX
            && (1..=5).contains(&address.mtu)
            && address.queue_pair < 1 << 24
            && address.packet_sequence < 1 << 24;
        sound.then_some(address)
    }
}

/// The bytes of `addresses`.
pub fn pack(addresses: &ProcessAddress) -> Vec<u8> {
    let mut wire = MAGIC.to_vec();
    wire.push(addresses.rails.len() as u8);
    pack_name(&mut wire, &addresses.host);
    for (rail, name) in &addresses.rails {
        rail.pack(&mut wire);
        pack_name(&mut wire, name);
    }
    wire
}

fn pack_name(wire: &mut Vec<u8>, name: &str) {
    let fits = |&end: &usize| end <= name.len() && name.is_char_boundary(end);
    let end = (0..=NAME_MAX).rev().find(fits).unwrap_or(0);
    let name = &name[..end];
    wire.push(name.len() as u8);
    wire.extend(name.as_bytes());
}

/// Inverse of [`pack`].
pub fn unpack(wire: &[u8]) -> Result<ProcessAddress, FabricError> {
    try_unpack(wire).ok_or(FabricError::BadPeerData {
        what: "address of verbs rails",
    })
}

fn try_unpack(wire: &[u8]) -> Option<ProcessAddress> {
    let (&count, mut rest) = wire.strip_prefix(&MAGIC)?.split_first()?;
    if usize::from(count) > RAILS_MAX {
        return None;
    }
    let host = unpack_name(&mut rest)?;
    let mut rails = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let (rail, after) = rest.split_first_chunk()?;
        rest = after;
        rails.push((RailAddress::unpack(rail)?, unpack_name(&mut rest)?));
    }
    rest.is_empty().then_some(ProcessAddress { host, rails })
}

fn unpack_name(wire: &mut &[u8]) -> Option<String> {
    let (&bytes, rest) = wire.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(bytes))?;
    *wire = rest;
    let name = std::str::from_utf8(name).ok()?;
    // Names go to the terminal.
    (!name.contains(char::is_control)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rail(plane: u8) -> RailAddress {
        RailAddress {
            plane,
            mtu: 5,
            reads_in: 16,
            lid: 0x1234,
            queue_pair: 0x00ab_cdef,
            packet_sequence: 0x0012_3456,
            address: PortAddress {
                link: [Link::InfiniBand, Link::RoceV1, Link::RoceV2][usize::from(plane % 3)],
                gid: [plane; 16],
            },
        }
    }

    fn addresses(planes: &[u8]) -> ProcessAddress {
        let named = |&plane: &u8| (rail(plane), format!("mlx5_{plane}:1"));
        ProcessAddress {
            host: "node17".to_owned(),
            rails: planes.iter().map(named).collect(),
        }
    }

    #[test]
    fn addresses_survive_the_wire() {
        for addresses in [addresses(&[0, 1, 2, 7]), addresses(&[])] {
            assert_eq!(unpack(&pack(&addresses)).unwrap(), addresses);
        }
        let long = ProcessAddress {
            host: "ä".repeat(40),
            ..addresses(&[])
        };
        assert_eq!(unpack(&pack(&long)).unwrap().host, "ä".repeat(31));
    }

    #[test]
    fn anything_else_is_refused() {
        let wire = pack(&addresses(&[0, 1]));
        for cut in 0..wire.len() {
            assert!(unpack(&wire[..cut]).is_err());
        }
        for (at, byte) in [
            (3, 1),
            (4, 1),
            (5, 7),
            (6, 7),
            (12, 8),
            (13, 3),
            (14, 0),
            (21, 1),
        ] {
            let mut wire = wire.clone();
            wire[at] = byte;
            assert!(unpack(&wire).is_err(), "byte {at} = {byte}");
        }
    }
}
