//! What loopback processes tell each other out of band. Little-endian, same host, same version.

use ferrorail_base::ProcessId;
use ferrorail_fabric::{RAILS_MAX, RemoteRegion, SharedBacking};
use ferrorail_shm::SegmentHandle;

/// Names one process image: a pid alone is ambiguous between pid namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessImage {
    pub(super) pid: u32,
    /// Random, one per process.
    pub(super) nonce: u64,
}

/// The address that `open_peer` returns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Address {
    pub(super) process: ProcessId,
    pub(super) image: ProcessImage,
    /// Index of the addressee's gates in the table of keys.
    pub(super) gate: u32,
    /// Address and value of the word that proves cross-memory attach.
    pub(super) probe: (u64, u64),
    /// By plane, which generation of the addressee's lane the gate lets through; [`UNMADE`] if none.
    pub(super) generations: [u64; RAILS_MAX],
    /// Wire form of the key table's [`SegmentHandle`].
    pub(super) keys: Vec<u8>,
}

/// The generation of a lane that could not be made.
pub(super) const UNMADE: u64 = u64::MAX;

/// The answer to `describe`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Description {
    pub(super) region: RemoteRegion,
    pub(super) image: ProcessImage,
    pub(super) object: Option<Object>,
}

/// The shared object behind a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Object {
    pub(super) backing: SharedBacking,
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl Object {
    /// What [`ferrorail_shm::Segment::attach`] takes.
    pub(super) fn handle(&self) -> SegmentHandle {
        SegmentHandle {
            pid: self.backing.pid,
            fd: self.backing.fd,
            device: self.device,
            inode: self.inode,
            bytes: self.backing.object_bytes,
            posix_name: None,
        }
    }
}

const ADDRESS_MAGIC: [u8; 4] = *b"FRa3";
const DESCRIPTION_MAGIC: [u8; 4] = *b"FRd1";

impl Address {
    pub(super) fn to_wire(&self) -> Vec<u8> {
        let mut wire = ADDRESS_MAGIC.to_vec();
        wire.extend(self.process.to_wire());
        wire.extend(self.image.pid.to_le_bytes());
        wire.extend(self.gate.to_le_bytes());
        for word in [self.image.nonce, self.probe.0, self.probe.1] {
            wire.extend(word.to_le_bytes());
        }
        for generation in self.generations {
            wire.extend(generation.to_le_bytes());
        }
        wire.extend(&self.keys);
        wire
    }

    pub(super) fn from_wire(wire: &[u8]) -> Option<Self> {
        let mut reader = Reader(wire);
        if reader.take()? != ADDRESS_MAGIC {
            return None;
        }
        let process = ProcessId::from_wire(&reader.take::<{ ProcessId::WIRE_BYTES }>()?)?;
        let pid = u32::from_le_bytes(reader.take()?);
        let gate = u32::from_le_bytes(reader.take()?);
        let nonce = reader.u64()?;
        let probe = (reader.u64()?, reader.u64()?);
        let mut generations = [0; RAILS_MAX];
        for generation in &mut generations {
            *generation = reader.u64()?;
        }
        Some(Self {
            process,
            image: ProcessImage { pid, nonce },
            gate,
            probe,
            generations,
            keys: reader.0.to_vec(),
        })
    }
}

impl Description {
    pub(super) fn to_wire(self) -> Vec<u8> {
        let mut wire = DESCRIPTION_MAGIC.to_vec();
        wire.extend(self.region.to_wire());
        wire.extend(self.image.pid.to_le_bytes());
        wire.extend(self.image.nonce.to_le_bytes());
        if let Some(object) = self.object {
            wire.extend(object.backing.pid.to_le_bytes());
            wire.extend(object.backing.fd.to_le_bytes());
            let backing = object.backing;
            for word in [
                backing.offset,
                backing.object_bytes,
                object.device,
                object.inode,
            ] {
                wire.extend(word.to_le_bytes());
            }
        }
        wire
    }

    pub(super) fn from_wire(wire: &[u8]) -> Option<Self> {
        let mut reader = Reader(wire);
        if reader.take()? != DESCRIPTION_MAGIC {
            return None;
        }
        let region = RemoteRegion::from_wire(&reader.take()?);
        let image = ProcessImage {
            pid: u32::from_le_bytes(reader.take()?),
            nonce: reader.u64()?,
        };
        let object = match reader.0.is_empty() {
            true => None,
            false => Some(reader.object(region.bytes)?),
        };
        reader.0.is_empty().then_some(Self {
            region,
            image,
            object,
        })
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// `None` as well if a region of `bytes` bytes does not fit in the object.
    fn object(&mut self, bytes: u64) -> Option<Object> {
        let backing = SharedBacking {
            pid: u32::from_le_bytes(self.take()?),
            fd: i32::from_le_bytes(self.take()?),
            offset: self.u64()?,
            object_bytes: self.u64()?,
        };
        let end = backing.offset.checked_add(bytes)?;
        (end <= backing.object_bytes).then_some(Object {
            backing,
            device: self.u64()?,
            inode: self.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(object_bytes: u64) -> Description {
        Description {
            region: RemoteRegion {
                address: 1 << 40,
                bytes: 4096,
                rkeys: [3; 8],
                mapping: 0,
            },
            image: ProcessImage { pid: 9, nonce: 8 },
            object: Some(Object {
                backing: SharedBacking {
                    pid: 4,
                    fd: 5,
                    offset: 8192,
                    object_bytes,
                },
                device: 6,
                inode: 7,
            }),
        }
    }

    #[test]
    fn descriptions_survive_the_wire_and_broken_ones_do_not() {
        let mut whole = description(12288);
        let wire = whole.to_wire();
        assert_eq!(Description::from_wire(&wire), Some(whole));
        for length in 0..wire.len() {
            let without_object = length == 4 + RemoteRegion::WIRE_BYTES + 12;
            let parsed = Description::from_wire(&wire[..length]);
            assert_eq!(parsed.is_some(), without_object, "{length} bytes");
        }
        let beyond_the_object = description(12287).to_wire();
        assert_eq!(Description::from_wire(&beyond_the_object), None);
        whole.object = None;
        assert_eq!(Description::from_wire(&whole.to_wire()), Some(whole));
    }

    #[test]
    fn addresses_survive_the_wire() {
        let address = Address {
            process: ProcessId {
                host: 1,
                pid: 2,
                started: 3,
            },
            image: ProcessImage { pid: 4, nonce: 5 },
            gate: 10,
            probe: (6, 7),
            generations: [1, 2, 3, 4, 5, 6, 7, u64::MAX],
            keys: vec![8, 9],
        };
        let wire = address.to_wire();
        assert_eq!(Address::from_wire(&wire), Some(address));
        assert_eq!(Address::from_wire(&wire[..40]), None);
        assert_eq!(Address::from_wire(b"not an address"), None);
    }
}
