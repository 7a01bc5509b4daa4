//! Verbs rails.
