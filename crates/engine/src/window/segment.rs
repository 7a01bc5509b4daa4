//! The segment that the ranks of a node share for one window.

use super::ground::Ground;
use super::memory::Placement;
use crate::EngineError;
use crate::agree::agree;
use ferrorail_base::config::ShmKind;
use ferrorail_bootstrap::Oob;
use ferrorail_shm::{Segment, SegmentHandle};

/// Opens the node's segment. Collective.
pub(super) fn open_segment(
    oob: &mut dyn Oob,
    ground: &Ground<'_>,
    placement: &Placement,
) -> Result<Segment, EngineError> {
    let kinds: &[ShmKind] = match ground.map.settings.shm() {
        ShmKind::Auto => &[ShmKind::Memfd, ShmKind::Posix],
        ShmKind::Memfd => &[ShmKind::Memfd],
        ShmKind::Posix => &[ShmKind::Posix],
    };
    let mut result = Err(EngineError::Selection("no kind of segment to try".into()));
    for &kind in kinds {
        result = try_segment(oob, ground, placement.bytes[ground.node.index()], kind);
        match &result {
            Ok(_) => break,
            Err(error) => tracing::debug!("{kind:?} segment of a window: {error}"),
        }
    }
    result
}

fn try_segment(
    oob: &mut dyn Oob,
    ground: &Ground<'_>,
    bytes: usize,
    kind: ShmKind,
) -> Result<Segment, EngineError> {
    let leads = ground.topology.leader_of(ground.node) == ground.map.rank;
    let created = leads.then(|| Segment::create(kind, bytes));
    let handle = match &created {
        None => Ok(None),
        Some(Ok(segment)) => Ok(Some(segment.handle().to_wire())),
        Some(Err(error)) => Err(error.to_string()),
    };
    let handles = agree(oob, "creating a window's segment", handle)?;
    let segment = match created {
        Some(created) => created.map_err(|error| error.to_string()),
        None => {
            let leader = ground.topology.leader_of(ground.node);
            handles[leader.index()]
                .as_deref()
                .and_then(SegmentHandle::from_wire)
                .ok_or_else(|| "the leader sent no segment".to_owned())
                .and_then(|handle| Segment::attach(&handle).map_err(|error| error.to_string()))
        }
    };
    let attached = segment.as_ref().map(|_| ()).map_err(String::clone);
    agree(oob, "attaching a window's segment", attached)?;
    let segment = segment.map_err(EngineError::Selection)?;
    segment.unlink();
    Ok(segment)
}
