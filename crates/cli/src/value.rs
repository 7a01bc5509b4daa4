//! Reports as values of JSON: printed, and as text.

use anyhow::Result;
use serde_json::Value;
use std::process::ExitCode;

/// Prints `report` as JSON, or as `text` for people.
pub fn print(
    as_json: bool,
    report: &Value,
    text: impl FnOnce(&Value) -> String,
) -> Result<ExitCode> {
    let text = match as_json {
        true => serde_json::to_string_pretty(report)? + "\n",
        false => text(report),
    };
    out!("{text}");
    Ok(ExitCode::SUCCESS)
}

/// The elements of an array; none of anything else.
pub fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A value without the quotes of JSON.
pub fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
