//! Teams and windows of ranks that are threads of one process. In the program of the unit tests, since the code of a
//! team takes its time to compile.

mod allgather;
mod checked;
mod connections;
mod estimate;
mod parked;
pub mod ranks;
mod reductions;
mod report;
mod rooted;
mod staged;
mod stripes;
mod vector;
mod window;
mod window_forms;
