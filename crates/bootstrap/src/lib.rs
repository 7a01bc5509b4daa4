//! Who is there (placeholder crate documentation).
pub mod oob;
pub use oob::{Oob, OobError};
