//! `ferrorail explain`: what would run for a collective of a size on a shape, and why; how operations
//! on a window are done.
//!
//! Nothing is run and no device is used; teams choose through the same code.

mod case;
mod facts;
mod steps;
mod text;
mod window;

use crate::value::print;
use anyhow::{Context, Result, anyhow, bail};
use case::Case;
use ferrorail_base::names::hint;
use ferrorail_base::units::parse_bytes;
use ferrorail_coll::cost::Model;
use ferrorail_coll::named::composites;
use ferrorail_coll::{Collective, algorithms};
use ferrorail_engine::{LockAlgorithm, OFFERED, SIZE_MAX};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Explain which algorithm runs: why, the runner-up, predicted times, messages, lower bounds; or how
/// operations on a window are done
///
/// Without a collective: what there is. Without --bytes: where the choice changes with the size.
/// The FERRORAIL_ settings of the environment are in force.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the collective, such as allgather; or `window`: how operations on one are done
    collective: Option<String>,
    /// Bytes of one block, or of the whole vector of a broadcast or reduction, e.g. 4K
    #[arg(long, value_parser = bytes)]
    bytes: Option<u64>,
    /// Ranks of the communicator
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    ranks: Option<u32>,
    /// Ranks per node; the last node may have fewer [default: FERRORAIL_NODE_SIZE, else all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    node_size: Option<u32>,
    /// Ranks of a domain of a node: of those that share a last-level cache or a NUMA node [default: FERRORAIL_DOMAINS, if
    /// that is a number; else there are no domains]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    domain_size: Option<u32>,
    /// 1 if each rank has a core of its own, 2 if not
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_core: u32,
    /// Time that long messages of a node's ranks take by cross-memory attach, in percent of what they take through
    /// the node's segment, as teams measure it [default: FERRORAIL_ATTACH_PERCENT, else as if it had not been measured]
    #[arg(long, value_name = "N")]
    attach_percent: Option<u32>,
    /// Rails between nodes [default: as many as open here]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    rails: Option<u8>,
    /// k of the multi-port algorithms [default: FERRORAIL_PORTS, else the number of rails]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    ports: Option<u8>,
    /// Memory of a window
    #[arg(long, value_enum, default_value_t = window::Kind::Allocate)]
    kind: window::Kind,
    /// Lock algorithm of a window, as its info key ferrorail_lock says [default: FERRORAIL_LOCK]
    #[arg(long, value_name = "NAME", value_parser = window::lock)]
    lock: Option<LockAlgorithm>,
    /// Whether user memory can be reached [default: as FERRORAIL_ZERO_COPY and FERRORAIL_CMA leave it]
    #[arg(long, value_name = "on|off", value_parser = on_or_off)]
    zero_copy: Option<bool>,
    /// Root of a rooted collective; predictions are for root 0, counts for this one
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    root: u32,
    /// What this rank does, round by round, instead of what there is to choose from
    #[arg(long, value_name = "RANK", requires = "bytes", num_args = 0..=1, default_missing_value = "0")]
    steps: Option<u32>,
    /// Parameters of the machine: a JSON file in the form that --json shows under "model"
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| "not a size such as 64, 4K or 1M".into())
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("neither on nor off".into()),
    }
}

/// Prints the explanation.
pub fn main(args: &Args) -> Result<ExitCode> {
    let settings = crate::settings();
    let Some(name) = &args.collective else {
        return print(args.json, &listing(), text::listing);
    };
    let ranks = || {
        let ranks = args.ranks;
        let ranks = ranks.ok_or_else(|| anyhow!("explain {name} needs --ranks"))?;
        if ranks > SIZE_MAX {
            bail!("communicators of more than {SIZE_MAX} ranks are left to the host MPI");
        }
        Ok(ranks)
    };
    if !settings.enable {
        ferrorail_base::complain(format_args!(
            "ferrorail: FERRORAIL_ENABLE=0 leaves all to the host MPI; this is what would run without it"
        ));
    }
    if name == window::NAME {
        let facts = window::facts(args, ranks()?, &settings)?;
        return print(args.json, &facts, window::text);
    }
    let Some(collective) = Collective::from_name(name) else {
        let names = Collective::ALL.iter().map(|known| known.name());
        let hint = hint(name, names.chain([window::NAME]));
        bail!("there is no collective {name:?}; {hint}");
    };
    let ranks = ranks()?;
    if args.root >= ranks {
        bail!("--root {} is not one of {ranks} ranks", args.root);
    }
    let model = match &args.model {
        None => Model {
            stripe_bytes: settings.stripe_threshold,
            ..Model::default()
        },
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            serde_json::from_str(&text).with_context(|| path.display().to_string())?
        }
    };
    let case = Case::new(args, (collective, ranks), model, &settings)?;
    match args.bytes {
        Some(bytes) if let Some(rank) = args.steps => {
            print(args.json, &steps::facts(&case, bytes, rank)?, steps::text)
        }
        Some(bytes) => print(args.json, &facts::of_size(&case, bytes), text::size),
        None => print(args.json, &facts::thresholds(&case), text::thresholds),
    }
}

/// Every collective with its algorithms.
fn listing() -> Value {
    let rows = Collective::ALL.iter().map(|&collective| {
        let algorithms = algorithms(collective).iter().map(|algorithm| {
            json!({
                "name": algorithm.name,
                "description": algorithm.description,
                "protocols": algorithm.protocols.iter()
                    .map(|&protocol| protocol.name())
                    .collect::<Vec<_>>(),
                "smp_aware": algorithm.smp_aware,
            })
        });
        let composites = composites(collective).map(
            |composite| json!({ "name": composite.name, "description": composite.description }),
        );
        json!({
            "collective": collective.name(),
            "offered": OFFERED.contains(&collective),
            "algorithms": algorithms.chain(composites).collect::<Vec<_>>(),
        })
    });
    json!({ "collectives": rows.collect::<Vec<_>>() })
}
