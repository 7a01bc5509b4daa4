//! Tests of the engine: teams and windows of ranks that are threads of one process. A package of its own, as optimising
//! the code of these tests takes longer than they save by it.

#![cfg(test)]

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
