//! From pieces to the short form of a description.

use super::{GROUPS_MAX, Group, NoRuns, Runs};
use crate::memory;

/// Most groups that are looked at while a description is put together, for each that it may have: bounds the time.
const STEPS: usize = 8;

/// Groups for which there is room once there are any.
const FIRST_GROUPS: usize = 4;

/// Puts a description together, piece by piece in the order of the signature.
#[derive(Debug)]
pub struct Builder {
    groups: Vec<Group>,
    /// How many of them it may have.
    most: usize,
    /// The last run, which may still grow.
    open: Option<Group>,
    bytes: usize,
    steps: usize,
    /// What was appended, while that is all.
    only: Option<Runs>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::up_to(GROUPS_MAX)
    }
}

impl Builder {
    /// Of a description that may have `most` groups.
    pub(super) fn up_to(most: usize) -> Self {
        Self {
            groups: Vec::new(),
            most,
            open: None,
            bytes: 0,
            steps: 0,
            only: None,
        }
    }

    /// Adds `runs`, `by` bytes further on.
    ///
    /// # Errors
    /// See [`NoRuns`]; the builder is of no use then.
    pub fn append(&mut self, runs: &Runs, by: isize) -> Result<(), NoRuns> {
        if runs.bytes == 0 {
            return Ok(());
        }
        if self.bytes == 0 && self.only.is_none() {
            self.only = Some(runs.shifted(by)?);
            return Ok(());
        }
        if let Some(first) = self.only.take() {
            self.expand(&first, 0)?;
        }
        self.expand(runs, by)
    }

    fn expand(&mut self, runs: &Runs, by: isize) -> Result<(), NoRuns> {
        for time in 0..runs.times {
            let skip = runs.stride.checked_mul(time as isize);
            let by = skip.and_then(|skip| skip.checked_add(by));
            let by = by.ok_or(NoRuns::Irregular)?;
            for group in &*runs.groups {
                self.push(group.shifted(by)?)?;
            }
        }
        Ok(())
    }

    pub(super) fn push(&mut self, group: Group) -> Result<(), NoRuns> {
        self.steps += 1;
        if self.steps > STEPS * self.most {
            return Err(NoRuns::Irregular);
        }
        let more = group.bytes.checked_mul(group.count);
        let bytes = more.and_then(|more| self.bytes.checked_add(more));
        self.bytes = bytes.ok_or(NoRuns::Irregular)?;
        if group.count > 1 {
            self.close()?;
            return self.add(group);
        }
        if let Some(open) = &mut self.open {
            let end = open.offset.checked_add_unsigned(open.bytes);
            if end.ok_or(NoRuns::Irregular)? == group.offset {
                open.bytes += group.bytes;
                return Ok(());
            }
            self.close()?;
        }
        self.open = Some(group);
        Ok(())
    }

    fn close(&mut self) -> Result<(), NoRuns> {
        match self.open.take() {
            Some(open) => self.add(open),
            None => Ok(()),
        }
    }

    /// Adds a group whose runs grow no more, to the last one if they continue it.
    fn add(&mut self, group: Group) -> Result<(), NoRuns> {
        if let Some(last) = self.groups.last_mut()
            && last.bytes == group.bytes
            && joins(last, &group).ok_or(NoRuns::Irregular)?
        {
            let count = last.count.checked_add(group.count);
            last.count = count.ok_or(NoRuns::Irregular)?;
            return Ok(());
        }
        if self.groups.len() == self.most {
            return Err(NoRuns::Irregular);
        }
        if self.groups.len() == self.groups.capacity() {
            let more = self.groups.len().max(FIRST_GROUPS);
            memory::reserve(&mut self.groups, more)?;
        }
        self.groups.push(group);
        Ok(())
    }

    /// The description.
    ///
    /// # Errors
    /// See [`NoRuns`].
    pub fn finish(mut self) -> Result<Runs, NoRuns> {
        if let Some(only) = self.only {
            return Ok(only);
        }
        self.close()?;
        Ok(Runs::once(self.groups, self.bytes))
    }
}

/// Whether `group`, of runs as long, continues `last`, which then has the stride of both. `None` if that cannot
/// be counted.
fn joins(last: &mut Group, group: &Group) -> Option<bool> {
    let step = group.offset.checked_sub(last.offset)?;
    Some(match (last.count, group.count) {
        (1, 1) => {
            last.stride = step;
            true
        }
        (_, 1) => last.next()? == group.offset,
        (1, _) if step == group.stride => {
            last.stride = step;
            true
        }
        (1, _) => false,
        _ => last.stride == group.stride && last.next()? == group.offset,
    })
}
