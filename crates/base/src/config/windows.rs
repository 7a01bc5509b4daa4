//! Settings of windows.

use super::parse::Reader;
use super::{Problem, parse};
use serde::{Deserialize, Serialize};

/// `FERRORAIL_PSCW`: how ranks tell each other of posts and completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pscw {
    /// A 64-bit count for each pair of ranks.
    #[default]
    Counters,
    /// A status for each pair of ranks, which changes with each epoch.
    BitVectors,
}

impl Pscw {
    /// Stable name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counters => "counters",
            Self::BitVectors => "bit_vectors",
        }
    }
}

/// `FERRORAIL_LOCK_REQUEST`: when a lock of a target that is not mapped is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockRequest {
    /// In `MPI_Win_lock`, which does not wait for the answer.
    #[default]
    Early,
    /// At the first operation, flush or unlock.
    Deferred,
}

/// `FERRORAIL_SERVICE_THREADS`: which windows a polling thread serves (lock `thread`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceThreads {
    /// All of the process.
    #[default]
    Process,
    /// One; each has its own.
    Window,
}

/// `FERRORAIL_REGISTRATION`: how long the buffers from which a program puts, and into which it gets, stay
/// registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Registration {
    /// For one operation.
    #[default]
    Operation,
    /// As long as the window, within bounds: the program promises to leave the memory where it is.
    Keep,
}

/// How long a contender of a lock of `test_and_set` leaves the target alone after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockBackoff {
    /// `FERRORAIL_LOCK_BACKOFF_FIRST` in microseconds: the limit after the first attempt; it doubles.
    pub first_us: u32,
    /// `FERRORAIL_LOCK_BACKOFF_MAX` in microseconds: the largest limit.
    pub max_us: u32,
}

impl Default for LockBackoff {
    fn default() -> Self {
        Self {
            first_us: 2,
            max_us: 64,
        }
    }
}

/// How windows work: the settings that all ranks of one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSettings {
    /// `FERRORAIL_PSCW`.
    pub pscw: Pscw,
    /// `FERRORAIL_LOCK_BACKOFF`; `None` tries again at once.
    pub lock_backoff: Option<LockBackoff>,
    /// `FERRORAIL_LOCK_REQUEST`.
    pub lock_request: LockRequest,
    /// `FERRORAIL_SERVICE_THREADS`.
    pub service_threads: ServiceThreads,
    /// `FERRORAIL_REGISTRATION`.
    pub registration: Registration,
    /// `FERRORAIL_REGISTRATION_COUNT`.
    pub registrations_max: u32,
    /// `FERRORAIL_REGISTRATION_BYTES`.
    pub registrations_bytes_max: u64,
}

impl Default for WindowSettings {
    fn default() -> Self {
        Self {
            pscw: Pscw::default(),
            lock_backoff: Some(LockBackoff::default()),
            lock_request: LockRequest::default(),
            service_threads: ServiceThreads::default(),
            registration: Registration::default(),
            registrations_max: 64,
            registrations_bytes_max: 256 << 20,
        }
    }
}

impl Reader {
    /// Those in force.
    pub(super) fn windows(&mut self) -> WindowSettings {
        WindowSettings {
            pscw: match self.text("FERRORAIL_PSCW").as_str() {
                "bit_vectors" => Pscw::BitVectors,
                _ => Pscw::Counters,
            },
            lock_backoff: self.lock_backoff(),
            lock_request: match self.text("FERRORAIL_LOCK_REQUEST").as_str() {
                "deferred" => LockRequest::Deferred,
                _ => LockRequest::Early,
            },
            service_threads: match self.text("FERRORAIL_SERVICE_THREADS").as_str() {
                "window" => ServiceThreads::Window,
                _ => ServiceThreads::Process,
            },
            registration: match self.text("FERRORAIL_REGISTRATION").as_str() {
                "keep" => Registration::Keep,
                _ => Registration::Operation,
            },
            registrations_max: self.number("FERRORAIL_REGISTRATION_COUNT") as u32,
            registrations_bytes_max: self.bytes("FERRORAIL_REGISTRATION_BYTES"),
        }
    }

    fn lock_backoff(&mut self) -> Option<LockBackoff> {
        const FIRST: &str = "FERRORAIL_LOCK_BACKOFF_FIRST";
        const MAX: &str = "FERRORAIL_LOCK_BACKOFF_MAX";
        let given = LockBackoff {
            first_us: self.number(FIRST) as u32,
            max_us: self.number(MAX) as u32,
        };
        let usual = LockBackoff::default();
        let ordered = given.first_us <= given.max_us;
        if !ordered {
            let LockBackoff { first_us, max_us } = usual;
            let hint = format!(
                "longer than the longest, {MAX}={}; {first_us} and {max_us} are in force",
                given.max_us
            );
            self.complain(FIRST, &given.first_us.to_string(), hint);
        }
        let on = self.text("FERRORAIL_LOCK_BACKOFF") == "1";
        on.then_some(if ordered { given } else { usual })
    }
}

