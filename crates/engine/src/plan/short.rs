//! Plans of calls that are short enough for eager slots.

use super::{Plan, PlanKey, Plans};
use crate::choice::by_length;
use crate::collective::eager::form::Form;
use crate::sequence::ChannelRequest;

/// How a short call goes.
pub(crate) enum Short {
    /// All ranks know that it does.
    Whole(Form),
    /// This one does.
    ByLength(ShortWays),
}

/// What short calls take of which no rank knows all lengths.
#[derive(Clone, Copy)]
pub(crate) struct ShortWays {
    pub form: Form,
    /// The channels that longer blocks would take.
    pub channels: ChannelRequest,
}

impl Plans {
    /// How a call of `key` goes that all of it goes by eager slots, as `longest` of its blocks says: counted then. None if the
    /// plan was not the last one that was used of those with the same place.
    #[inline(always)]
    pub fn short(&mut self, key: &PlanKey, longest: usize) -> Option<Short> {
        let plan = self.recent[key.place()].as_deref_mut()?;
        if plan.key != *key {
            return None;
        }
        if by_length(key.collective) {
            let ways = plan
                .short_ways()
                .filter(|ways| longest <= ways.form.longest())?;
            plan.runs += 1;
            plan.count(0);
            return Some(Short::ByLength(ways));
        }
        let form = plan.eager_for(longest)?;
        plan.count(longest);
        Some(Short::Whole(form))
    }
}

impl Plan {
    /// Of a vector form of which no rank knows all lengths, what its short calls take, after the first call.
    #[inline(always)]
    fn short_ways(&self) -> Option<ShortWays> {
        self.large.as_ref()?;
        Some(ShortWays {
            form: self.eager?,
            channels: self.lengths?.channels,
        })
    }

    /// How a call of `bytes` bytes goes by eager slots, if all of it does.
    #[inline(always)]
    pub fn eager_for(&self, bytes: usize) -> Option<Form> {
        let whole = |form: &Form| bytes <= form.longest() && !by_length(self.key.collective);
        self.eager.filter(whole)
    }
}
