//! What the two sides of a pair tell each other to connect.
//!
//! ```text
//! magic 4 │ planes u8 │ fields u32 │ bytes of the host's name u32, name │ bytes of the fabric's address u32, address │ control block
//! ```

const MAGIC: [u8; 4] = *b"FRF\x02";

/// What one side tells the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    /// Its planes, as bits.
    pub planes: u8,
    /// Where the other's fields begin in its control block.
    pub offset_in_block: u32,
    /// What its host is called.
    pub host: &'a str,
    /// Address of the fabric without failover.
    pub fabric: &'a [u8],
    /// Description of its control block.
    pub control_block: &'a [u8],
}

impl<'a> Address<'a> {
    pub fn to_wire(self) -> Vec<u8> {
        let mut wire = MAGIC.to_vec();
        wire.push(self.planes);
        wire.extend(self.offset_in_block.to_le_bytes());
        for part in [self.host.as_bytes(), self.fabric] {
            wire.extend((part.len() as u32).to_le_bytes());
            wire.extend(part);
        }
        wire.extend(self.control_block);
        wire
    }

    pub fn from_wire(wire: &'a [u8]) -> Option<Self> {
        let rest = wire.strip_prefix(&MAGIC)?;
        let (&[planes], rest) = rest.split_first_chunk::<1>()?;
        let (offset_in_block, rest) = rest.split_first_chunk::<4>()?;
        let (bytes, rest) = rest.split_first_chunk::<4>()?;
        let (host, rest) = rest.split_at_checked(u32::from_le_bytes(*bytes) as usize)?;
        let (bytes, rest) = rest.split_first_chunk::<4>()?;
        let (fabric, control_block) = rest.split_at_checked(u32::from_le_bytes(*bytes) as usize)?;
        Some(Self {
            planes,
            offset_in_block: u32::from_le_bytes(*offset_in_block),
            host: str::from_utf8(host).ok()?,
            fabric,
            control_block,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        let address = Address {
            planes: 0b101,
            offset_in_block: 4096,
            host: "node17",
            fabric: &[1, 2, 3],
            control_block: &[9; 40],
        };
        let wire = address.to_wire();
        assert_eq!(Address::from_wire(&wire), Some(address));
        for bytes in 0..wire.len() - address.control_block.len() {
            assert_eq!(Address::from_wire(&wire[..bytes]), None, "{bytes} bytes");
        }
    }
}
