//! What is refused, and in which words.

use super::{DEPTH, Seen, World, broadcast, fresh, pattern};
use ferrorail_base::RailId;
use ferrorail_fabric::multicast::{HEADER_BYTES_MAX, Payload, To};
use ferrorail_fabric::{Group, Multicast, MulticastError};

fn refusal(group: &mut dyn Group, to: To, header: &[u8], payload: &[u8]) -> MulticastError {
    // SAFETY: a copied payload asks for nothing.
    let sent = unsafe { group.send(to, header, Payload::Copied(payload)) };
    sent.expect_err("refused")
}

pub fn what_does_not_fit_is_refused<F: Multicast>(world: &World<'_, F>) {
    let mut groups = world.group(2, DEPTH);
    let bytes_max = groups[0].limits().bytes;
    let group = &mut *groups[0];
    let long = vec![0; bytes_max + 1];
    let error = refusal(group, To::All, &[], &long);
    let expected = format!("does not fit the limit of {bytes_max}");
    assert!(error.to_string().ends_with(&expected), "{error}");
    let error = refusal(group, To::All, &[0], &long[1..]);
    assert!(matches!(error, MulticastError::TooLong { .. }), "{error}");
    let error = refusal(group, To::All, &[0; HEADER_BYTES_MAX + 1], &[]);
    let bytes_max = HEADER_BYTES_MAX;
    assert!(
        matches!(error, MulticastError::TooLong { bytes_max: found, .. } if found == bytes_max),
        "{error}"
    );
    for nobody in [0, 2, u32::MAX] {
        let error = refusal(group, To::Member(nobody), &[], &[]);
        assert!(
            matches!(error, MulticastError::NoMember { member } if member == nobody),
            "{error}"
        );
    }
    let nowhere = world.fabrics[0].join(RailId(200), fresh(), DEPTH);
    let error = nowhere.err().expect("there is no such rail");
    assert!(
        matches!(error, MulticastError::Unsupported { .. }),
        "{error}"
    );
}

pub fn strange_addresses_change_nothing<F: Multicast>(world: &World<'_, F>, seen: &mut Seen) {
    let mut groups = world.group(2, DEPTH);
    let good: Vec<Vec<u8>> = groups.iter().map(|group| group.address()).collect();
    let other = world.group(2, DEPTH);
    let cut = good[1][..good[1].len() / 2].to_vec();
    for bad in [Vec::new(), b"nonsense".to_vec(), cut, other[1].address()] {
        let addresses = [good[0].clone(), bad];
        let error = groups[0].set_members(0, &addresses).expect_err("refused");
        assert!(
            matches!(error, MulticastError::BadAddress { member: 1 }),
            "{error}"
        );
        broadcast(&mut groups, 0, &pattern(3, 40), seen);
        broadcast(&mut groups, 1, &pattern(4, 40), seen);
    }
}
