//! The key-value service of MPICH's launcher Hydra: version 1 of the PMI wire protocol, which the host
//! itself speaks over the same descriptor inside `MPI_Init`.

use super::KeyValues;
use std::fs::File;
use std::io::{Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

/// How long the launcher may take to answer, in ms.
const TIME_LIMIT_MS: libc::c_int = 30_000;

/// The connection that the launcher gave this process.
pub struct Client {
    /// The host's descriptor, which it closes.
    socket: ManuallyDrop<File>,
    /// The set of entries of this world.
    name: String,
    rank: u32,
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

impl Client {
    /// `None` if another launcher started this process, or the host speaks another version.
    pub fn connect() -> Option<Result<Self, String>> {
        // Hydra's alone, on all hosts. Other launchers that set PMI_FD do not take two introductions on it.
        std::env::var_os("MPI_LOCALNRANKS")?;
        let version = std::env::var("MPIR_CVAR_PMI_VERSION").unwrap_or_default();
        if !["", "1"].contains(&version.as_str()) {
            return None;
        }
        let (socket, rank) = (variable::<RawFd>("PMI_FD")?, variable("PMI_RANK")?);
        Some(Self::introduce(socket, rank))
    }

    fn introduce(socket: RawFd, rank: u32) -> Result<Self, String> {
        // SAFETY: never closed here; the launcher opened it for this process.
        let socket = ManuallyDrop::new(unsafe { File::from_raw_fd(socket) });
        let name = String::new();
        let mut client = Self { socket, name, rank };
        // Hydra 4 forgets what it was told before the first introduction.
        client.call("init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let answer = client.call("get_my_kvsname", "my_kvsname")?;
        client.name = field(&answer, "kvsname").ok_or("no kvsname")?.to_owned();
        Ok(client)
    }

    /// Sends a command and returns its answer.
    fn call(&mut self, command: &str, expected: &str) -> Result<String, String> {
        let failed = |error| format!("PMI: {error}");
        let line = format!("cmd={command}\n");
        self.socket.write_all(line.as_bytes()).map_err(failed)?;
        let mut answer = Vec::new();
        while answer.last() != Some(&b'\n') {
            self.await_answer()?;
            // The host reads from the same socket: nothing behind the line may be taken.
            let mut byte = [0];
            self.socket.read_exact(&mut byte).map_err(failed)?;
            answer.push(byte[0]);
        }
        let answer = String::from_utf8_lossy(&answer).trim().to_owned();
        match field(&answer, "cmd") {
            Some(kind) if kind == expected => Ok(answer),
            _ => Err(format!("PMI: `{command}` was answered with `{answer}`")),
        }
    }

    fn await_answer(&self) -> Result<(), String> {
        let mut wanted = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        loop {
            // SAFETY: one live entry.
            match unsafe { libc::poll(&mut wanted, 1, TIME_LIMIT_MS) } {
                1 => return Ok(()),
                0 => return Err("PMI: the launcher does not answer".into()),
                _ => {
                    let error = std::io::Error::last_os_error();
                    if error.kind() != std::io::ErrorKind::Interrupted {
                        return Err(format!("PMI: {error}"));
                    }
                }
            }
        }
    }
}

/// The value of `name` in a line such as `cmd=get_result rc=0 value=text`.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = line
        .split_whitespace()
        .filter_map(|word| word.split_once('='));
    pairs.find_map(|(known, value)| (known == name).then_some(value))
}

impl KeyValues for Client {
    fn put(&mut self, value: &str) -> Result<(), String> {
        let Self { name, rank, .. } = &*self;
        let command = format!("put kvsname={name} key=ferrorail-{rank} value={value}");
        let answer = self.call(&command, "put_result")?;
        match field(&answer, "rc") {
            Some("0") => Ok(()),
            _ => Err(format!("PMI: {answer}")),
        }
    }

    fn get(&mut self, rank: u32) -> Result<Option<String>, String> {
        let command = format!("get kvsname={} key=ferrorail-{rank}", self.name);
        let answer = self.call(&command, "get_result")?;
        let found = field(&answer, "rc") == Some("0");
        Ok(field(&answer, "value").filter(|_| found).map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::fd::IntoRawFd;
    use std::os::unix::net::UnixStream;

    /// Answers like Hydra, to each line of a script.
    fn launcher(script: &'static [(&'static str, &'static str)]) -> RawFd {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        std::thread::spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().expect("a second handle"));
            for (expected, answer) in script {
                let mut line = String::new();
                lines.read_line(&mut line).expect("a command");
                assert_eq!(line.trim(), *expected);
                writeln!(&theirs, "{answer}").expect("an answer");
            }
        });
        ours.into_raw_fd()
    }

    #[test]
    fn entries_are_set_and_read() {
        let socket = launcher(&[
            (
                "cmd=init pmi_version=1 pmi_subversion=1",
                "cmd=response_to_init rc=0",
            ),
            ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=kvs_1"),
            (
                "cmd=put kvsname=kvs_1 key=ferrorail-1 value=0.1",
                "cmd=put_result rc=0 msg=success",
            ),
            (
                "cmd=get kvsname=kvs_1 key=ferrorail-1",
                "cmd=get_result rc=0 msg=success value=0.1",
            ),
            (
                "cmd=get kvsname=kvs_1 key=ferrorail-0",
                "cmd=get_result rc=-1 msg=key_not_found value=unknown",
            ),
        ]);
        let mut client = Client::introduce(socket, 1).expect("an introduction");
        assert_eq!(client.put("0.1"), Ok(()));
        assert_eq!(client.get(1), Ok(Some("0.1".into())));
        assert_eq!(client.get(0), Ok(None));
    }

    #[test]
    fn a_launcher_that_speaks_otherwise_is_an_error() {
        let socket = launcher(&[("cmd=init pmi_version=1 pmi_subversion=1", "what?")]);
        assert!(Client::introduce(socket, 0).is_err());
    }
}
