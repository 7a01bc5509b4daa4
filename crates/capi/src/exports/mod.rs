//! The symbols that programs find here before they find the MPI library's. `exports.txt` lists
//! them; `cargo xtask exports` compares.

mod collective;
mod fortran;
mod fortran_window;
mod init;
mod left;
mod statistics;
mod window;