/// Settings that a program may give one window, by info keys: their names in lower case.
pub const PER_WINDOW: &[&str] = &[
    "FERRORAIL_PSCW",
    "FERRORAIL_LOCK_REQUEST",
    "FERRORAIL_SERVICE_THREADS",
    "FERRORAIL_REGISTRATION",
];

/// What a program gave one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowKeys {
    pscw: Option<Pscw>,
    lock_request: Option<LockRequest>,
    service_threads: Option<ServiceThreads>,
    registration: Option<Registration>,
}

impl WindowKeys {
    /// Those that `value_of` says of each of [`PER_WINDOW`], and what is wrong with others.
    pub fn read(value_of: impl Fn(&str) -> Option<String>) -> (Self, Vec<Problem>) {
        let mut keys = Self::default();
        let mut problems = Vec::new();
        for name in PER_WINDOW {
            let key = name.to_ascii_lowercase();
            let Some(value) = value_of(&key).filter(|value| !value.trim().is_empty()) else {
                continue;
            };
            let (settings, wrong) = parse([(*name, &value)]);
            if !wrong.is_empty() {
                let named = wrong.into_iter().map(|problem| Problem {
                    name: key.clone(),
                    ..problem
                });
                problems.extend(named);
                continue;
            }
            keys.take(name, &settings.windows);
        }
        (keys, problems)
    }

    fn take(&mut self, name: &str, from: &WindowSettings) {
        match name {
            "FERRORAIL_PSCW" => self.pscw = Some(from.pscw),
            "FERRORAIL_LOCK_REQUEST" => self.lock_request = Some(from.lock_request),
            "FERRORAIL_SERVICE_THREADS" => self.service_threads = Some(from.service_threads),
            "FERRORAIL_REGISTRATION" => self.registration = Some(from.registration),
            _ => unreachable!("{name} is a setting of windows"),
        }
    }

    /// `settings`, with what the program gave in their places.
    #[must_use]
    pub fn over(self, settings: WindowSettings) -> WindowSettings {
        WindowSettings {
            pscw: self.pscw.unwrap_or(settings.pscw),
            lock_request: self.lock_request.unwrap_or(settings.lock_request),
            service_threads: self.service_threads.unwrap_or(settings.service_threads),
            registration: self.registration.unwrap_or(settings.registration),
            ..settings
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TABLE;

    #[test]
    fn a_key_goes_before_the_setting() {
        let given = |key: &str| (key == "ferrorail_pscw").then(|| " bit_vectors ".into());
        let (keys, problems) = WindowKeys::read(given);
        assert_eq!(problems, []);
        let usual = WindowSettings::default();
        assert_eq!(keys.over(usual).pscw, Pscw::BitVectors);
        let (none, _) = WindowKeys::read(|_| None);
        assert_eq!(none.over(keys.over(usual)), keys.over(usual));
    }

    #[test]
    fn backing_off_has_an_order() {
        let bounds = |first, max| {
            parse([
                ("FERRORAIL_LOCK_BACKOFF_FIRST", first),
                ("FERRORAIL_LOCK_BACKOFF_MAX", max),
            ])
        };
        let (settings, problems) = bounds("8", "8");
        assert_eq!(problems, []);
        let equal = LockBackoff {
            first_us: 8,
            max_us: 8,
        };
        assert_eq!(settings.windows.lock_backoff, Some(equal));
        let (settings, problems) = bounds("500", "100");
        let usual = Some(LockBackoff::default());
        assert_eq!(settings.windows.lock_backoff, usual);
        assert_eq!(
            problems[0].to_string(),
            "FERRORAIL_LOCK_BACKOFF_FIRST=500: longer than the longest, \
             FERRORAIL_LOCK_BACKOFF_MAX=100; 2 and 64 are in force"
        );
        let (_, problems) = bounds("0", "1000001");
        assert_eq!(problems.len(), 2, "{problems:?}");
        let (settings, _) = parse([("FERRORAIL_LOCK_BACKOFF", "0")]);
        assert_eq!(settings.windows.lock_backoff, None);
    }

    #[test]
    fn a_wrong_value_is_reported_by_the_key() {
        let (keys, problems) = WindowKeys::read(|_| Some("nonsense".into()));
        assert_eq!(keys, WindowKeys::default());
        assert_eq!(problems.len(), PER_WINDOW.len());
        let text = problems[0].to_string();
        assert_eq!(
            text,
            "ferrorail_pscw=nonsense: not one of counters, bit_vectors"
        );
    }

    #[test]
    fn every_one_is_in_the_table_and_taken() {
        for name in PER_WINDOW {
            let setting = TABLE.iter().find(|setting| setting.name == *name);
            let default = setting.expect("in the table").default;
            let given = |key: &str| (key == name.to_ascii_lowercase()).then(|| default.into());
            let (keys, problems) = WindowKeys::read(given);
            assert_eq!(problems, []);
            assert_ne!(keys, WindowKeys::default(), "{name}");
        }
    }
}
