//! Where ranks go on after they disagreed: from which call on the host MPI runs the communicator's
//! collectives. The state machine of one rank, which knows neither messages nor time.
//!
//! Each rank counts its calls. Those that have noticed the error use the team no more; in two phases they
//! choose the call:
//!
//! 1. **Noticed.** A rank says which call is the first that it can still make. When all have said so,
//!    nobody is in an operation, and the greatest is a lower bound. Until then its calls fail, as a
//!    peer may be ahead of them and notice only later; each raises what it says.
//! 2. **Chosen.** A rank says the first call that it could make, and that it does not fail from there on,
//!    but waits. The greatest of all is the call at which all go on. A rank that gives up waiting says
//!    [`NEVER`] instead.
//!
//! A call below the chosen one fails without communication, as some rank is beyond it. So each rank makes
//! the calls from the chosen one on, and no other, on the host.

/// What a rank says that does not go on; greater than the number of any call.
pub(crate) const NEVER: u64 = u64::MAX;

/// What is found out together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Noticed,
    Chosen,
}

/// How ranks tell each other. Nothing here waits for anybody.
pub(crate) trait Means {
    /// Says `mine`, in place of what this rank said before, and returns the greatest of what all ranks
    /// say, once it is known. One [`NEVER`] is the greatest whatever the others say.
    fn maximum(&mut self, phase: Phase, mine: u64) -> Option<u64>;

    /// Whether all that this rank sent has arrived, so that it does not change memory of later calls;
    /// `None` if that is not known yet, false if it will not be.
    fn settled(&mut self) -> Option<bool>;
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The host runs it.
    Host,
    /// It fails.
    Lost,
    /// It fails, as all later ones.
    Never,
    /// Not all ranks have noticed.
    Unnoticed,
    /// Not all ranks have said from which call on they wait.
    Unchosen,
}

/// How far this rank is.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Noticing,
    /// It waits from this call on.
    Choosing(u64),
    From(u64),
    Never,
}

/// One rank's part in it.
#[derive(Debug)]
pub(crate) struct Resumption {
    /// The last call that failed here.
    failed: u64,
    stage: Stage,
}

impl Resumption {
    /// After an error in `call`.
    pub fn after(call: u64) -> Self {
        Self {
            failed: call,
            stage: Stage::Noticing,
        }
    }

    /// What becomes of `call`, this rank's last one, as far as it is known.
    pub fn ask(&mut self, call: u64, means: &mut impl Means) -> Outcome {
        if let Stage::Noticing = self.stage {
            let first = call.max(self.failed + 1);
            match means.maximum(Phase::Noticed, first) {
                None => return Outcome::Unnoticed,
                Some(NEVER) => self.stage = Stage::Never,
                Some(least) => match means.settled() {
                    None => return Outcome::Unnoticed,
                    Some(true) => self.stage = Stage::Choosing(first.max(least)),
                    Some(false) => self.give_up(means),
                },
            }
        }
        if let Stage::Choosing(first) = self.stage {
            match means.maximum(Phase::Chosen, first) {
                None if call < first => return Outcome::Lost,
                None => return Outcome::Unchosen,
                Some(NEVER) => self.stage = Stage::Never,
                Some(from) => self.stage = Stage::From(from),
            }
        }
        match self.stage {
            Stage::From(from) if call >= from => Outcome::Host,
            Stage::Never => Outcome::Never,
            _ => Outcome::Lost,
        }
    }

    /// Lets `call` fail, before all have noticed.
    pub fn fail(&mut self, call: u64, means: &mut impl Means) {
        self.failed = self.failed.max(call);
        self.ask(call, means);
    }

    /// This rank does not go on, and nor does any that has not been told yet where.
    pub fn give_up(&mut self, means: &mut impl Means) {
        if !matches!(self.stage, Stage::From(_)) {
            self.stage = Stage::Never;
            means.maximum(Phase::Noticed, NEVER);
            means.maximum(Phase::Chosen, NEVER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_bootstrap::greatest;
    use std::cell::RefCell;

    /// What all ranks have said, by phase.
    struct Board(RefCell<[Vec<Option<u64>>; 2]>);

    impl Board {
        fn of(ranks: usize) -> Self {
            Self(RefCell::new([vec![None; ranks], vec![None; ranks]]))
        }
    }

    struct Place<'a> {
        board: &'a Board,
        rank: usize,
        settled: Option<bool>,
    }

    impl Means for Place<'_> {
        fn maximum(&mut self, phase: Phase, mine: u64) -> Option<u64> {
            let said = &mut self.board.0.borrow_mut()[phase as usize];
            said[self.rank] = Some(mine);
            greatest(said)
        }

        fn settled(&mut self) -> Option<bool> {
            self.settled
        }
    }

    fn at(board: &Board, rank: usize) -> Place<'_> {
        Place {
            board,
            rank,
            settled: Some(true),
        }
    }

