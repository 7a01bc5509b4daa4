//! The segment that the ranks of a node share: for a team, or for one window.

use crate::EngineError;
use crate::agree::agree;
use crate::rails::Rails;
use ferrorail_base::Rank;
use ferrorail_base::config::ShmKind;
use ferrorail_bootstrap::Oob;
use ferrorail_fabric::{Endpoint, FabricError, LocalRegion, SharedBacking};
use ferrorail_shm::{Segment, SegmentHandle, ShmError};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How the ranks of a node come to a segment.
pub(crate) struct Making<S, C, A> {
    /// Who creates it; the others attach.
    pub leader: Rank,
    /// What creating and attaching are called in messages.
    pub acts: [&'static str; 2],
    pub create: C,
    pub attach: A,
    /// The mapping.
    pub segment: fn(&S) -> &Segment,
}

impl<S, C, A> Making<S, C, A>
where
    C: Fn(ShmKind) -> Result<S, ShmError>,
    A: Fn(&SegmentHandle) -> Result<S, ShmError>,
{
    /// Opens a segment of the first kind that works on all nodes. Collective. `then` is what else each rank does once
    /// it has the segment, which counts as a part of attaching it: what it keeps, and what it tells all ranks.
    ///
    /// # Errors
    /// [`EngineError::Refused`] of the last kind tried.
    pub fn open_with<L, T: Serialize + DeserializeOwned>(
        &self,
        oob: &mut dyn Oob,
        kind: ShmKind,
        then: impl Fn(&Segment) -> (L, Result<T, String>),
    ) -> Result<(S, L, Vec<T>), EngineError> {
        let kinds: &[ShmKind] = match kind {
            ShmKind::Auto => &[ShmKind::Memfd, ShmKind::Posix],
            ShmKind::Memfd => &[ShmKind::Memfd],
            ShmKind::Posix => &[ShmKind::Posix],
        };
        let mut result = Err(EngineError::Internal("no kind of segment to try".into()));
        for &kind in kinds {
            result = self.open_kind(oob, kind, &then);
            match &result {
                Ok(_) => break,
                Err(error) => tracing::debug!("{kind:?} segment: {error}"),
            }
        }
        result
    }

    fn open_kind<L, T: Serialize + DeserializeOwned>(
        &self,
        oob: &mut dyn Oob,
        kind: ShmKind,
        then: impl Fn(&Segment) -> (L, Result<T, String>),
    ) -> Result<(S, L, Vec<T>), EngineError> {
        let created = (oob.rank() == self.leader).then(|| (self.create)(kind));
        let handle = match &created {
            None => Ok(None),
            Some(Ok(made)) => Ok(Some((self.segment)(made).handle().to_wire())),
            Some(Err(error)) => Err(error.to_string()),
        };
        let handles = agree(oob, self.acts[0], handle)?;
        let made = match created {
            Some(created) => created.map_err(|error| error.to_string()),
            None => handles[self.leader.index()]
                .as_deref()
                .and_then(SegmentHandle::from_wire)
                .ok_or_else(|| "the leader sent no segment".to_owned())
                .and_then(|handle| (self.attach)(&handle).map_err(|error| error.to_string())),
        };
        // Dropped before the segment, should another rank refuse.
        let (kept, said) = match &made {
            Ok(made) => {
                let (kept, said) = then((self.segment)(made));
                (Some(kept), said)
            }
            Err(error) => (None, Err(error.clone())),
        };
        let all = agree(oob, self.acts[1], said)?;
        let (Ok(made), Some(kept)) = (made, kept) else {
            return Err(EngineError::Internal("a rank did what it could not".into()));
        };
        (self.segment)(&made).unlink();
        Ok((made, kept, all))
    }
}

/// Registers the first `bytes` bytes of `segment`.
///
/// # Safety
/// The segment outlives its registration.
pub(crate) unsafe fn register(
    fabric: &Rails,
    segment: &Segment,
    bytes: usize,
) -> Result<LocalRegion, FabricError> {
    let range = segment.range();
    let backing = SharedBacking::whole(segment.fd(), range.bytes);
    // SAFETY: the caller's contract.
    unsafe { fabric.register(range.slice(0, bytes).as_ptr(), bytes, Some(backing)) }
}
