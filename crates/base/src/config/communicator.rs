//! Settings that a program may give one communicator, by info keys.

use super::{PREFIX, Problem, TABLE, parse, parse::did_you_mean};

/// Settings that the ranks of a communicator share, so that each communicator may have its own. All
/// others belong to the process.
pub const PER_COMMUNICATOR: &[&str] = &[
    "FERRORAIL_ENABLE",
    "FERRORAIL_PORTS",
    "FERRORAIL_LEADERS",
    "FERRORAIL_QUEUE_PAIRS",
    "FERRORAIL_STRIPE_THRESHOLD",
    "FERRORAIL_STRIPE_POLICY",
    "FERRORAIL_STRIPE_MIN",
    "FERRORAIL_NODE_SIZE",
    "FERRORAIL_ALGORITHM",
    "FERRORAIL_TUNING",
    "FERRORAIL_SCRATCH",
    "FERRORAIL_ZERO_COPY",
    "FERRORAIL_SHM",
    "FERRORAIL_CMA",
    "FERRORAIL_RELIABLE",
    "FERRORAIL_MULTICAST",
    "FERRORAIL_BCAST_CHANNELS",
    "FERRORAIL_BCAST_EAGER",
    "FERRORAIL_BCAST_RELIABLE",
    "FERRORAIL_BCAST_CHECKSUM",
    "FERRORAIL_LOCK",
    "FERRORAIL_ACCUMULATE",
    "FERRORAIL_ATOMICS",
    "FERRORAIL_PSCW",
    "FERRORAIL_LOCK_BACKOFF",
    "FERRORAIL_LOCK_BACKOFF_FIRST",
    "FERRORAIL_LOCK_BACKOFF_MAX",
    "FERRORAIL_LOCK_REQUEST",
    "FERRORAIL_SERVICE_THREADS",
    "FERRORAIL_REGISTRATION",
    "FERRORAIL_REGISTRATION_COUNT",
    "FERRORAIL_REGISTRATION_BYTES",
];

/// The variable that info key `key` stands for: the key is its name in lower case. `None` if the key
/// is none of ours.
///
/// # Errors
/// If the key names no setting of communicators, or `value` is not one of its values. An empty value
/// is right: it takes the setting back.
pub fn per_communicator(key: &str, value: &str) -> Option<Result<&'static str, Problem>> {
    key.starts_with(&PREFIX.to_ascii_lowercase())
        .then_some(())?;
    let problem = |hint| Problem {
        name: key.into(),
        value: value.into(),
        hint,
    };
    let is_it = |name: &&&str| name.to_ascii_lowercase() == key;
    let Some(name) = PER_COMMUNICATOR.iter().find(is_it) else {
        let of_process = TABLE
            .iter()
            .any(|setting| setting.name.to_ascii_lowercase() == key);
        let hint = match of_process {
            true => "a setting of the whole process".into(),
            false => {
                let keys: Vec<String> = PER_COMMUNICATOR
                    .iter()
                    .map(|name| name.to_ascii_lowercase())
                    .collect();
                let near = did_you_mean(key, keys.iter().map(String::as_str));
                format!("unknown setting of communicators{near}")
            }
        };
        return Some(Err(problem(hint)));
    };
    if value.trim().is_empty() {
        return Some(Ok(name));
    }
    let (_, problems) = parse([(*name, value)]);
    Some(match problems.into_iter().next() {
        None => Ok(name),
        Some(found) => Err(problem(found.hint)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_in_lower_case() {
        let name = per_communicator("ferrorail_node_size", "2");
        assert_eq!(name, Some(Ok("FERRORAIL_NODE_SIZE")));
        let name = per_communicator("ferrorail_algorithm", "allgather=ring,bcast=knomial");
        assert_eq!(name, Some(Ok("FERRORAIL_ALGORITHM")));
        let name = per_communicator("ferrorail_zero_copy", "");
        assert_eq!(name, Some(Ok("FERRORAIL_ZERO_COPY")));
        assert_eq!(per_communicator("mpi_assert_no_any_tag", "true"), None);
    }

    #[test]
    fn mistakes_are_reported() {
        let text = |key, value| {
            let problem = per_communicator(key, value).unwrap().unwrap_err();
            problem.to_string()
        };
        assert_eq!(
            text("ferrorail_fabric", "verbs"),
            "ferrorail_fabric=verbs: a setting of the whole process"
        );
        assert_eq!(
            text("ferrorail_nodesize", "2"),
            "ferrorail_nodesize=2: unknown setting of communicators; did you mean \
             ferrorail_node_size?"
        );
        assert_eq!(
            text("ferrorail_ports", "99"),
            "ferrorail_ports=99: not a whole number from 0 to 8"
        );
    }

    #[test]
    fn every_one_is_in_the_table() {
        for name in PER_COMMUNICATOR {
            assert!(TABLE.iter().any(|setting| setting.name == *name), "{name}");
        }
    }
}
