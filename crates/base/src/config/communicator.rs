//! Settings that a program may give one communicator, by info keys.

use super::{PREFIX, Problem, Scope, Setting, TABLE, parse, parse::did_you_mean};
use std::sync::LazyLock;

/// Those of [`Scope::Communicator`].
pub static PER_COMMUNICATOR: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let own = |setting: &&Setting| setting.scope == Scope::Communicator;
    TABLE
        .iter()
        .filter(own)
        .map(|setting| setting.name)
        .collect()
});

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
    let lower = |name: &&'static str| name.to_ascii_lowercase();
    let setting = TABLE.iter().find(|row| lower(&row.name) == key);
    let name = match setting {
        Some(setting) if setting.scope == Scope::Communicator => setting.name,
        Some(_) => return Some(Err(problem("a setting of the whole process".into()))),
        None => {
            let keys: Vec<String> = PER_COMMUNICATOR.iter().map(lower).collect();
            let near = did_you_mean(key, keys.iter().map(String::as_str));
            let hint = format!("unknown setting of communicators{near}");
            return Some(Err(problem(hint)));
        }
    };
    if value.trim().is_empty() {
        return Some(Ok(name));
    }
    let (_, problems) = parse([(name, value)]);
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
    fn readme_names_what_there_is() {
        let readme = include_str!("../../../../README.md");
        let (_, list) = readme
            .split_once("What the ranks of a communicator share")
            .expect("the list of keys");
        let (list, _) = list.split_once(';').expect("its end");
        // The first one is the prefix.
        let listed = list.split('`').skip(3).step_by(2);
        let mut listed: Vec<String> = listed.map(|key| format!("{PREFIX}{key}")).collect();
        listed.iter_mut().for_each(|key| key.make_ascii_uppercase());
        listed.sort_unstable();
        let mut all = PER_COMMUNICATOR.clone();
        all.sort_unstable();
        assert_eq!(listed, all);
        let is_of_name = |letter: char| letter.is_ascii_uppercase() || letter == '_';
        let mut words = readme.split(|letter| !is_of_name(letter));
        let unknown = words.find(|word| {
            word.len() > PREFIX.len()
                && word.starts_with(PREFIX)
                && TABLE.iter().all(|row| row.name != *word)
        });
        assert_eq!(unknown, None);
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
}
