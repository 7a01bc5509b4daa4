//! The program that a command runs.

use std::ffi::OsString;

/// Last on the command line: what follows its name is its own.
#[derive(clap::Args)]
pub struct Program {
    /// Program to run, searched in PATH, and its arguments
    // In one list: of two, the first argument of the program would be looked at before it is taken, and `--help` answered.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub command: Vec<OsString>,
}
