//! A description as words, in which another process reads it.

use super::{Group, Runs};
use crate::memory::{self, NoMemory};

/// Words before those of the groups.
const HEAD: usize = 2;
/// Words of a group.
const GROUP: usize = 4;

impl Runs {
    /// How many words [`Runs::write_words`] appends.
    #[must_use]
    pub fn word_count(&self) -> usize {
        HEAD + GROUP * self.groups.len()
    }

    /// Appends words of which [`Runs::from_words`] makes the description again.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn write_words(&self, words: &mut Vec<u64>) -> Result<(), NoMemory> {
        memory::reserve(words, self.word_count())?;
        words.extend([self.times as u64, self.stride as u64]);
        for &group in &**self.groups {
            let Group {
                offset,
                bytes,
                count,
                stride,
            } = group;
            words.extend([offset as u64, bytes as u64, count as u64, stride as u64]);
        }
        Ok(())
    }

    /// The description that all of `words` are; `None` if they are none.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let (&[times, stride], groups) = words.split_first_chunk::<HEAD>()?;
        let (groups, []) = groups.as_chunks::<GROUP>() else {
            return None;
        };
        let groups = groups.iter().map(|&[offset, bytes, count, stride]| Group {
            offset: offset as isize,
            bytes: bytes as usize,
            count: count as usize,
            stride: stride as isize,
        });
        let groups = memory::listed(groups).ok()?;
        let once = groups.iter().try_fold(0usize, |all, group| {
            let bytes = group.bytes.checked_mul(group.count)?;
            all.checked_add(bytes).filter(|_| bytes > 0)
        })?;
        let times = usize::try_from(times).ok().filter(|&times| times > 0)?;
        Some(Self {
            groups: groups.into(),
            times,
            stride: stride as isize,
            bytes: once.checked_mul(times)?,
        })
    }

    /// How many runs there are, as far as that can be counted.
    #[must_use]
    pub fn run_count(&self) -> usize {
        let counts = self.groups.iter().map(|group| group.count);
        let once = counts.fold(0usize, usize::saturating_add);
        once.saturating_mul(self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_make_the_description_again() {
        let column = Runs::dense(8).repeated(5, -40).expect("regular");
        let faces = column.repeated(3, 400).expect("regular");
        let places = Runs::of_places([3, 4, 9, 11, 12, 13]).expect("short");
        for (runs, count) in [(column, 5), (faces, 15), (places, 3), (Runs::dense(0), 0)] {
            let mut words = vec![7];
            runs.write_words(&mut words).expect("memory");
            assert_eq!(words.len(), 1 + runs.word_count());
            assert_eq!(Runs::from_words(&words[1..]), Some(runs.clone()));
            assert_eq!(runs.run_count(), count);
        }
    }

    #[test]
    fn other_words_are_none() {
        let runs = Runs::dense(8).repeated(5, 40).expect("regular");
        let mut words = Vec::new();
        runs.write_words(&mut words).expect("memory");
        assert!(Runs::from_words(&words[..words.len() - 1]).is_none());
        assert!(Runs::from_words(&[]).is_none());
        for (index, word) in [(0, 0), (0, u64::MAX), (3, 0), (4, u64::MAX)] {
            let mut wrong = words.clone();
            wrong[index] = word;
            assert!(Runs::from_words(&wrong).is_none(), "{index}");
        }
    }
}
