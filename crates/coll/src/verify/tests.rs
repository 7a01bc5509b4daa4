//! Every algorithm is right for every size; broken schedules are refused.

mod exhaustive;
mod multicasts;
mod mutations;
mod reductions;
mod refusals;
