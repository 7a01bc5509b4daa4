//! The report as data and as text.

use super::{settings, tree};
use crate::value::{plain, rows};
use crate::{library, mpi};
use anyhow::Result;
use ferrorail_base::config::Settings;
use ferrorail_bootstrap::{HostInfo, probe};
use ferrorail_coll::algorithms;
use ferrorail_engine::{OFFERED, Port, PortChoice, PortState, RailInfo, open_rails, survey_ports};
use serde_json::{Value, json};
use std::fmt::Write;

/// Everything that `ferrorail info` shows.
pub fn collect(settings: &Settings) -> Result<Value> {
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "library": match library::find() {
            Ok(path) => json!({ "path": path }),
            Err(error) => json!({ "error": error.to_string() }),
        },
        "host": host(),
        "mpi": mpi_libraries()?,
        "rails": rails(settings),
        "settings": settings::in_force(|name| std::env::var(name).ok()),
        "algorithms": algorithms_of_all(),
    }))
}

fn host() -> Value {
    let info = HostInfo::probe();
    let name = nix::unistd::gethostname().unwrap_or_default();
    json!({
        "name": name.to_string_lossy(),
        "cores": info.cores,
        "processors": info.processors.len(),
        "parallelism": info.parallelism,
        "numa_nodes": info.numa_nodes,
        "numa_node": info.numa_node,
        "cache": info.cache,
        "source": match info.source {
            probe::Source::Hwloc => "hwloc",
            probe::Source::Kernel => "kernel",
        },
    })
}

fn mpi_libraries() -> Result<Vec<Value>> {
    let rows = mpi::installed()?
        .into_iter()
        .map(|probed| match probed.outcome {
            Ok(description) => description,
            Err(error) => json!({ "path": probed.name, "error": error }),
        });
    Ok(rows.collect())
}

fn rails(settings: &Settings) -> Value {
    let mut rails = match open_rails(settings) {
        Ok(fabric) => json!({
            "fabric": fabric.attributes().name,
            "rails": fabric.attributes().rails.iter().map(rail).collect::<Vec<_>>(),
            "refused": fabric.attributes().refused,
        }),
        Err(error) => json!({ "error": error.to_string(), "rails": [] }),
    };
    let surveyed = survey_ports(settings);
    rails["ports"] = surveyed.map_or_else(|| json!([]), |(all, choice)| ports(&all, &choice));
    rails
}

fn rail(rail: &RailInfo) -> Value {
    json!({
        "name": rail.name,
        "plane": rail.plane,
        "device": rail.device,
        "port": rail.port,
        "address": rail.address,
        "bandwidth_mb_s": rail.bandwidth_mb_s,
        "mtu_bytes": rail.mtu_bytes,
        "numa_node": rail.numa_node,
    })
}

/// Every port of every RDMA device, and what becomes of it.
pub fn ports(ports: &[Port], choice: &PortChoice) -> Value {
    let rows = ports.iter().enumerate().map(|(index, port)| {
        let pick = choice.picks.iter().find(|pick| pick.port == index);
        json!({
            "name": port.name(),
            "device": port.device,
            "port": port.number,
            "card": port.card,
            "numa_node": port.numa_node,
            "state": match port.state {
                PortState::Active => "active",
                PortState::Unusable(_) => "unusable",
            },
            "link": port.address.map(|address| address.link.to_string()),
            "address": port.address.map(|address| address.address().to_string()),
            "lid": port.lid,
            "rate_mb_s": port.rate_mb_s,
            "slot_mb_s": port.slot_mb_s,
            "mtu_bytes": port.mtu_bytes,
            "plane": pick.map(|pick| pick.plane),
            "bandwidth_mb_s": pick.map(|pick| pick.bandwidth_mb_s),
            "left_out": choice.left_out[index],
        })
    });
    rows.collect()
}

fn algorithms_of_all() -> Vec<Value> {
    let rows = OFFERED
        .iter()
        .flat_map(|&collective| algorithms(collective));
    rows.map(|algorithm| {
        json!({
            "collective": algorithm.collective.name(),
            "name": algorithm.name,
            "description": algorithm.description,
        })
    })
    .collect()
}

fn settings_text(out: &mut String, settings: &Value) {
    heading(out, "Settings (* set in the environment)");
    for setting in rows(settings) {
        let mark = if setting["is_default"] == true {
            ' '
        } else {
            '*'
        };
        let name = format!("{}={}", plain(&setting["name"]), plain(&setting["value"]));
        let help = plain(&setting["help"]);
        let choices = match setting["choices"].as_str() {
            Some(choices) => format!(" [{choices}]"),
            None => String::new(),
        };
        let _ = writeln!(out, "{mark} {name:<38} {help}{choices}");
    }
}

/// The report for people.
pub fn text(report: &Value) -> String {
    let mut out = format!("ferrorail {}\n", plain(&report["version"]));
    let library = &report["library"];
    line(&mut out, "library", first(library, &["path", "error"]));

    heading(&mut out, "Host");
    let host = &report["host"];
    line(&mut out, "name", plain(&host["name"]));
    let processors = format!(
        "{} that this process may use ({} hardware threads, {} at once)",
        host["cores"], host["processors"], host["parallelism"]
    );
    line(&mut out, "cores", processors);
    let near = match &host["numa_node"] {
        Value::Null => "this process may run on several".to_owned(),
        node => format!("this process is on {node}"),
    };
    line(
        &mut out,
        "NUMA nodes",
        format!("number {} ({near})", list(&host["numa_nodes"])),
    );
    let cache = match &host["cache"] {
        Value::Null => "this process is bound to none".to_owned(),
        first => format!("this process is on that of processor {first}"),
    };
    line(&mut out, "last-level cache", cache);
    line(&mut out, "found by", plain(&host["source"]));

    heading(&mut out, "MPI libraries");
    for library in rows(&report["mpi"]) {
        match &library["error"] {
            Value::Null => line(
                &mut out,
                &plain(&library["version"]),
                format!(
                    "{} ABI, {}",
                    plain(&library["abi"]),
                    plain(&library["path"])
                ),
            ),
            error => line(&mut out, &plain(&library["path"]), plain(error)),
        }
    }
    if rows(&report["mpi"]).is_empty() {
        line(&mut out, "none found", "set FERRORAIL_MPI_LIBRARY to one");
    }

    rails_text(&mut out, host, &report["rails"]);

    settings_text(&mut out, &report["settings"]);

    heading(&mut out, "Algorithms");
    for algorithm in rows(&report["algorithms"]) {
        let name = format!(
            "{}={}",
            plain(&algorithm["collective"]),
            plain(&algorithm["name"])
        );
        line(&mut out, &name, plain(&algorithm["description"]));
    }
    out
}

fn rails_text(out: &mut String, host: &Value, rails: &Value) {
    match rails["fabric"].as_str() {
        Some(fabric) => heading(out, &format!("Rails ({fabric})")),
        None => heading(out, "Rails"),
    }
    out.push_str(&tree::text(host, rails));
    if !rails["error"].is_null() {
        line(out, "none", plain(&rails["error"]));
    }
    for reason in rows(&rails["refused"]) {
        line(out, "refused", plain(reason));
    }
}

fn heading(out: &mut String, title: &str) {
    let _ = writeln!(out, "\n{title}");
}

fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "  {name:<38} {value}");
}

fn first(value: &Value, names: &[&str]) -> String {
    let found = names.iter().find(|name| !value[**name].is_null());
    found.map_or(String::new(), |name| plain(&value[*name]))
}

fn list(value: &Value) -> String {
    rows(value).iter().map(plain).collect::<Vec<_>>().join(", ")
}
