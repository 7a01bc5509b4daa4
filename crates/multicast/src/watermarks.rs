//! How far members are: three counts that only rise.

/// How far a member, a subtree of members or all members are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// All messages up to this one are opened and complete.
    pub completed: u64,
    /// All fragments of the session below this number are stored, in user memory or in a channel.
    pub stored: u64,
    /// All messages up to this one are opened.
    pub opened: u64,
}

impl Watermarks {
    /// How far both are.
    #[must_use]
    pub(crate) fn least(self, other: Self) -> Self {
        Self {
            completed: self.completed.min(other.completed),
            stored: self.stored.min(other.stored),
            opened: self.opened.min(other.opened),
        }
    }

    /// Whether nothing in `other` is new.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let mut both = *self;
        !both.raise(*other)
    }

    /// Takes over what `other` knows; whether that was anything new. Late reports change nothing, since
    /// the counts of any set of members only rise.
    pub(crate) fn raise(&mut self, other: Self) -> bool {
        let before = *self;
        self.completed = self.completed.max(other.completed);
        self.stored = self.stored.max(other.stored);
        self.opened = self.opened.max(other.opened);
        *self != before
    }
}
