//! Settings of windows.

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

/// How windows work: the settings that all ranks of one share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSettings {
    /// `FERRORAIL_PSCW`.
    pub pscw: Pscw,
}

/// Settings that a program may give one window, by info keys: their names in lower case.
pub const PER_WINDOW: &[&str] = &["FERRORAIL_PSCW"];

/// What a program gave one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowKeys {
    pscw: Option<Pscw>,
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
            _ => unreachable!("{name} is a setting of windows"),
        }
    }

    /// `settings`, with what the program gave in their places.
    #[must_use]
    pub fn over(self, settings: WindowSettings) -> WindowSettings {
        WindowSettings {
            pscw: self.pscw.unwrap_or(settings.pscw),
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
