//! Output of ranks, line by line with the rank in front.

use ferrorail_base::Rank;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStderr, ChildStdout};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Longer lines are cut into several.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The threads that copy.
pub struct Output {
    done: Sender<()>,
    finished: Receiver<()>,
    threads: usize,
}

impl Default for Output {
    fn default() -> Self {
        let (done, finished) = mpsc::channel();
        Self {
            done,
            finished,
            threads: 0,
        }
    }
}

impl Output {
    /// Copies what `rank` writes to this process's own streams from now on.
    pub fn follow(
        &mut self,
        rank: Rank,
        stdout: Option<ChildStdout>,
        stderr: Option<ChildStderr>,
    ) -> io::Result<()> {
        if let Some(from) = stdout {
            self.copy(rank, from, io::stdout())?;
        }
        if let Some(from) = stderr {
            self.copy(rank, from, io::stderr())?;
        }
        Ok(())
    }

    fn copy(
        &mut self,
        rank: Rank,
        from: impl Read + Send + 'static,
        to: impl Write + Send + 'static,
    ) -> io::Result<()> {
        let done = self.done.clone();
        thread::Builder::new()
            .name(format!("output-{rank}"))
            .spawn(move || {
                if let Err(error) = copy_lines(rank, from, to) {
                    tracing::debug!("output of rank {rank}: {error}");
                }
                // Nobody listens any more if this comes too late.
                let _ = done.send(());
            })?;
        self.threads += 1;
        Ok(())
    }

    /// Waits until everything is copied, for `time_limit` at most.
    pub fn finish(self, time_limit: Duration) {
        let end = Instant::now() + time_limit;
        for _ in 0..self.threads {
            let left = end.saturating_duration_since(Instant::now());
            if self.finished.recv_timeout(left).is_err() {
                return;
            }
        }
    }
}

fn copy_lines(rank: Rank, from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        write!(line, "[{rank}] ")?;
        if (&mut from)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)?
            == 0
        {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        // One call, so that lines of different ranks do not mix.
        to.write_all(&line)?;
        to.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(from: &[u8]) -> Vec<u8> {
        let mut to = Vec::new();
        copy_lines(Rank(3), from, &mut to).unwrap();
        to
    }

    #[test]
    fn every_line_carries_its_rank() {
        assert_eq!(copied(b""), b"");
        assert_eq!(copied(b"a\n\nb"), b"[3] a\n[3] \n[3] b\n");
        assert_eq!(copied(b"\xff\n"), b"[3] \xff\n");
    }

    #[test]
    fn endless_lines_are_cut() {
        let max = LINE_BYTES_MAX as usize;
        let text = copied(&vec![b'x'; max + 1]);
        assert_eq!(text.len(), max + 1 + 2 * "[3] \n".len());
        assert!(text.ends_with(b"x\n[3] x\n"));
    }
}
