//! What `ferrorail run` tells the processes it starts.

/// The three `FERRORAIL_RUN_*` variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnv {
    /// `FERRORAIL_RUN_RANK`.
    pub rank: u32,
    /// `FERRORAIL_RUN_SIZE`.
    pub size: u32,
    /// `FERRORAIL_RUN_SOCKET`: `@name` of an abstract socket, or a path.
    pub socket: String,
}

/// The variables are there but make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunEnvError {
    /// Some are set and some are not.
    #[error("{0} is not set although other FERRORAIL_RUN_ variables are")]
    Missing(&'static str),
    /// A value is not a number.
    #[error("{name}={value} is not a whole number")]
    NotANumber {
        /// Which variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// The rank is outside of the world.
    #[error("rank {rank} is outside a world of {size} ranks")]
    OutOfRange {
        /// `FERRORAIL_RUN_RANK`.
        rank: u32,
        /// `FERRORAIL_RUN_SIZE`.
        size: u32,
    },
}

const RANK: &str = "FERRORAIL_RUN_RANK";
const SIZE: &str = "FERRORAIL_RUN_SIZE";
const SOCKET: &str = "FERRORAIL_RUN_SOCKET";

impl RunEnv {
    /// Reads the environment of this process; `None` if it was not started by `ferrorail run`.
    ///
    /// # Errors
    /// If only some of the variables are set or a value is malformed.
    pub fn from_process() -> Result<Option<Self>, RunEnvError> {
        Self::from_lookup(|name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()))
    }

    /// Like [`RunEnv::from_process`] with another source of variables.
    ///
    /// # Errors
    /// As there.
    pub fn from_lookup(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, RunEnvError> {
        let [rank, size, socket] =
            [RANK, SIZE, SOCKET].map(|name| lookup(name).ok_or(RunEnvError::Missing(name)));
        if rank.is_err() && size.is_err() && socket.is_err() {
            return Ok(None);
        }
        let (rank, size, socket) = (rank?, size?, socket?);
        let (rank, size) = (number(RANK, rank)?, number(SIZE, size)?);
        if rank >= size {
            return Err(RunEnvError::OutOfRange { rank, size });
        }
        Ok(Some(Self { rank, size, socket }))
    }

    /// The variables to set in the rank's environment.
    pub fn variables(&self) -> [(&'static str, String); 3] {
        [
            (RANK, self.rank.to_string()),
            (SIZE, self.size.to_string()),
            (SOCKET, self.socket.clone()),
        ]
    }
}

fn number(name: &'static str, value: String) -> Result<u32, RunEnvError> {
    value
        .parse()
        .map_err(|_| RunEnvError::NotANumber { name, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<Option<RunEnv>, RunEnvError> {
        RunEnv::from_lookup(|name| {
            let (_, value) = given.iter().find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        })
    }

    #[test]
    fn variables_are_read_back() {
        let env = RunEnv {
            rank: 3,
            size: 4,
            socket: "@x".into(),
        };
        let variables = env.variables();
        let given: Vec<_> = variables.iter().map(|(n, v)| (*n, v.as_str())).collect();
        assert_eq!(read(&given), Ok(Some(env)));
        assert_eq!(read(&[]), Ok(None));
    }

    #[test]
    fn nonsense_is_named() {
        assert_eq!(
            read(&[(RANK, "0"), (SIZE, "2")]),
            Err(RunEnvError::Missing(SOCKET))
        );
        assert_eq!(
            read(&[(RANK, "2"), (SIZE, "2"), (SOCKET, "@x")]),
            Err(RunEnvError::OutOfRange { rank: 2, size: 2 })
        );
        let error = read(&[(RANK, "-1"), (SIZE, "2"), (SOCKET, "@x")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "FERRORAIL_RUN_RANK=-1 is not a whole number"
        );
    }
}
