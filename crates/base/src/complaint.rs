//! Lines on standard error.

use std::fmt::Arguments;
use std::io::Write;

/// One line on standard error, in one piece: the ranks of a job share it. Where nobody takes it, as it is closed or on a full
/// disk, there is nobody to tell, and no reason to end the program: `eprintln!` would panic.
pub fn complain(text: Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
