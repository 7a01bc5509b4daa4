//! Opening a [`VerbsTransport`].

use super::super::async_events::AsyncEvents;
use super::super::choice::{self, Port};
use super::super::device;
use super::super::peer::process_address;
use super::super::rail::{self, Bounds, Rail};
use super::super::regions::Regions;
use super::super::wire;
use super::VerbsTransport;
use crate::breakages::Failures;
use ferrorail_base::config::Settings;
use ferrorail_base::sync::{AtomicBool, Mutex};
use ferrorail_fabric::{AtomicScope, Attributes, FabricError};

impl VerbsTransport {
    /// Opens the rails that `settings` ask for (`FERRORAIL_RAILS`, `FERRORAIL_GID_INDEX`). A rail
    /// that cannot be opened is [refused](Attributes::refused), and the others are used.
    ///
    /// # Errors
    /// [`FabricError::NoRails`] if none is left, with what was found and what to set.
    pub fn open(settings: &Settings) -> Result<Self, FabricError> {
        Self::open_within(settings, Bounds::default())
    }

    /// [`VerbsTransport::open`], making any device behave like one with these bounds.
    ///
    /// # Errors
    /// As [`VerbsTransport::open`].
    pub fn open_within(settings: &Settings, bounds: Bounds) -> Result<Self, FabricError> {
        let no_rails = |reason: String| FabricError::NoRails {
            reason: format!("{reason}; FERRORAIL_FABRIC=loopback does without RDMA on one host"),
        };
        ferrorail_delay_load::verbs().map_err(|error| no_rails(error.to_string()))?;
        device::allow_fork();
        let surveyed = device::survey(settings.gid_index)
            .map_err(|error| no_rails(format!("RDMA devices cannot be listed: {error}")))?;
        let ports: Vec<Port> = surveyed.iter().map(|one| one.port.clone()).collect();
        let chosen = choice::choose(&ports, &settings.rails);
        let mut refused: Vec<String> = chosen
            .warnings
            .into_iter()
            .map(|warning| format!("FERRORAIL_RAILS: {warning}"))
            .collect();
        let rails = rail::open_all(&surveyed, &chosen.picks, settings, bounds, &mut refused);
        if rails.is_empty() {
            let found = choice::describe(&ports);
            let why: String = refused.iter().map(|why| format!("; {why}")).collect();
            return Err(no_rails(format!(
                "found {found}{why}; a port must be active, named by FERRORAIL_RAILS if that is set, \
                 and its /dev/infiniband device accessible"
            )));
        }
        Ok(Self {
            peers: boxcar::Vec::new(),
            regions: Regions::default(),
            processes: Mutex::default(),
            attributes: attributes(&rails, refused),
            failures: Failures::default(),
            events: AsyncEvents::of(&rails),
            rails,
        })
    }
}

/// What all of `rails` can do.
fn attributes(rails: &[Rail], refused: Vec<String>) -> Attributes {
    let all = |scope| rails.iter().all(|rail| rail.limits.atomics == scope);
    let none = |rail: &Rail| rail.limits.atomics == AtomicScope::None;
    let inline = rails.iter().map(|rail| rail.limits.inline_bytes).min();
    Attributes {
        name: "verbs",
        rails: rails.iter().map(|rail| rail.info.clone()).collect(),
        refused,
        atomics: match () {
            () if rails.iter().any(none) => AtomicScope::None,
            () if all(AtomicScope::Global) => AtomicScope::Global,
            () => AtomicScope::Rail,
        },
        same_host_only: false,
        inline_bytes_max: inline.unwrap_or(0) as usize,
        private_memory: AtomicBool::new(true),
        immediate: false,
        address: wire::pack(&process_address(rails, rails.iter().map(Rail::own_address))),
    }
}
