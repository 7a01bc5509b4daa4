//! From pieces to the short form of a description.

use super::{GROUPS_MAX, Group, Runs};

/// Most groups that are looked at while a description is put together, which bounds the time.
const STEPS_MAX: usize = 1 << 18;

/// Puts a description together, piece by piece in the order of the signature.
#[derive(Debug, Default)]
pub struct Builder {
    groups: Vec<Group>,
    /// The last run, which may still grow.
    open: Option<Group>,
    bytes: usize,
    steps: usize,
    /// What was appended, while that is all.
    only: Option<Runs>,
}

impl Builder {
    /// Adds `runs`, `by` bytes further on. `None` if the whole becomes too irregular.
    pub fn append(&mut self, runs: &Runs, by: isize) -> Option<()> {
        if runs.bytes == 0 {
            return Some(());
        }
        if self.bytes == 0 && self.only.is_none() {
            self.only = Some(runs.shifted(by)?);
            return Some(());
        }
        if let Some(first) = self.only.take() {
            self.expand(&first, 0)?;
        }
        self.expand(runs, by)
    }

    fn expand(&mut self, runs: &Runs, by: isize) -> Option<()> {
        for time in 0..runs.times {
            let by = runs.stride.checked_mul(time as isize)?.checked_add(by)?;
            for group in &runs.groups {
                self.push(group.shifted(by)?)?;
            }
        }
        Some(())
    }

    pub(super) fn push(&mut self, group: Group) -> Option<()> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return None;
        }
        self.bytes = self
            .bytes
            .checked_add(group.bytes.checked_mul(group.count)?)?;
        if group.count > 1 {
            self.close()?;
            return self.add(group);
        }
        if let Some(open) = &mut self.open {
            if open.offset.checked_add_unsigned(open.bytes)? == group.offset {
                open.bytes += group.bytes;
                return Some(());
            }
            self.close()?;
        }
        self.open = Some(group);
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        match self.open.take() {
            Some(open) => self.add(open),
            None => Some(()),
        }
    }

    /// Adds a group whose runs grow no more, to the last one if they continue it.
    fn add(&mut self, group: Group) -> Option<()> {
        if let Some(last) = self.groups.last_mut()
            && last.bytes == group.bytes
        {
            let step = group.offset.checked_sub(last.offset)?;
            let joins = match (last.count, group.count) {
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
            };
            if joins {
                last.count = last.count.checked_add(group.count)?;
                return Some(());
            }
        }
        if self.groups.len() == GROUPS_MAX {
            return None;
        }
        self.groups.push(group);
        Some(())
    }

    /// The description.
    pub fn finish(mut self) -> Option<Runs> {
        if let Some(only) = self.only {
            return Some(only);
        }
        self.close()?;
        Some(Runs {
            groups: self.groups.into(),
            times: 1,
            stride: 0,
            bytes: self.bytes,
        })
    }
}
