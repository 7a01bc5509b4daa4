//! Lines on standard output: `println!` would panic where nobody takes them.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// As `print!`.
macro_rules! out {
    ($($text:tt)*) => {
        $crate::output::write(format_args!($($text)*))
    };
}

/// As `println!`.
macro_rules! outln {
    () => {
        out!("\n")
    };
    ($($text:tt)*) => {
        out!("{}\n", format_args!($($text)*))
    };
}

/// Writes `text`, or ends the program: quietly if the reader wants no more, as `head` does.
pub fn write(text: Arguments<'_>) {
    let Err(error) = io::stdout().write_fmt(text) else {
        return;
    };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    ferrorail_base::complain(format_args!("ferrorail: standard output: {error}"));
    std::process::exit(1);
}
