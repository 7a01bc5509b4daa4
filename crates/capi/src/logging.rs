//! Log lines on standard error, each with the rank in front.

use ferrorail_base::config::Settings;
use std::fmt::{Debug, Write as _};
use std::io::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

/// Starts logging as `FERRORAIL_LOG` asks; called at the first MPI call that finds MPI up. Returns
/// what is wrong with the filter, in which case warnings and errors are logged.
pub fn start(settings: &Settings, rank: u32) -> Result<(), String> {
    let (filter, result) = match EnvFilter::try_new(&settings.log) {
        Ok(filter) => (filter, Ok(())),
        Err(error) => {
            let complaint = format!("FERRORAIL_LOG={}: {error}", settings.log);
            (EnvFilter::new("warn"), Err(complaint))
        }
    };
    // A program in Rust may have set its own subscriber only in its own copy of `tracing`; if this
    // one is not the first here, the first stays.
    let lines = tracing_subscriber::registry()
        .with(filter)
        .with(Lines(rank));
    let _ = lines.try_init();
    result
}

/// Writes each event in one go, so that lines of many ranks do not mix. The formatter of `tracing_subscriber` has a buffer in
/// each thread, and panics in calls that destructors make once that is gone.
struct Lines(u32);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let line = line(self.0, event);
        // Where nobody takes it there is nobody to tell.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

fn line(rank: u32, event: &Event<'_>) -> String {
    let about = event.metadata();
    let (level, target) = (about.level(), about.target());
    let mut line = Line(format!("ferrorail[{rank}] {level:>5} {target}:"));
    event.record(&mut line);
    line.0.push('\n');
    line.0
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Strings take what is written.
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_base::sync::Mutex;
    use std::sync::Arc;

    struct Kept(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Kept {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().push(line(3, event));
        }
    }

    #[test]
    fn a_line_says_what_where_and_with_which_values() {
        let kept = Arc::default();
        let subscriber = tracing_subscriber::registry().with(Kept(Arc::clone(&kept)));
        tracing::subscriber::with_default(subscriber, || {
            let (bytes, why) = (8, "none");
            tracing::warn!("no team: {why}");
            tracing::debug!(bytes, %why, abi = ?Some(1), "left");
        });
        let target = module_path!();
        let expected = [
            format!("ferrorail[3]  WARN {target}: no team: none\n"),
            format!("ferrorail[3] DEBUG {target}: left bytes=8 why=none abi=Some(1)\n"),
        ];
        assert_eq!(*kept.lock(), expected);
    }
}
