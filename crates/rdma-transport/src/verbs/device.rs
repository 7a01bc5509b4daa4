//! Which devices and ports there are, and which of them become rails.

use super::handles::Context;
use ferrorail_base::config::RailChoice;
use ferrorail_fabric::RAILS_MAX;
use ibverbs_sys as ffi;
use std::io;
use std::sync::Arc;

/// A port as surveyed.
#[derive(Clone, Debug)]
pub struct Port {
    /// Device name, e.g. `mlx5_0`.
    pub device: String,
    /// 1-based port number.
    pub number: u8,
    /// The opened device, or why it could not be opened.
    pub context: Result<Arc<Context>, String>,
    /// Whether the link is up (state `ACTIVE`).
    pub active: bool,
}

impl Port {
    /// `device:port`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.device, self.number)
    }
}

/// libibverbs' list of devices.
struct DeviceList {
    raw: *mut *mut ffi::ibv_device,
    count: usize,
}

impl DeviceList {
    fn get() -> io::Result<Self> {
        let mut count = 0;
        // SAFETY: the counter is ours.
        let raw = unsafe { ffi::ibv_get_device_list(&raw mut count) };
        if raw.is_null() {
            return Err(io::Error::last_os_error());
        }
        let count = count as usize;
        Ok(Self { raw, count })
    }

    fn devices(&self) -> &[*mut ffi::ibv_device] {
        // SAFETY: the list holds `count` entries until it is freed.
        unsafe { std::slice::from_raw_parts(self.raw, self.count) }
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: from `ibv_get_device_list`, freed once; opened devices outlive it.
        unsafe { ffi::ibv_free_device_list(self.raw) }
    }
}

/// All ports of all devices: every device's first port, then the second ports, and so on, because
/// two ports of one device share its bandwidth. Devices are in the order of their names.
pub fn survey() -> io::Result<Vec<Port>> {
    let list = match DeviceList::get() {
        // A kernel without RDMA.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => return Ok(Vec::new()),
        list => list?,
    };
    let mut ports = Vec::new();
    for device in list.devices() {
        let name = ibverbs::Device::from(device).name();
        let Some(name) = name.and_then(|name| name.to_str().ok()) else {
            continue;
        };
        ports.extend(ports_of(name, *device));
    }
    ports.sort_by(|a, b| (a.number, natural(&a.device)).cmp(&(b.number, natural(&b.device))));
    Ok(ports)
}

fn ports_of(device: &str, raw: *mut ffi::ibv_device) -> Vec<Port> {
    let port = |number, context, active| Port {
        device: device.to_owned(),
        number,
        context,
        active,
    };
    // SAFETY: an entry of the list, which the caller holds.
    let opened = unsafe { Context::open(raw) }.map_err(|error| format!("ibv_open_device: {error}"));
    let attributes = opened.and_then(|context| match context.device_attributes() {
        Ok(attributes) => Ok((Arc::new(context), attributes)),
        Err(error) => Err(format!("ibv_query_device: {error}")),
    });
    match attributes {
        Err(reason) => vec![port(1, Err(reason), false)],
        Ok((context, attributes)) => (1..=attributes.phys_port_cnt)
            .map(|number| match context.port_attributes(number) {
                Ok(found) => {
                    let active = found.state == rdma_sys::ibv_port_state::IBV_PORT_ACTIVE;
                    port(number, Ok(Arc::clone(&context)), active)
                }
                Err(error) => port(number, Err(format!("ibv_query_port: {error}")), false),
            })
            .collect(),
    }
}

/// Sort key that puts `mlx5_2` before `mlx5_10`.
fn natural(name: &str) -> (&str, u64, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(0), name)
}

/// A port to open, and the plane it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Index into the surveyed ports.
    pub port: usize,
    /// Position among the requested rails.
    pub plane: u8,
}

/// Chooses ports; the strings say which requested ones cannot be had, and why.
pub fn pick(ports: &[Port], choice: &RailChoice) -> (Vec<Pick>, Vec<String>) {
    match choice {
        RailChoice::Auto => (automatic(ports, RAILS_MAX), Vec::new()),
        RailChoice::Count(count) => {
            let picks = automatic(ports, usize::from(*count));
            let missing = usize::from(*count) - picks.len();
            let warning = format!("{missing} of the {count} rails asked for do not exist");
            (
                picks,
                if missing > 0 {
                    vec![warning]
                } else {
                    Vec::new()
                },
            )
        }
        RailChoice::Names(names) => by_name(ports, names),
    }
}

/// The first `count` active ports. Inactive ones keep their planes, so that hosts on which
/// different links are down still agree, unless there are more ports than planes.
fn automatic(ports: &[Port], count: usize) -> Vec<Pick> {
    let keep_planes = ports.len() <= RAILS_MAX;
    let active = ports.iter().enumerate().filter(|(_, port)| port.active);
    let picks = active.enumerate().map(|(nth, (port, _))| Pick {
        port,
        plane: if keep_planes { port } else { nth } as u8,
    });
    picks.take(count.min(RAILS_MAX)).collect()
}

