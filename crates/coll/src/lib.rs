//! Collective algorithms as schedules (placeholder crate documentation).
#![forbid(unsafe_code)]
pub mod schedule;
