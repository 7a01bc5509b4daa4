//! An accumulating operation whose target is checked.

use crate::window::shape::{Shape, Side};
use crate::window::update::Update;
use ferrorail_base::Rank;

/// What an accumulating operation does, once its target is checked.
pub struct Job<'a> {
    pub target: Rank,
    /// First byte of the target's elements, from its base.
    pub base: isize,
    pub there: &'a Shape<'a>,
    pub origin: Option<Side<'a>>,
    pub result: Option<Side<'a>>,
    pub element_bytes: usize,
    pub update: Update<'a>,
}

impl Job<'_> {
    /// Whether it depends on the elements that are there.
    pub fn needs_elements(&self) -> bool {
        self.result.is_some() || !matches!(self.update, Update::Replace)
    }
}
