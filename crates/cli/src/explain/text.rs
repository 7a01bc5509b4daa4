//! Explanations for people.

use crate::value::{plain, rows};
use ferrorail_base::units::format_bytes;
use serde_json::Value;
use std::fmt::Write;

/// What is said of a choice that the host MPI runs, if it does.
fn left(choice: &Value) -> Option<&'static str> {
    match choice["left_to_host"].as_str()? {
        "chosen" => Some("left to the host, as chosen"),
        _ => Some(
            "left to the host: every rank would connect to every other (FERRORAIL_QUEUE_PAIRS)",
        ),
    }
}

/// Collectives and algorithms.
pub fn listing(facts: &Value) -> String {
    let mut out = String::new();
    for collective in rows(&facts["collectives"]) {
        let left = match collective["offered"] == true {
            true => "",
            false => "  (not taken over yet)",
        };
        let _ = writeln!(out, "{}{left}", plain(&collective["collective"]));
        for algorithm in rows(&collective["algorithms"]) {
            let protocols: Vec<_> = rows(&algorithm["protocols"]).iter().map(plain).collect();
            let protocols = match protocols.is_empty() {
                true => "by size".into(),
                false => protocols.join(", "),
            };
            let _ = writeln!(
                out,
                "  {:<28} {:<17} {}",
                plain(&algorithm["name"]),
                protocols,
                plain(&algorithm["description"])
            );
        }
    }
    out
}

/// One size.
pub fn size(facts: &Value) -> String {
    let bytes = facts["bytes"].as_u64().unwrap_or(0);
    let chosen = &facts["chosen"];
    let mut out = format!(
        "{} of {}{}\n\n",
        plain(&facts["collective"]),
        in_bytes(bytes),
        team(facts)
    );
    line(
        &mut out,
        "chosen",
        &format!("{}: {}", name(chosen), plain(&chosen["description"])),
    );
    line(&mut out, "because", &plain(&chosen["because"]));
    if let Some(left) = left(chosen) {
        line(&mut out, "but", left);
    }
    let class = facts["size_class_bytes"].as_u64().unwrap_or(0);
    if class != bytes && facts["by_length"] == false {
        line(
            &mut out,
            "",
            &format!("sizes up to {} share one choice", format_bytes(class)),
        );
    }
    if let runner_up @ Value::Object(_) = &facts["runner_up"] {
        let ratio = number(&runner_up["ratio"]);
        let verdict = match ratio < 1.0 {
            true => "as long: faster by the model, to which the table prefers measurements",
            false => "as long",
        };
        line(
            &mut out,
            "runner-up",
            &format!("{}, predicted {ratio:.2} times {verdict}", name(runner_up)),
        );
    }
    notes(&mut out, facts);
    let bytes = facts["bytes"].as_u64();
    if let Some(longest) = chosen["eager_bytes"]
        .as_u64()
        .filter(|&longest| bytes <= Some(longest))
    {
        line(&mut out, "note", &by_slots(longest));
    }
    out += "\n  algorithm                    protocol   predicted us  ratio pieces rounds  bytes/port  \
            messages/rank  messages  bytes/rank       bytes    scratch\n";
    for row in rows(&facts["algorithms"]) {
        let mark = if row["chosen"] == true { '*' } else { ' ' };
        let _ = writeln!(
            out,
            "{mark} {:<28} {:<10} {:>12.2} {:>6.2} {:>6} {:>6} {:>11} {:>14} {:>9} {:>11} {:>11} {:>10}",
            plain(&row["algorithm"]),
            plain(&row["protocol"]),
            number(&row["predicted_us"]),
            number(&row["ratio"]),
            count(&row["pieces"]),
            count(&row["rounds"]),
            count(&row["port_bytes"]),
            count(&row["messages_per_rank"]),
            count(&row["messages"]),
            count(&row["bytes_per_rank"]),
            count(&row["bytes"]),
            count(&row["scratch_bytes"]),
        );
    }
    bounds(&mut out, facts);
    out
}

