//! Values of the report as text.

use serde_json::Value;

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
