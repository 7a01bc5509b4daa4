//! Log lines on standard error, each with the rank in front.

use ferrorail_base::config::Settings;
use std::io::{self, Write};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

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
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .without_time()
        .log_internal_errors(false)
        .with_writer(Prefixed(rank))
        .try_init();
    result
}

/// Writes each event in one go, so that lines of many ranks do not mix.
struct Prefixed(u32);

impl<'a> MakeWriter<'a> for Prefixed {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(self.0)
    }
}

struct Line(u32);

impl Write for Line {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let mut line = format!("ferrorail[{}] ", self.0).into_bytes();
        line.extend_from_slice(event);
        // Where nobody takes it there is nobody to tell.
        let _ = io::stderr().write_all(&line);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