fn bounds(out: &mut String, facts: &Value) {
    let bounds = &facts["bounds"];
    let shape = &facts["shape"];
    let _ = writeln!(out, "\n  No algorithm can do with less than");
    let of = |rounds: &Value, bytes: &Value, through: &str, time: String| {
        format!(
            "rounds {}, bytes through a {through} {}{time}",
            count(rounds),
            count(bytes)
        )
    };
    let flat = of(
        &bounds["rounds"],
        &bounds["port_bytes"],
        "port",
        String::new(),
    );
    line(out, "ranks apart", &flat);
    if shape["nodes"] != 1 {
        let time = format!(": {:.2} us", number(&bounds["time_us"]));
        let nodes = of(&bounds["node_rounds"], &bounds["rail_bytes"], "rail", time);
        line(out, "nodes", &nodes);
    }
    let model = &facts["model"];
    let _ = writeln!(
        out,
        "\n  Predictions are Hockney's: {} us and {} ns per byte of a rail, {} ns per byte copied.",
        number(&model["alpha_ns"]) / 1000.0,
        model["beta_ns_per_byte"],
        model["copy_beta_ns_per_byte"]
    );
}

/// All sizes.
pub fn thresholds(facts: &Value) -> String {
    let mut out = format!("{}{}\n\n", plain(&facts["collective"]), team(facts));
    notes(&mut out, facts);
    for row in rows(&facts["thresholds"]) {
        let to = match row["to_bytes"].as_u64() {
            Some(bytes) => format!("up to {}", format_bytes(bytes)),
            None if row["from_bytes"] == 0 => "all sizes".into(),
            None => "above".into(),
        };
        if let Some(left) = left(row) {
            let _ = writeln!(out, "  {to:<12} {left}; {}", plain(&row["because"]));
            continue;
        }
        let worst = &row["worst"];
        let _ = writeln!(
            out,
            "  {to:<12} {:<38} {}",
            name(row),
            plain(&row["because"])
        );
        let from = row["from_bytes"].as_u64();
        if let Some(longest) = row["eager_bytes"]
            .as_u64()
            .filter(|&longest| from <= Some(longest))
        {
            let _ = writeln!(out, "  {:<12} {}", "", by_slots(longest));
        }
        if number(&worst["ratio"]) > 1.0 {
            let bytes = format_bytes(worst["bytes"].as_u64().unwrap_or(0));
            let ratio = number(&worst["ratio"]);
            let best = name(worst);
            let _ = writeln!(
                out,
                "  {:<12} at most {ratio:.2} times {best}, by the model at {bytes}",
                ""
            );
        }
    }
    out
}

/// ` on 16 ranks …`.
fn team(facts: &Value) -> String {
    let shape = &facts["shape"];
    let mut text = format!(", {} ranks", shape["ranks"]);
    let domains = match &facts["domains"] {
        domains if *domains == 1 => String::new(),
        domains => format!(" in {domains} domains"),
    };
    if shape["nodes"] == 1 {
        let _ = write!(text, " on one node{domains}");
    } else {
        let of = |name: &str| shape[name].as_u64().unwrap_or(0);
        let up_to = match of("nodes") * of("node_size") == of("ranks") {
            true => "",
            false => "up to ",
        };
        let _ = write!(
            text,
            " on {} nodes of {up_to}{}{domains}, rails {}, k {}",
            shape["nodes"], shape["node_size"], shape["rails"], shape["ports"]
        );
    }
    if let Some(root) = facts["root"].as_u64() {
        let _ = write!(text, ", root {root}");
    }
    let zero_copy = if facts["zero_copy"] == true {
        "on"
    } else {
        "off"
    };
    text + ", zero-copy " + zero_copy
}

/// What holds apart from the choice.
fn notes(out: &mut String, facts: &Value) {
    if facts["by_length"] == true {
        let text = "no rank knows all lengths, so all share one choice; a message that has room in \
                    scratch goes there whatever the protocol";
        line(out, "note", text);
    }
    if facts["attach_decides"] == true {
        let text = "ranks measure how long messages take by cross-memory attach, and go by that; shown is what \
                    they do before. --attach-percent 80 shows it for attach in 80 % of the time";
        line(out, "note", text);
    }
    if facts["shape"]["nodes"] == 1 {
        let text = "on one node measurements decide; the model knows no caches and no cores";
        line(out, "note", text);
    }
}

/// What short blocks do on one node instead.
fn by_slots(longest: u64) -> String {
    let bytes = format_bytes(longest);
    format!("blocks of up to {bytes} go by eager slots, each published once, without a schedule")
}

fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "  {name:<12} {value}");
}

/// An algorithm and its protocol.
fn name(value: &Value) -> String {
    format!(
        "{} by {}",
        plain(&value["algorithm"]),
        plain(&value["protocol"])
    )
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn in_bytes(bytes: u64) -> String {
    format!("{} bytes", format_bytes(bytes))
}

/// A number, or `-` where the team is too large to count.
fn count(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".into(), |n| n.to_string())
}
