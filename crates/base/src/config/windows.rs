//! Settings of windows.

use super::parse::{Reader, Value};
use super::{LockRequest, Problem, Pscw, Registration, Scattered, ServiceThreads, Settings, parse};
use serde::{Deserialize, Serialize};

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
    /// `FERRORAIL_SCATTERED`.
    pub scattered: Scattered,
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
        Settings::default().windows
    }
}

impl Value<'_> {
    /// All of windows, of which this is one.
    pub(super) fn windows(self) -> WindowSettings {
        let reader = self.reader;
        WindowSettings {
            pscw: reader.value("FERRORAIL_PSCW").word(),
            scattered: reader.value("FERRORAIL_SCATTERED").word(),
            lock_backoff: lock_backoff(reader),
            lock_request: reader.value("FERRORAIL_LOCK_REQUEST").word(),
            service_threads: reader.value("FERRORAIL_SERVICE_THREADS").word(),
            registration: reader.value("FERRORAIL_REGISTRATION").word(),
            registrations_max: reader.value("FERRORAIL_REGISTRATION_COUNT").number(),
            registrations_bytes_max: reader.value("FERRORAIL_REGISTRATION_BYTES").bytes(),
        }
    }
}

fn lock_backoff(reader: &mut Reader) -> Option<LockBackoff> {
    const FIRST: &str = "FERRORAIL_LOCK_BACKOFF_FIRST";
    const MAX: &str = "FERRORAIL_LOCK_BACKOFF_MAX";
    let given = LockBackoff {
        first_us: reader.value(FIRST).number(),
        max_us: reader.value(MAX).number(),
    };
    let usual = LockBackoff::default();
    let ordered = given.first_us <= given.max_us;
    if !ordered {
        let LockBackoff { first_us, max_us } = usual;
        let hint = format!(
            "longer than the longest, {MAX}={}; {first_us} and {max_us} are in force",
            given.max_us
        );
        reader.complain(FIRST, &given.first_us.to_string(), hint);
    }
    let on = reader.value("FERRORAIL_LOCK_BACKOFF").is("1");
    on.then_some(if ordered { given } else { usual })
}

/// What a program gave one window, by info keys: the names of settings in lower case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowKeys {
    pscw: Option<Pscw>,
    lock_request: Option<LockRequest>,
    service_threads: Option<ServiceThreads>,
    registration: Option<Registration>,
    scattered: Option<Scattered>,
}

impl WindowKeys {
    /// Their names.
    pub const NAMES: [&str; 5] = [
        "ferrorail_pscw",
        "ferrorail_lock_request",
        "ferrorail_service_threads",
        "ferrorail_registration",
        "ferrorail_scattered",
    ];

    /// Those that `value_of` says of each key, and what is wrong with others.
    pub fn read(value_of: impl Fn(&str) -> Option<String>) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let [pscw, lock_request, service_threads, registration, scattered] =
            Self::NAMES.map(|key| {
                let value = value_of(key).filter(|value| !value.trim().is_empty())?;
                let (settings, wrong) = parse([(key.to_ascii_uppercase(), value)]);
                let right = wrong.is_empty().then_some(settings.windows);
                problems.extend(wrong.into_iter().map(|problem| Problem {
                    name: key.into(),
                    ..problem
                }));
                right
            });
        let keys = Self {
            pscw: pscw.map(|given| given.pscw),
            lock_request: lock_request.map(|given| given.lock_request),
            service_threads: service_threads.map(|given| given.service_threads),
            registration: registration.map(|given| given.registration),
            scattered: scattered.map(|given| given.scattered),
        };
        (keys, problems)
    }

    /// `settings`, with what the program gave in their places.
    #[must_use]
    pub fn over(self, settings: WindowSettings) -> WindowSettings {
        WindowSettings {
            pscw: self.pscw.unwrap_or(settings.pscw),
            lock_request: self.lock_request.unwrap_or(settings.lock_request),
            service_threads: self.service_threads.unwrap_or(settings.service_threads),
            registration: self.registration.unwrap_or(settings.registration),
            scattered: self.scattered.unwrap_or(settings.scattered),
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
        assert_eq!(problems.len(), WindowKeys::NAMES.len());
        let text = problems[0].to_string();
        assert_eq!(
            text,
            "ferrorail_pscw=nonsense: not one of counters, bit_vectors"
        );
    }

    #[test]
    fn every_one_is_in_the_table_and_taken() {
        for name in [
            "FERRORAIL_PSCW",
            "FERRORAIL_LOCK_REQUEST",
            "FERRORAIL_SERVICE_THREADS",
            "FERRORAIL_REGISTRATION",
            "FERRORAIL_SCATTERED",
        ] {
            assert!(WindowKeys::NAMES.contains(&&*name.to_ascii_lowercase()));
            let setting = TABLE.iter().find(|setting| setting.name == name);
            let default = setting.expect("in the table").default;
            let given = |key: &str| (key == name.to_ascii_lowercase()).then(|| default.into());
            let (keys, problems) = WindowKeys::read(given);
            assert_eq!(problems, []);
            assert_ne!(keys, WindowKeys::default(), "{name}");
        }
    }
}
