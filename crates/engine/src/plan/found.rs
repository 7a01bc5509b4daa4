//! What ranks found out together after they made their team, and choose by.

use crate::choice::Chooser;
use crate::scratch::Scratch;
use crate::selection::Selector;
use crate::team::map::Map;
use ferrorail_coll::select::NOT_MEASURED;

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether nodes can send each other multicasts, as far as is known.
    pub multicast: bool,
    /// As [`Query::attach_percent`](ferrorail_coll::select::Query::attach_percent).
    pub attach_percent: u32,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            multicast: true,
            attach_percent: NOT_MEASURED,
        }
    }
}

/// The team, as its choices see it.
pub(crate) fn selector(map: &Map, found: Found) -> Selector<'_> {
    let settings = &map.settings;
    Selector {
        topology: &map.topology,
        domains: map.domains.as_ref(),
        chooser: Chooser {
            table: map.table(),
            forced: &settings.algorithm,
            zero_copy: settings.zero_copy,
        },
        rails: map.rail_count(),
        ports: settings.ports.unwrap_or_else(|| map.rail_count()),
        ranks_per_core: if map.has_cores { 1 } else { 2 },
        attach_percent: settings.attach_percent.unwrap_or(found.attach_percent),
        leaders: settings.leaders,
        zero_copy: map.zero_copy,
        multicast: found.multicast && settings.multicast,
        all_pairs: map.all_pairs,
        scratch: Scratch::of(map),
    }
}
