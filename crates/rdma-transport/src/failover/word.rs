//! Control words: what the two sides of a lane tell each other about it, 64 bits at a time.

/// What a side says of its end of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Says {
    /// "This is my end of the next life": the initiator, with its token.
    Offer,
    /// "And this is mine, connected to yours": the responder, with its token.
    Accept,
    /// "Bytes got through": the lane is in use.
    Up,
    /// "I have ended it: nothing of yours lands here any more."
    Down,
}

/// One control word. All zero is life 0, in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// Which life of the lane it is about.
    pub life: u16,
    /// What is said.
    pub says: Says,
    /// 48 bits for the fabric, with `Offer` and `Accept`.
    pub token: u64,
}

impl Word {
    /// Lives that can be told apart; they start again after that.
    pub const LIVES: u16 = 1 << 14;

    pub fn new(life: u16, says: Says) -> Self {
        Self {
            life,
            says,
            token: 0,
        }
    }

    pub fn pack(self) -> u64 {
        // `Up` is 0, so that fresh memory says "life 0, in use".
        let says = match self.says {
            Says::Up => 0,
            Says::Down => 1,
            Says::Offer => 2,
            Says::Accept => 3,
        };
        (self.token & 0xffff_ffff_ffff) << 16 | u64::from(self.life) << 2 | says
    }

    pub fn unpack(word: u64) -> Self {
        let says = match word & 3 {
            0 => Says::Up,
            1 => Says::Down,
            2 => Says::Offer,
            _ => Says::Accept,
        };
        Self {
            life: (word >> 2) as u16 & (Self::LIVES - 1),
            says,
            token: word >> 16,
        }
    }
}

/// The life after `life`.
pub(super) fn next(life: u16) -> u16 {
    (life + 1) % Word::LIVES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_packing() {
        for says in [Says::Offer, Says::Accept, Says::Up, Says::Down] {
            for (life, token) in [(0, 0), (1, 0xffff_ffff_ffff), (Word::LIVES - 1, 77)] {
                let word = Word { life, says, token };
                assert_eq!(Word::unpack(word.pack()), word);
            }
        }
        assert_eq!(Word::unpack(0), Word::new(0, Says::Up));
        assert_eq!(next(Word::LIVES - 1), 0);
    }
}
