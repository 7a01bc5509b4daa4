//! Settings in force, as text.

use ferrorail_base::config::{self, Kind, Setting, TABLE};
use serde_json::{Value, json};

/// Every setting of the table: name, value in force, whether that is the default, help.
pub fn in_force(lookup: impl Fn(&str) -> Option<String>) -> Vec<Value> {
    TABLE
        .iter()
        .map(|setting| {
            let given = lookup(setting.name).filter(|value| is_valid(setting, value));
            json!({
                "name": setting.name,
                "value": given.as_deref().map_or(setting.default, str::trim),
                "default": setting.default,
                "is_default": given.is_none(),
                "help": setting.help,
                "choices": choices(setting.kind),
            })
        })
        .collect()
}

/// What values there are, if that can be said in few words.
fn choices(kind: Kind) -> Option<String> {
    match kind {
        Kind::Word(words) => Some(words.join(" | ")),
        Kind::Switch => Some("0 | 1".into()),
        Kind::Number(0, u64::MAX) | Kind::Bytes | Kind::Text => None,
        Kind::Number(min, u64::MAX) => Some(format!("{min} or more")),
        Kind::Number(min, max) => Some(format!("{min} to {max}")),
    }
}

/// Whether the value is used; otherwise the default stays in force.
fn is_valid(setting: &Setting, value: &str) -> bool {
    config::parse([(setting.name, value)]).1.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_cannot_be_read_are_not_in_force() {
        let settings = in_force(|name| match name {
            "FERRORAIL_FABRIC" => Some("loopback".into()),
            "FERRORAIL_PORTS" => Some("99".into()),
            _ => None,
        });
        assert_eq!(settings.len(), TABLE.len());
        let row = |name: &str| settings.iter().find(|row| row["name"] == name).unwrap();
        let fabric = row("FERRORAIL_FABRIC");
        assert_eq!(
            (&fabric["value"], &fabric["is_default"]),
            (&json!("loopback"), &json!(false))
        );
        assert_eq!(fabric["choices"], "auto | loopback | verbs");
        let ports = row("FERRORAIL_PORTS");
        assert_eq!(ports["choices"], "0 to 8");
        assert_eq!(
            (&ports["value"], &ports["is_default"]),
            (&json!("0"), &json!(true))
        );
    }
}
