//! For unit tests: teams of ranks that are threads. `tests/engine` has those tests that need nothing of the inside.

use crate::{Context, NoHost, Team};
use ferrorail_base::config::Settings;
use ferrorail_bootstrap::InProcess;
use std::sync::Arc;

/// Runs `body` on a team of `size` ranks.
pub(crate) fn on_ranks(size: u32, settings: &Settings, body: impl Fn(&Team) + Sync) {
    let context = Context::new(settings.clone(), Box::new(NoHost));
    on_ranks_of(&context, size, body);
}

/// As [`on_ranks`], in this context.
pub(crate) fn on_ranks_of(context: &Arc<Context>, size: u32, body: impl Fn(&Team) + Sync) {
    std::thread::scope(|scope| {
        for oob in InProcess::world(size) {
            let body = &body;
            scope.spawn(move || {
                let team = Team::create(context, context.settings(), Box::new(oob));
                let team = team.expect("a team");
                body(&team);
                team.free();
            });
        }
    });
}
