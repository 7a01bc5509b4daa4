//! The schedule of one rank: what it does in which round.

use super::case::Case;
use crate::value::{plain, rows};
use anyhow::{Result, bail};
use ferrorail_base::Rank;
use ferrorail_base::units::size_class;
use ferrorail_coll::{Buffer, Span, Step};
use serde_json::{Value, json};
use std::fmt::Write;

/// Steps of `rank` in what is chosen for blocks of `bytes`.
pub fn facts(case: &Case, bytes: u64, rank: u32) -> Result<Value> {
    let choice = case.choose(size_class(bytes));
    let ranks = case.topology.size();
    if rank >= ranks {
        bail!("--steps {rank} is not one of {ranks} ranks");
    }
    let Some(schedule) = case.schedule(choice.variant, choice.protocol, Rank(rank)) else {
        bail!("--steps: schedules of {ranks} ranks are not built");
    };
    let rounds: Vec<Value> = schedule
        .rounds()
        .map(|steps| steps.iter().map(step).collect())
        .collect();
    Ok(json!({
        "collective": case.collective.name(),
        "algorithm": choice.variant.to_string(),
        "protocol": choice.protocol.name(),
        "rank": rank,
        "ranks": ranks,
        "ports": case.selector().ports(choice.variant),
        "rounds": rounds,
    }))
}

fn step(step: &Step) -> Value {
    match *step {
        Step::Put {
            to,
            port,
            from,
            into,
            ..
        } => {
            json!({ "do": "put", "to": to.0, "port": port, "from": span(from), "into": span(into) })
        }
        Step::PutReduced {
            to,
            port,
            left,
            right,
            into,
            ..
        } => {
            json!({ "do": "put_reduced", "to": to.0, "port": port, "left": span(left), "right": span(right),
                "into": span(into) })
        }
        Step::Await {
            from, port, blocks, ..
        } => json!({ "do": "await", "from": from.0, "port": port, "blocks": blocks }),
        Step::SendRtr { to, .. } => json!({ "do": "send RTR", "to": to.0 }),
        Step::AwaitRtr { from, .. } => {
            json!({ "do": "await_announcement", "from": from.0 })
        }
        Step::Multicast { from } => json!({ "do": "multicast", "from": span(from) }),
        Step::AwaitMulticast { from, into } => {
            json!({ "do": "await_multicast", "from": from.0, "into": span(into) })
        }
        Step::Copy { from, into } => {
            json!({ "do": "copy", "from": span(from), "into": span(into) })
        }
        Step::Reduce {
            left, right, into, ..
        } => {
            json!({ "do": "reduce", "left": span(left), "right": span(right), "into": span(into) })
        }
        Step::NodeSignal { phase } => json!({ "do": "node_signal", "phase": phase }),
        Step::NodeAwait { of, phase } => {
            json!({ "do": "node_await", "from": of.0, "phase": phase })
        }
        Step::NodeAwaitAll { phase } => json!({ "do": "node_await_all", "phase": phase }),
    }
}

/// A buffer with its first block and the one past its last.
fn span(span: Span) -> Value {
    let buffer = match span.buffer {
        Buffer::Send => "send",
        Buffer::Recv => "recv",
        Buffer::Scratch => "scratch",
        Buffer::Node => "node",
    };
    json!(format!(
        "{buffer}[{}..{}]",
        span.first,
        span.first + span.count
    ))
}

/// For people: a line a step.
pub fn text(facts: &Value) -> String {
    let mut out = format!(
        "{} by {} into {}: rank {} of {}, k {}; spans are of blocks\n",
        plain(&facts["collective"]),
        plain(&facts["algorithm"]),
        plain(&facts["protocol"]),
        facts["rank"],
        facts["ranks"],
        facts["ports"],
    );
    for (number, steps) in rows(&facts["rounds"]).iter().enumerate() {
        let _ = writeln!(out, "\n  round {number}");
        for step in rows(steps) {
            let _ = write!(out, "    {:<20}", plain(&step["do"]));
            for name in [
                "to", "from", "left", "right", "into", "port", "blocks", "phase",
            ] {
                if !step[name].is_null() {
                    let _ = write!(out, " {name} {}", plain(&step[name]));
                }
            }
            out.push('\n');
        }
    }
    out
}
