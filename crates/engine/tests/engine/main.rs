//! Teams and windows of ranks that are threads of one process. One program, as each takes its time to link.

mod allgather;
mod checked;
mod connections;
mod estimate;
mod parked;
mod ranks;
mod reductions;
mod report;
mod rooted;
mod staged;
mod stripes;
mod vector;
mod window;
mod window_forms;
