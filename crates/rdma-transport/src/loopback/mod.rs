//! Loopback rails.
