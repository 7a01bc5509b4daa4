//! One operation that is left to its target, as words that the target reads.

use super::super::shape::Shape;
use super::super::update::Update;
use ferrorail_base::memory::NoMemory;
use ferrorail_base::runs::Runs;

/// Words before those of the description.
const HEAD: usize = 7;

/// How elements lie, of a datatype that may be freed before the operation is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub runs: Runs,
    pub count: usize,
    pub extent: isize,
}

impl Layout {
    /// That of `shape`; `None` if it reaches beyond all addresses.
    pub fn of(shape: &Shape<'_>) -> Option<Self> {
        Some(match *shape {
            Shape::Dense(piece) => Self {
                runs: Runs::dense(piece.bytes).shifted(piece.offset).ok()?,
                count: 1,
                extent: 0,
            },
            Shape::Runs {
                runs,
                count,
                extent,
            } => Self {
                runs: runs.clone(),
                count,
                extent,
            },
        })
    }

    /// The same, borrowed.
    pub fn shape(&self) -> Shape<'_> {
        Shape::Runs {
            runs: &self.runs,
            count: self.count,
            extent: self.extent,
        }
    }
}

/// What a target is told of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What becomes of the elements, as [`Update::code`] says.
    pub code: u32,
    pub element_bytes: u32,
    /// First byte of the target's elements, from its base.
    pub base: isize,
    /// Address of the packed operands in the origin's memory; 0 without any.
    pub operands: usize,
    /// Where the elements before go, packed, in the origin's memory; 0 if nobody wants them.
    pub results: usize,
    pub there: Layout,
}

impl Order {
    /// How many words [`Order::write`] appends for one with elements that lie so.
    pub fn word_count(there: &Layout) -> usize {
        HEAD + there.runs.word_count()
    }

    /// Appends words of which [`Order::read`] makes it again.
    pub fn write(&self, words: &mut Vec<u64>) -> Result<(), NoMemory> {
        words.extend([
            u64::from(self.code) << 32 | u64::from(self.element_bytes),
            self.base as u64,
            self.operands as u64,
            self.results as u64,
            self.there.count as u64,
            self.there.extent as u64,
            self.there.runs.word_count() as u64,
        ]);
        self.there.runs.write_words(words)
    }

    /// The first order of `words`, and the rest.
    pub fn read(words: &[u64]) -> Option<(Self, &[u64])> {
        let (head, rest) = words.split_first_chunk::<HEAD>()?;
        let &[what, base, operands, results, count, extent, length] = head;
        let (runs, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        let order = Self {
            code: (what >> 32) as u32,
            element_bytes: what as u32,
            base: base as isize,
            operands: operands as usize,
            results: results as usize,
            there: Layout {
                runs: Runs::from_words(runs)?,
                count: count as usize,
                extent: extent as isize,
            },
        };
        Some((order, rest))
    }

    /// What becomes of the elements, if the order makes sense.
    pub fn update(&self) -> Option<Update<'static>> {
        let element = self.element_bytes as usize;
        let whole = element > 0 && self.there.runs.bytes().is_multiple_of(element);
        let update = Update::from_code(self.code).filter(|_| whole)?;
        (self.operands != 0 || matches!(update, Update::Keep)).then_some(update)
    }
}
