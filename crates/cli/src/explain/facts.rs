//! Explanations as data.

use super::case::{Candidate, Case};
use ferrorail_base::units::size_class;
use ferrorail_coll::cost::Bounds;
use ferrorail_engine::choice::{Choice, ChosenBy, by_length};
use serde_json::{Value, json};

/// Largest size of the table of thresholds, 1 GiB.
const CLASS_MAX: u32 = 30;

/// One size: the choice beside all others.
pub fn of_size(case: &Case, bytes: u64) -> Value {
    let choice = case.choose(size_class(bytes));
    let mut candidates = case.candidates(bytes, true, &choice);
    // Of equals the chosen one comes first.
    candidates.sort_by(|a, b| {
        let of = |c: &Candidate| (c.predicted, !is(&choice, c));
        of(a).partial_cmp(&of(b)).expect("predictions are numbers")
    });
    let is_chosen = |c: &&Candidate| is(&choice, c);
    let chosen = candidates
        .iter()
        .find(is_chosen)
        .expect("the choice is a candidate");
    let relative = |c: &Candidate| c.predicted.0 / chosen.predicted.0;
    let runner_up = candidates.iter().find(|c| !is(&choice, c));
    let bounds = Bounds::of(case.collective, &case.shape, bytes);
    let mut facts = head(case);
    facts["bytes"] = json!(bytes);
    facts["size_class_bytes"] = json!(1u64 << size_class(bytes).min(62));
    facts["chosen"] = json!({
        "algorithm": choice.variant.to_string(),
        "protocol": choice.protocol.name(),
        "description": choice.variant.algorithm.description,
        "because": because(case, &choice),
        "left_to_host": case.left(&choice),
        "predicted_us": chosen.predicted.0 / 1000.0,
        "eager_bytes": case.eager_bytes(choice.variant, choice.protocol),
    });
    facts["runner_up"] = json!(runner_up.map(|c| json!({
        "algorithm": c.variant.to_string(),
        "protocol": c.protocol.name(),
        "ratio": relative(c),
    })));
    let rows = candidates.iter().map(|c| {
        let mut row = row(c);
        row["ratio"] = json!(relative(c));
        row["chosen"] = json!(is(&choice, c));
        row
    });
    facts["algorithms"] = rows.collect();
    facts["bounds"] = json!(bounds);
    facts["bounds"]["time_us"] = json!(bounds.time(&case.shape, &case.model).0 / 1000.0);
    facts
}

/// All sizes: where the choice changes, and what the model would take there.
pub fn thresholds(case: &Case) -> Value {
    let mut rows: Vec<Value> = Vec::new();
    let mut last: Option<Choice> = None;
    for class in 0..=CLASS_MAX {
        let choice = case.choose(class);
        if last != Some(choice) {
            rows.push(json!({
                "from_bytes": if class == 0 { 0 } else { (1u64 << (class - 1)) + 1 },
                "algorithm": choice.variant.to_string(),
                "protocol": choice.protocol.name(),
                "because": because(case, &choice),
                "left_to_host": case.left(&choice),
                "eager_bytes": case.eager_bytes(choice.variant, choice.protocol),
            }));
        }
        last = Some(choice);
        let bytes = 1u64 << class;
        let row = rows.last_mut().expect("the first class opens a row");
        // The last row has no end.
        row["to_bytes"] = if class == CLASS_MAX {
            Value::Null
        } else {
            json!(bytes)
        };
        let candidates = case.candidates(bytes, false, &choice);
        let chosen = candidates.iter().find(|c| is(&choice, c));
        let (chosen, best) = (chosen.expect("a candidate"), &candidates[0]);
        let ratio = chosen.predicted.0 / best.predicted.0;
        if row["worst"]["ratio"]
            .as_f64()
            .is_none_or(|worst| ratio > worst)
        {
            row["worst"] = json!({
                "bytes": bytes,
                "ratio": ratio,
                "algorithm": best.variant.to_string(),
                "protocol": best.protocol.name(),
            });
        }
    }
    let mut facts = head(case);
    facts["thresholds"] = rows.into();
    facts
}

fn head(case: &Case) -> Value {
    json!({
        "collective": case.collective.name(),
        "shape": case.shape,
        "domains": case.selector().query(case.collective, 1).domains,
        "zero_copy": case.zero_copy,
        "attach_percent": case.attach_percent,
        "attach_decides": case.attach_decides(),
        "root": if case.collective.is_rooted() { json!(case.root.0) } else { Value::Null },
        "by_length": by_length(case.collective),
        "scratch_bytes": case.scratch.channel,
        "model": case.model,
    })
}

fn is(choice: &Choice, candidate: &Candidate) -> bool {
    (choice.variant, choice.protocol) == (candidate.variant, candidate.protocol)
}

fn because(case: &Case, choice: &Choice) -> String {
    match choice.by {
        ChosenBy::Forced if choice.host => "FERRORAIL_ALGORITHM forces host".into(),
        ChosenBy::Forced => format!("FERRORAIL_ALGORITHM forces {}", choice.variant),
        ChosenBy::Rule(index) => {
            let rule = &case.table.rules()[index];
            match case.table.has_itself(index) {
                true => format!("rule {index} of {}: {rule}", case.table_name),
                false => format!(
                    "the shipped table, as {} has none for this: {rule}",
                    case.table_name
                ),
            }
        }
    }
}

/// Sums over all pieces of a call.
fn row(c: &Candidate) -> Value {
    let total = |per_operation: u64| per_operation * c.pieces;
    let bytes = |blocks: u64| blocks * c.block_bytes;
    json!({
        "algorithm": c.variant.to_string(),
        "protocol": c.protocol.name(),
        "predicted_us": c.predicted.0 / 1000.0,
        "pieces": c.pieces,
        "rounds": c.counts.map(|counts| total(counts.rounds)),
        "port_bytes": c.counts.map(|counts| bytes(counts.port_blocks)),
        "messages_per_rank": c.counts.map(|counts| total(counts.messages_per_rank)),
        "messages": c.counts.map(|counts| total(counts.messages)),
        "bytes_per_rank": c.counts.map(|counts| bytes(counts.blocks_per_rank)),
        "bytes": c.counts.map(|counts| bytes(counts.blocks)),
        "scratch_bytes": c.scratch_bytes,
    })
}
