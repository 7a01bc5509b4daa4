//! Rails (placeholder crate documentation).
pub mod loopback;
pub mod verbs;
