//! Settings of one communicator, given as info keys: `ferrorail_node_size` for what
//! `FERRORAIL_NODE_SIZE` is to the process.
//!
//! They hang on the communicator as an attribute of their own, which duplicates get as they get the
//! host's hints (MPI 4.1, section 7.4.4). A team is made with them; a team that exists when they
//! change is retired, and the next collective makes another.

use crate::session::Session;
use ferrorail_base::config::{self, Problem, Settings};
use ferrorail_mpi_abi::{Comm, Info, MpiError};
use libc::{c_int, c_void};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Values by variable; an empty one takes the setting back.
type Given = BTreeMap<&'static str, String>;

/// The settings of `comm`: the process's, but for what the program gave the communicator.
pub fn settings(session: &Session, comm: Comm) -> Result<Cow<'static, Settings>, MpiError> {
    let of_process = session.runtime.settings();
    let Some(given) = given_to(session, comm)? else {
        return Ok(Cow::Borrowed(of_process));
    };
    let variables = session.runtime.variables().iter();
    let variables = variables.map(|(name, value)| (name.as_str(), value.as_str()));
    let own = given.iter().map(|(name, value)| (*name, value.as_str()));
    let (settings, _) = config::parse(variables.chain(own));
    Ok(Cow::Owned(settings))
}

fn given_to(session: &Session, comm: Comm) -> Result<Option<Given>, MpiError> {
    let address = session.host().comm_attribute(comm, session.settings_key)?;
    // SAFETY: a value of this key is what `keep` made, and lives until it is deleted, which MPI
    // forbids while the communicator is used by another call.
    Ok(address.map(|address| unsafe { &*(address as *const Given) }.clone()))
}

/// `given` becomes all that is kept with `comm`.
fn keep(session: &Session, comm: Comm, given: Given) -> Result<(), MpiError> {
    let (host, key) = (session.host(), session.settings_key);
    if given.is_empty() {
        return match host.comm_attribute(comm, key)? {
            Some(_) => host.delete_comm_attribute(comm, key),
            None => Ok(()),
        };
    }
    let address = Box::into_raw(Box::new(given));
    host.set_comm_attribute(comm, key, address as usize)
        .inspect_err(|_| {
            // SAFETY: made above, and kept by nobody.
            drop(unsafe { Box::from_raw(address) });
        })
}

/// What `info` says about the communicator's settings. Rank 0 says what is wrong with it.
fn read(session: &Session, comm: Comm, info: Info) -> Given {
    let host = session.host();
    let mut given = Given::new();
    for key in host.info_keys(info) {
        let value = host.info_value(info, &key).unwrap_or_default();
        let Ok(key) = key.to_str() else { continue };
        match setting(key, &value) {
            Some(Ok(name)) => {
                given.insert(name, value.trim().to_owned());
            }
            Some(Err(problem)) if host.comm_rank(comm) == Ok(0) => {
                let line = format!("{problem}; the info key is ignored");
                session.context.warn_once_about(&line, || line.clone());
            }
            _ => {}
        }
    }
    given
}

/// The variable that `key` stands for, unless there is something wrong.
fn setting(key: &str, value: &str) -> Option<Result<&'static str, Problem>> {
    let name = match config::per_communicator(key, value)? {
        Ok(name) => name,
        problem => return Some(problem),
    };
    let (settings, _) = config::parse([(name, value)]);
    let unknown = ferrorail_engine::algorithm_problems(&settings).into_iter();
    let mut problems = unknown.chain(ferrorail_engine::tuning_problem(&settings));
    Some(match problems.next() {
        None => Ok(name),
        Some(Problem { value, hint, .. }) => Err(Problem {
            name: key.into(),
            value,
            hint,
        }),
    })
}

/// Merges what `info` says with what the program gave `comm` before; whether it says anything.
pub fn merge(session: &Session, comm: Comm, info: Info) -> Result<bool, MpiError> {
    let new = read(session, comm, info);
    let any = !new.is_empty();
    if any {
        let mut all = given_to(session, comm)?.unwrap_or_default();
        all.extend(new);
        all.retain(|_, value| !value.is_empty());
        keep(session, comm, all)?;
    }
    Ok(any)
}

/// A duplicate of `comm` has what `info` says, and nothing of the old one's.
pub fn replace(session: &Session, comm: Comm, info: Info, duplicate: Comm) -> Result<(), MpiError> {
    let mut given = read(session, comm, info);
    given.retain(|_, value| !value.is_empty());
    keep(session, duplicate, given)
}

/// Copy callback of the attribute: a duplicate has the same settings.
pub unsafe extern "C" fn on_comm_dup(
    _comm: usize,
    _key: c_int,
    _extra: *mut c_void,
    value: *mut c_void,
    copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    crate::panic_guard::guard(None, || {
        // SAFETY: a value of this key is what `keep` made.
        let given = unsafe { &*value.cast::<Given>() }.clone();
        let address = Box::into_raw(Box::new(given));
        // SAFETY: the library passes where the copy goes, and a live flag.
        unsafe {
            copy.cast::<*mut Given>().write(address);
            *flag = 1;
        }
        0
    })
}

/// Delete callback of the attribute.
pub unsafe extern "C" fn on_comm_free(
    _comm: usize,
    _key: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    crate::panic_guard::guard(None, || {
        // SAFETY: a value of this key is what `keep` or `on_comm_dup` made, deleted once.
        drop(unsafe { Box::from_raw(value.cast::<Given>()) });
        0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_as_those_of_variables() {
        assert!(
            setting("ferrorail_algorithm", "allgather=ring")
                .unwrap()
                .is_ok()
        );
        for (key, value) in [
            ("ferrorail_algorithm", "allgather=nonsense"),
            ("ferrorail_algorithm", "nonsense=ring"),
            ("ferrorail_tuning", "/nonexistent"),
            ("ferrorail_rails", "2"),
        ] {
            let problem = setting(key, value).unwrap().unwrap_err();
            assert_eq!(problem.name, key);
        }
        assert!(setting("mpi_hint", "1").is_none());
    }
}
