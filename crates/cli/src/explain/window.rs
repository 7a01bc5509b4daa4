//! `ferrorail explain window`: which operations are copies, RDMA, atomics of the CPU or the card.

use super::Args;
use crate::value::rows;
use anyhow::{Context, Result, anyhow};
use ferrorail_base::Topology;
use ferrorail_base::config::Settings;
use ferrorail_engine::window_explanation::{Question, explain};
use ferrorail_engine::{AtomicScope, LockAlgorithm, Memory, open_rails};
use serde_json::{Value, json};
use std::fmt::Write;

/// What stands in the place of a collective.
pub const NAME: &str = "window";

/// Memory of windows (MPI 4.1, section 12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// MPI_Win_create
    Create,
    /// MPI_Win_allocate
    Allocate,
    /// MPI_Win_allocate_shared
    Shared,
    /// MPI_Win_create_dynamic
    Dynamic,
}

impl Kind {
    fn memory(self) -> Memory {
        match self {
            Self::Create => Memory::Create { address: 0 },
            Self::Allocate => Memory::Allocate,
            Self::Shared => Memory::Shared { apart: false },
            Self::Dynamic => Memory::Dynamic,
        }
    }
}

/// Reads the name of a lock algorithm.
pub fn lock(name: &str) -> Result<LockAlgorithm, String> {
    LockAlgorithm::from_name(name).ok_or_else(|| {
        let names = LockAlgorithm::ALL.map(LockAlgorithm::name);
        format!("the lock algorithms are {}", names.join(", "))
    })
}

/// The explanation as data.
pub fn facts(args: &Args, ranks: u32, settings: &Settings) -> Result<Value> {
    let node_size = args.node_size.or(settings.node_size);
    let topology = Topology::from_host_keys(&vec![0; ranks as usize], node_size);
    // What a card promises is known where there is one; cards hardly ever promise more than this.
    let (mut rails, mut scope, mut assumed) = (args.rails.unwrap_or(1), AtomicScope::Rail, true);
    let mut copies = false;
    if topology.node_count() > 1 {
        match open_rails(settings) {
            Ok(opened) => {
                scope = opened.attributes().atomics;
                copies = opened.attributes().same_host_only;
                assumed = false;
                rails = args.rails.unwrap_or(opened.attributes().rails.len() as u8);
            }
            Err(error) if args.rails.is_none() => {
                return Err(error).context("cannot tell the number of rails: give --rails");
            }
            Err(_) => {}
        }
    }
    let question = Question {
        memory: args.kind.memory(),
        topology,
        rails: (rails, scope),
        copies,
        lock: args.lock,
        settings,
    };
    let answer = explain(&question).map_err(|why| anyhow!("there would be no window: {why}"))?;
    let mut facts = serde_json::to_value(&answer)?;
    facts["rails_atomics"] = match answer.rails {
        0 => Value::Null,
        _ => json!({ "exclude": name(scope), "assumed": assumed }),
    };
    Ok(facts)
}

fn name(scope: AtomicScope) -> &'static str {
    match scope {
        AtomicScope::None => "nothing",
        AtomicScope::Rail => "those of the same device",
        AtomicScope::Global => "those of the CPU too",
    }
}

/// The explanation for people.
pub fn text(facts: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut out = format!(
        "window, {} memory, {} ranks on {} nodes, rails {}\n\n",
        word(&facts["memory"]),
        facts["ranks"],
        facts["nodes"],
        facts["rails"]
    );
    let mut line = |name: &str, text: &str| {
        let _ = writeln!(out, "  {name:<14} {text}");
    };
    let lock = (word(&facts["lock"]), word(&facts["lock_because"]));
    line("lock", &format!("{}: {}", lock.0, lock.1));
    line("progress", &word(&facts["progress"]));
    if let Some(scope) = facts["rails_atomics"].as_object() {
        let assumed = if scope["assumed"] == true {
            " (assumed)"
        } else {
            ""
        };
        let text = format!("of rails exclude {}{assumed}", word(&scope["exclude"]));
        line("atomics", &text);
    }
    for row in rows(&facts["operations"]) {
        let _ = writeln!(
            out,
            "\non {}, memory {}",
            word(&row["target"]),
            word(&row["memory"])
        );
        let mut line = |name: &str, text: &str| {
            let _ = writeln!(out, "  {name:<14} {text}");
        };
        line("put, get", &word(&row["put_and_get"]));
        line("accumulate", &word(&row["accumulate"]));
        line(
            "words of locks",
            &format!("{} atomics", word(&row["words"])),
        );
        line("lock, unlock", &messages(&row["lock_messages"]));
    }
    out
}

fn messages(of: &Value) -> String {
    if of.is_null() {
        return "no remote message".into();
    }
    let most = match of["most"].as_array() {
        None => "without a bound under contention".to_owned(),
        Some(most) => format!("at most {} and {} under contention", most[0], most[1]),
    };
    format!(
        "{} remote messages exclusive, {} shared; {most}",
        of["alone"][0], of["alone"][1]
    )
}
