//! Ranks as threads of one process, with one context.

use ferrorail_base::config::{FabricChoice, RailChoice, Settings};
use ferrorail_bootstrap::InProcess;
use ferrorail_engine::{Context, NoHost, Team};
use std::sync::Arc;

/// Ranks and ranks per node that tests of every algorithm go through.
pub const SHAPES: [(u32, u32); 9] = [
    (1, 1),
    (2, 1),
    (2, 2),
    (3, 2),
    (4, 2),
    (5, 3),
    (5, 1),
    (7, 2),
    (8, 8),
];

pub fn settings(node_size: u32, rails: u8) -> Settings {
    Settings {
        fabric: FabricChoice::Loopback,
        node_size: Some(node_size),
        rails: RailChoice::Count(rails),
        // A rank that fails must not leave the others waiting for it.
        peer_timeout_s: Some(60),
        ..Settings::default()
    }
}

/// `settings`, with `algorithm` for `collective` whatever the size.
pub fn forced(mut settings: Settings, collective: &str, algorithm: &str) -> Settings {
    settings
        .algorithm
        .insert(collective.into(), algorithm.into());
    settings
}

/// Runs `body(team)` on `size` ranks.
pub fn on_ranks(size: u32, settings: &Settings, body: impl Fn(&Team) + Sync) -> Arc<Context> {
    let context = Context::new(settings.clone(), Box::new(NoHost));
    std::thread::scope(|scope| {
        for oob in InProcess::world(size) {
            let (body, context) = (&body, &context);
            scope.spawn(move || {
                let team =
                    Team::create(context, context.settings(), Box::new(oob)).expect("a team");
                body(&team);
                team.free();
            });
        }
    });
    context
}