fn by_name(ports: &[Port], names: &[String]) -> (Vec<Pick>, Vec<String>) {
    let mut picks: Vec<Pick> = Vec::new();
    let mut warnings = Vec::new();
    for (plane, name) in names.iter().enumerate() {
        if plane >= RAILS_MAX {
            warnings.push(format!("rail {name} is not used: {RAILS_MAX} is the most"));
            continue;
        }
        let matching = |port: &&Port| port.device == *name || port.name() == *name;
        let mut found = ports.iter().filter(matching);
        let active = ports.iter().position(|port| port.active && matching(&port));
        match (active, found.next()) {
            (Some(port), _) if picks.iter().any(|pick| pick.port == port) => {
                warnings.push(format!("rail {name} is named twice"));
            }
            (Some(port), _) => picks.push(Pick {
                port,
                plane: plane as u8,
            }),
            (None, Some(port)) => warnings.push(match &port.context {
                Ok(_) => format!("rail {name} is not used: its port is not active"),
                Err(reason) => format!("rail {name} cannot be opened: {reason}"),
            }),
            (None, None) => {
                let have = describe(ports);
                warnings.push(format!("rail {name} does not exist; there is {have}"));
            }
        }
    }
    (picks, warnings)
}

/// The surveyed ports and their states, for messages.
pub fn describe(ports: &[Port]) -> String {
    if ports.is_empty() {
        return "no RDMA device".to_owned();
    }
    let words = ports.iter().map(|port| match &port.context {
        Ok(_) if port.active => format!("{} (active)", port.name()),
        Ok(_) => format!("{} (not active)", port.name()),
        Err(reason) => format!("{} ({reason})", port.name()),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Lets the program fork while queues and buffers are registered. Kernels since 5.12 copy pinned pages
/// at the fork, and this does nothing; with older ones the library keeps registered pages out of the
/// child, without which a write after the fork would part this process from its device.
pub fn allow_fork() {
    // SAFETY: takes no arguments; the library is loaded.
    let status = unsafe { ibverbs_sys::ibv_fork_init() };
    if status != 0 {
        // Somebody, such as the host MPI, registered memory before.
        let error = std::io::Error::from_raw_os_error(status.abs());
        tracing::debug!("ibv_fork_init failed: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ports that were never opened; only picking looks at them.
    fn ports(list: &[(&str, u8, bool)]) -> Vec<Port> {
        let port = |&(device, number, active): &(&str, u8, bool)| Port {
            device: device.to_owned(),
            number,
            context: Err("ibv_open_device: denied".to_owned()),
            active,
        };
        list.iter().map(port).collect()
    }

    fn planes(picks: &[Pick]) -> Vec<(usize, u8)> {
        picks.iter().map(|pick| (pick.port, pick.plane)).collect()
    }

    #[test]
    fn names_sort_naturally() {
        let mut names = ["mlx5_10", "rxe0", "mlx5_2", "mlx5_bond"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["mlx5_2", "mlx5_10", "mlx5_bond", "rxe0"]);
    }

    #[test]
    fn automatic_takes_active_ports_and_keeps_planes() {
        let ports = ports(&[("a0", 1, true), ("a1", 1, false), ("a0", 2, true)]);
        let (picks, warnings) = pick(&ports, &RailChoice::Auto);
        assert_eq!((planes(&picks), warnings.len()), (vec![(0, 0), (2, 2)], 0));
        let (picks, warnings) = pick(&ports, &RailChoice::Count(1));
        assert_eq!((planes(&picks), warnings.len()), (vec![(0, 0)], 0));
        let (_, warnings) = pick(&ports, &RailChoice::Count(3));
        assert_eq!(warnings, ["1 of the 3 rails asked for do not exist"]);
    }

    #[test]
    fn more_ports_than_planes_count_only_active_ones() {
        let list: Vec<_> = (0..12).map(|i| ("a", i, i >= 3)).collect();
        let (picks, _) = pick(&ports(&list), &RailChoice::Auto);
        assert_eq!(planes(&picks)[0], (3, 0));
        assert_eq!(picks.len(), RAILS_MAX);
    }

    #[test]
    fn named_rails_keep_their_order_and_each_failure_is_said() {
        let ports = ports(&[("a0", 1, true), ("a1", 1, false), ("a0", 2, true)]);
        let names = ["a0:2", "a1", "zz", "a0:2", "a0"].map(str::to_owned);
        let (picks, warnings) = pick(&ports, &RailChoice::Names(names.to_vec()));
        assert_eq!(planes(&picks), [(2, 0), (0, 4)]);
        assert_eq!(
            warnings,
            [
                "rail a1 cannot be opened: ibv_open_device: denied",
                "rail zz does not exist; there is a0:1 (ibv_open_device: denied), a1:1 \
                 (ibv_open_device: denied), a0:2 (ibv_open_device: denied)",
                "rail a0:2 is named twice",
            ]
        );
    }
}
