//! What ranks know of each other's progress: vector clocks.

use ferrorail_base::Rank;

/// The clock of every rank: how many steps of each rank happened before its next step.
pub(super) struct Clocks {
    size: usize,
    /// A row per rank.
    now: Vec<u32>,
    /// Rows that ranks have passed on.
    told: Vec<u32>,
    /// For each rank the row of `told` that still is its clock but for its own entry, or [`NONE`]: who
    /// passes on several times in succession needs one row.
    latest: Vec<u32>,
}

const NONE: u32 = u32::MAX;

/// What a rank knew when it passed that on.
#[derive(Clone, Copy)]
pub(super) struct Told {
    row: u32,
    /// Who passed it on.
    rank: u32,
    /// Its own steps until then.
    steps: u32,
}

impl Clocks {
    /// `size` ranks that know nothing.
    pub fn new(size: usize) -> Self {
        Self {
            size,
            now: vec![0; size * size],
            told: Vec::new(),
            latest: vec![NONE; size],
        }
    }

    /// The clock of `rank`.
    pub fn of(&self, rank: Rank) -> &[u32] {
        &self.now[rank.index() * self.size..][..self.size]
    }

    /// `rank` has done its first `steps` steps.
    pub fn advance(&mut self, rank: Rank, steps: u32) {
        self.now[rank.index() * self.size + rank.index()] = steps;
    }

    /// What `rank` passes on by the last of its first `steps` steps.
    pub fn tell(&mut self, rank: Rank, steps: u32) -> Told {
        if self.latest[rank.index()] == NONE {
            self.latest[rank.index()] = (self.told.len() / self.size) as u32;
            let row = rank.index() * self.size;
            self.told.extend_from_slice(&self.now[row..][..self.size]);
        }
        Told {
            row: self.latest[rank.index()],
            rank: rank.0,
            steps,
        }
    }

    /// Makes `rank` know all that was `told`.
    pub fn join(&mut self, rank: Rank, told: Told) {
        let mine = &mut self.now[rank.index() * self.size..][..self.size];
        let theirs = &self.told[told.row as usize * self.size..][..self.size];
        for (mine, &theirs) in mine.iter_mut().zip(theirs) {
            *mine = (*mine).max(theirs);
        }
        let teller = &mut mine[told.rank as usize];
        *teller = (*teller).max(told.steps);
        self.latest[rank.index()] = NONE;
    }
}
