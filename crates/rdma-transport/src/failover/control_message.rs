//! Control words: what the two sides of a lane tell each other about it, 64 bits at a time.

/// What a side says of its end of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// "This is my end of the next generation": the initiator, with its token.
    Offer,
    /// "And this is mine, connected to yours": the responder, with its token.
    Accept,
    /// "Bytes got through": the lane is in use.
    Up,
    /// "I have ended it: nothing of yours lands here any more."
    Down,
}

/// One control word. All zero is generation 0, in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ControlMessage {
    /// Which generation of the lane it is about.
    pub generation: u16,
    /// What is said.
    pub kind: Kind,
    /// 48 bits for the fabric, with `Offer` and `Accept`; with `Down`, how often the port of that side has come
    /// back; [`ControlMessage::leave`].
    pub token: u64,
}

impl ControlMessage {
    /// Generations that can be told apart; they start again after that.
    pub const GENERATIONS: u16 = 1 << 14;

    pub fn new(generation: u16, kind: Kind) -> Self {
        Self {
            generation,
            kind,
            token: 0,
        }
    }

    /// About a lane in use: "I suspect it: post nothing more there, and end it", or, from the responder,
    /// "say so". See [`super::leave`].
    pub fn leave(generation: u16) -> Self {
        Self {
            token: 1,
            ..Self::new(generation, Kind::Up)
        }
    }

    /// Whether it is [`ControlMessage::leave`].
    pub fn is_leave(self) -> bool {
        self == Self::leave(self.generation)
    }

    /// Whether who says it has ended generation `number` of its end: the word that said so may have been
    /// overwritten by one of the next.
    pub fn has_ended(self, number: u16) -> bool {
        self.generation == next(number) || self.generation == number && self.kind == Kind::Down
    }

    pub fn pack(self) -> u64 {
        // `Up` is 0, so that fresh memory says "generation 0, in use".
        let kind = match self.kind {
            Kind::Up => 0,
            Kind::Down => 1,
            Kind::Offer => 2,
            Kind::Accept => 3,
        };
        (self.token & 0xffff_ffff_ffff) << 16 | u64::from(self.generation) << 2 | kind
    }

    pub fn unpack(word: u64) -> Self {
        let kind = match word & 3 {
            0 => Kind::Up,
            1 => Kind::Down,
            2 => Kind::Offer,
            _ => Kind::Accept,
        };
        Self {
            generation: (word >> 2) as u16 & (Self::GENERATIONS - 1),
            kind,
            token: word >> 16,
        }
    }
}

/// The generation after `generation`.
pub(super) fn next(generation: u16) -> u16 {
    (generation + 1) % ControlMessage::GENERATIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_packing() {
        for kind in [Kind::Offer, Kind::Accept, Kind::Up, Kind::Down] {
            for (generation, token) in [
                (0, 0),
                (1, 0xffff_ffff_ffff),
                (ControlMessage::GENERATIONS - 1, 77),
            ] {
                let word = ControlMessage {
                    generation,
                    kind,
                    token,
                };
                assert_eq!(ControlMessage::unpack(word.pack()), word);
            }
        }
        let leave = ControlMessage::leave(5);
        assert!(ControlMessage::unpack(leave.pack()).is_leave());
        assert!(!ControlMessage::new(5, Kind::Up).is_leave());
        assert_eq!(ControlMessage::unpack(0), ControlMessage::new(0, Kind::Up));
        assert_eq!(next(ControlMessage::GENERATIONS - 1), 0);
    }
}
