//! `ferrorail bench cutoffs`: up to which sizes shared memory beats puts inside this node, which Qian and Afsahi find
//! empirically (2008, sections 4.2 and 5.2). Which algorithms are best there `ferrorail tune` finds.

use super::figures::Figure;
use std::sync::LazyLock;

/// What it is asked for by.
pub const NAME: &str = "cutoffs";

/// Shared memory beside puts, and their sizes.
pub static FIGURE: LazyLock<Figure> =
    LazyLock::new(|| toml::from_str(include_str!("figures/cutoffs.toml")).expect("a figure"));
