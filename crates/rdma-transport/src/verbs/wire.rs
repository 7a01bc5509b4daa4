//! What a peer needs to connect its queue pairs to ours, as bytes for the out-of-band exchange.

use ferrorail_fabric::{FabricError, RAILS_MAX};

/// Start of every address; the last byte is the version of the format.
const MAGIC: [u8; 4] = *b"FRV\x01";

/// One rail's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailAddress {
    /// Peers connect equal planes.
    pub plane: u8,
    /// Whether the port speaks Ethernet (RoCE) rather than InfiniBand.
    pub ethernet: bool,
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
    /// Address of the port.
    pub gid: [u8; 16],
}

impl RailAddress {
    const BYTES: usize = 30;

    fn pack(&self, wire: &mut Vec<u8>) {
        wire.extend([self.plane, u8::from(self.ethernet), self.mtu, self.reads_in]);
        wire.extend(self.lid.to_le_bytes());
        wire.extend(self.queue_pair.to_le_bytes());
        wire.extend(self.packet_sequence.to_le_bytes());
        wire.extend(self.gid);
    }

    fn unpack(wire: &[u8; Self::BYTES]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| wire[at + i]));
        let mut gid = [0; 16];
        gid.copy_from_slice(&wire[14..]);
        let address = Self {
            plane: wire[0],
            ethernet: wire[1] == 1,
            mtu: wire[2],
            reads_in: wire[3],
            lid: u16::from_le_bytes([wire[4], wire[5]]),
            queue_pair: word(6),
            packet_sequence: word(10),
            gid,
        };
        let sound = usize::from(address.plane) < RAILS_MAX
            && wire[1] <= 1
            && (1..=5).contains(&address.mtu)
            && address.queue_pair < 1 << 24
            && address.packet_sequence < 1 << 24;
        sound.then_some(address)
    }
}

/// All rails of one end.
pub fn pack(rails: &[RailAddress]) -> Vec<u8> {
    let mut wire = Vec::with_capacity(MAGIC.len() + 1 + rails.len() * RailAddress::BYTES);
    wire.extend(MAGIC);
    wire.push(rails.len() as u8);
    for rail in rails {
        rail.pack(&mut wire);
    }
    wire
}

/// Inverse of [`pack`].
pub fn unpack(wire: &[u8]) -> Result<Vec<RailAddress>, FabricError> {
    try_unpack(wire).ok_or(FabricError::BadPeerData {
        what: "address of verbs rails",
    })
}

fn try_unpack(wire: &[u8]) -> Option<Vec<RailAddress>> {
    let (&count, rails) = wire.strip_prefix(&MAGIC)?.split_first()?;
    let (rails, rest) = rails.as_chunks();
    let sound = rest.is_empty() && rails.len() == usize::from(count) && rails.len() <= RAILS_MAX;
    sound.then(|| rails.iter().map(RailAddress::unpack).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rail(plane: u8) -> RailAddress {
        RailAddress {
            plane,
            ethernet: plane == 1,
            mtu: 5,
            reads_in: 16,
            lid: 0x1234,
            queue_pair: 0x00ab_cdef,
            packet_sequence: 0x0012_3456,
            gid: [plane; 16],
        }
    }

    #[test]
    fn addresses_survive_the_wire() {
        let rails = [rail(0), rail(1), rail(7)];
        assert_eq!(unpack(&pack(&rails)).unwrap(), rails);
        assert_eq!(unpack(&pack(&[])).unwrap(), []);
    }

    #[test]
    fn anything_else_is_refused() {
        let wire = pack(&[rail(0), rail(1)]);
        for cut in 0..wire.len() {
            assert!(unpack(&wire[..cut]).is_err());
        }
        for (at, byte) in [(3, 2), (4, 1), (5, 8), (6, 2), (7, 0), (14, 1)] {
            let mut wire = wire.clone();
            wire[at] = byte;
            assert!(unpack(&wire).is_err(), "byte {at} = {byte}");
        }
    }
}