    #[test]
    fn ranks_apart_go_on_at_the_same_call() {
        let board = Board::of(2);
        let (mut early, mut late) = (Resumption::after(3), Resumption::after(20));
        // Rank 1 is ahead and has noticed nothing yet.
        for call in 4..9 {
            assert_eq!(early.ask(call, &mut at(&board, 0)), Outcome::Unnoticed);
            early.fail(call, &mut at(&board, 0));
        }
        late.fail(20, &mut at(&board, 1));
        for call in 9..21 {
            assert_eq!(early.ask(call, &mut at(&board, 0)), Outcome::Lost, "{call}");
        }
        // Rank 1 has promised to wait from there on.
        assert_eq!(late.ask(21, &mut at(&board, 1)), Outcome::Host);
        assert_eq!(early.ask(21, &mut at(&board, 0)), Outcome::Host);
        assert_eq!(late.ask(22, &mut at(&board, 1)), Outcome::Host);
    }

    #[test]
    fn nobody_fails_what_it_said_it_waits_for() {
        let board = Board::of(3);
        let mut ranks = [4, 4, 6].map(Resumption::after);
        for (rank, each) in ranks.iter_mut().enumerate() {
            each.fail([4, 4, 6][rank], &mut at(&board, rank));
        }
        // Only the last one has heard of all.
        assert_eq!(ranks[2].ask(7, &mut at(&board, 2)), Outcome::Unchosen);
        assert_eq!(ranks[0].ask(5, &mut at(&board, 0)), Outcome::Lost);
        assert_eq!(ranks[0].ask(7, &mut at(&board, 0)), Outcome::Unchosen);
        assert_eq!(ranks[1].ask(6, &mut at(&board, 1)), Outcome::Lost);
        for (rank, each) in ranks.iter_mut().enumerate() {
            assert_eq!(each.ask(7, &mut at(&board, rank)), Outcome::Host, "{rank}");
        }
    }

    #[test]
    fn one_that_cannot_go_on_keeps_all_from_it() {
        let board = Board::of(3);
        let mut ranks = [1, 1, 1].map(Resumption::after);
        ranks[2].give_up(&mut at(&board, 2));
        for (rank, each) in ranks.iter_mut().enumerate() {
            assert_eq!(each.ask(2, &mut at(&board, rank)), Outcome::Never, "{rank}");
        }
        // As well if that happens while it waits.
        let board = Board::of(2);
        let mut ranks = [1, 1].map(Resumption::after);
        ranks[0].fail(1, &mut at(&board, 0));
        ranks[1].fail(1, &mut at(&board, 1));
        assert_eq!(ranks[1].ask(2, &mut at(&board, 1)), Outcome::Unchosen);
        ranks[1].give_up(&mut at(&board, 1));
        assert_eq!(ranks[0].ask(2, &mut at(&board, 0)), Outcome::Never);
    }

    #[test]
    fn who_knows_where_goes_on_whatever_comes() {
        let board = Board::of(1);
        let mut rank = Resumption::after(1);
        assert_eq!(rank.ask(2, &mut at(&board, 0)), Outcome::Host);
        rank.give_up(&mut at(&board, 0));
        assert_eq!(rank.ask(3, &mut at(&board, 0)), Outcome::Host);
    }

    #[test]
    fn nobody_goes_on_before_what_it_sent_has_arrived() {
        let board = Board::of(1);
        let place = |settled| Place {
            board: &board,
            rank: 0,
            settled,
        };
        let mut rank = Resumption::after(1);
        assert_eq!(rank.ask(2, &mut place(None)), Outcome::Unnoticed);
        assert_eq!(rank.ask(2, &mut place(Some(true))), Outcome::Host);
        let mut rank = Resumption::after(1);
        assert_eq!(rank.ask(2, &mut place(Some(false))), Outcome::Never);
    }
}
