//! Headers come back as they went, and what is damaged does not.

use super::*;

fn header() -> Header {
    Header {
        kind: Kind::Data,
        flags: flags::MULTICAST | flags::AGAIN,
        rail: 1,
        stripe: 3,
        session: 0x1234_5678_9abc_def0,
        sender: 7,
        source: 6,
        message: 1 << 40,
        sequence: 1 << 41,
        bytes: 70_000,
        fragment: 17,
        count: 9,
        known: Watermarks {
            completed: 1 << 39,
            stored: 1 << 38,
            opened: (1 << 39) + 5,
        },
        timestamp: 99,
        echo: 98,
        words: [1, u64::MAX],
        sent: [1, 2, 3, 4, 5, 6, 7, 65535],
    }
}

#[test]
fn a_header_comes_back_as_it_went() {
    for checksum in [Checksum::None, Checksum::Additive, Checksum::Crc32c] {
        let payload = b"some bytes of payload";
        let mut datagram = encode(&header(), payload, checksum).to_vec();
        datagram.extend_from_slice(payload);
        let (opened, rest) = open(&datagram, checksum).unwrap();
        assert_eq!((opened, rest), (header(), &payload[..]));
    }
}

#[test]
fn each_changed_bit_and_each_cut_is_noticed() {
    for checksum in [Checksum::Additive, Checksum::Crc32c] {
        let mut datagram = encode(&header(), b"12345", checksum).to_vec();
        datagram.extend_from_slice(b"12345");
        for bit in 0..datagram.len() * 8 {
            datagram[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                open(&datagram, checksum),
                Err(WireError::Damaged),
                "bit {bit}"
            );
            datagram[bit / 8] ^= 1 << (bit % 8);
        }
        for bytes in 0..datagram.len() {
            assert_eq!(open(&datagram[..bytes], checksum), Err(WireError::Damaged));
        }
    }
}

#[test]
fn another_protocol_is_foreign() {
    assert_eq!(open(&[0; 200], Checksum::None), Err(WireError::Foreign));
}
