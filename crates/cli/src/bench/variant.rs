//! What is compared beside the host: copies of the library with settings of their own, and multicasts
//! without any protocol.

use super::operation::Operation;
use super::plain::Way;
use ferrorail_base::config;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The setting that forces an algorithm.
pub const ALGORITHM: &str = "FERRORAIL_ALGORITHM";

/// What does the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The library.
    #[default]
    Library,
    /// The library; what it leaves to a tree, as nodes have no multicast, says nothing.
    Multicast,
    /// Datagrams to a group, which nothing makes reliable.
    RawMulticast,
    /// A program without MPI.
    #[serde(skip)]
    Plain(Way),
}

/// One curve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What stands for it in tables.
    pub label: String,
    /// The only collective that it is about; empty for all.
    #[serde(default)]
    pub of: String,
    /// The collectives that it is about, and what stands for it in the tables of each, if that differs.
    #[serde(skip)]
    pub names: BTreeMap<String, String>,
    /// Settings in which it differs from the environment.
    #[serde(default, deserialize_with = "settings")]
    pub settings: Vec<(String, String)>,
    /// What does the work.
    #[serde(default)]
    pub by: By,
}

/// A list of `SETTING=VALUE`.
pub fn settings<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, String)>, D::Error> {
    let pairs = Vec::<String>::deserialize(from)?.into_iter().map(|pair| {
        let (setting, value) = pair
            .split_once('=')
            .ok_or_else(|| D::Error::custom(format!("{pair:?} is no setting with its value")))?;
        Ok((setting.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

impl Variant {
    /// `algorithm` of `collective`, forced.
    pub fn forced(collective: &str, algorithm: &str) -> Self {
        Self {
            label: algorithm.to_owned(),
            settings: vec![(ALGORITHM.to_owned(), format!("{collective}={algorithm}"))],
            by: match algorithm.contains("multicast") {
                true => By::Multicast,
                false => By::Library,
            },
            ..Self::default()
        }
    }
}

impl Variant {
    /// A plain program.
    pub fn plain(way: Way) -> Self {
        Self {
            label: way.name().to_owned(),
            by: By::Plain(way),
            ..Self::default()
        }
    }

    /// Whether it is compared in `operation`.
    pub fn is_about(&self, operation: &Operation) -> bool {
        let Self { of, names, by, .. } = self;
        let can = match by {
            By::Plain(way) => way.is_about(operation),
            _ => true,
        };
        can && (of.is_empty() || of == operation.name)
            && (names.is_empty() || names.contains_key(operation.name))
    }
}

/// The values of one setting that are compared.
#[derive(Clone, Debug)]
pub struct Variants(pub Vec<Variant>);

/// Reads `SETTING=VALUE,VALUE…`.
pub fn parse(text: &str) -> Result<Variants, String> {
    let (setting, values) = text
        .split_once('=')
        .ok_or("a setting and its values, as in A=1,2")?;
    let values = values.split(',').map(|value| {
        check(setting, value)?;
        Ok(Variant {
            label: value.to_owned(),
            settings: vec![(setting.to_owned(), value.to_owned())],
            ..Variant::default()
        })
    });
    values.collect::<Result<_, String>>().map(Variants)
}

/// Whether `setting` can have `value`.
pub fn check(setting: &str, value: &str) -> Result<(), String> {
    if !config::TABLE.iter().any(|row| row.name == setting) {
        return Err(format!("there is no setting {setting}"));
    }
    let (_, problems) = config::parse([(setting, value)]);
    match problems.first() {
        None => Ok(()),
        Some(problem) => Err(problem.to_string()),
    }
}

/// Settings in the environment, as long as this lives.
pub struct Environment {
    before: Vec<(String, Option<OsString>)>,
}

impl Environment {
    /// Gives the environment these settings.
    ///
    /// # Safety
    /// No other thread looks at the environment until this is dropped, nor while that happens.
    pub unsafe fn with(settings: &[(String, String)]) -> Self {
        let mut this = Self { before: Vec::new() };
        for (name, value) in settings {
            this.before.push((name.clone(), std::env::var_os(name)));
            // SAFETY: the caller vouches for other threads.
            unsafe { std::env::set_var(name, value) };
        }
        this
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        for (name, before) in self.before.drain(..).rev() {
            // SAFETY: as in `with`.
            unsafe {
                match before {
                    Some(value) => std::env::set_var(name, value),
                    None => std::env::remove_var(name),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_setting_are_read_and_checked() {
        let Variants(read) = parse("FERRORAIL_BCAST_CHANNELS=2,16").unwrap();
        let labels: Vec<_> = read.iter().map(|variant| variant.label.as_str()).collect();
        assert_eq!(labels, ["2", "16"]);
        let setting = ("FERRORAIL_BCAST_CHANNELS".to_owned(), "16".to_owned());
        assert_eq!(read[1].settings, [setting]);
        for wrong in ["2,16", "NO_SUCH=1", "FERRORAIL_BCAST_CHANNELS=2,1000"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn algorithms_by_multicast_are_known() {
        assert_eq!(Variant::forced("bcast", "knomial").by, By::Library);
        let multicast = Variant::forced("bcast", "smp_multicast");
        assert_eq!(multicast.by, By::Multicast);
        let setting = (ALGORITHM.to_owned(), "bcast=smp_multicast".to_owned());
        assert_eq!(multicast.settings, [setting]);
    }

    #[test]
    fn the_environment_is_as_before_afterwards() {
        let names = ["FERRORAIL_TEST_GIVEN", "FERRORAIL_TEST_NEW"];
        let now = || names.map(|name| std::env::var(name).ok());
        // SAFETY: the process of a test has one thread that looks at these.
        unsafe { std::env::set_var(names[0], "before") };
        let settings = names.map(|name| (name.to_owned(), "during".to_owned()));
        // SAFETY: as above.
        let environment = unsafe { Environment::with(&settings) };
        assert_eq!(now(), [(); 2].map(|()| Some("during".to_owned())));
        drop(environment);
        assert_eq!(now(), [Some("before".to_owned()), None]);
    }
}
