//! What the kernel says of where a device sits.

use super::speed;
use std::fs;
use std::path::{Path, PathBuf};

/// Where devices are listed.
pub const CLASSES: &str = "/sys/class";

/// Where a device sits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The card: its PCI slot, e.g. `0000:3b:00`, which the functions of a card with several ports
    /// have in common, virtual ones included; else the device's own name.
    pub card: String,
    /// Its NUMA node, if it is close to one.
    pub numa_node: Option<u32>,
    /// What its slot carries in MB/s, 0 if unknown.
    pub slot_mb_s: u64,
}

/// Where `device` sits. A software device such as soft-RoCE's `rxe0` sits where the network device
/// below it does, but is a card of its own.
pub fn place(classes: &Path, device: &str) -> Place {
    let nowhere = Place {
        card: device.to_owned(),
        numa_node: None,
        slot_mb_s: 0,
    };
    // The name comes from drivers: it must stay one path component.
    if device.is_empty() || device.contains('/') || device.starts_with('.') {
        return nowhere;
    }
    let listed = classes.join("infiniband").join(device);
    let Ok(own) = fs::canonicalize(listed.join("device")) else {
        let parent = read(listed.join("parent"));
        let below = classes.join("net").join(parent.trim()).join("device");
        return Place {
            numa_node: numa_node(&below),
            ..nowhere
        };
    };
    // A virtual function shares the slot of its physical one.
    let slot = fs::canonicalize(own.join("physfn")).unwrap_or_else(|_| own.clone());
    let function = slot.file_name().and_then(|name| name.to_str());
    let card = function
        .filter(|function| function.contains(':'))
        .and_then(|function| function.rsplit_once('.'))
        .map_or_else(|| device.to_owned(), |(slot, _)| slot.to_owned());
    Place {
        card,
        numa_node: numa_node(&own),
        slot_mb_s: speed::slot_mb_s(
            &read(slot.join("current_link_speed")),
            &read(slot.join("current_link_width")),
        ),
    }
}

/// Data rate of a port in MB/s as the kernel knows it, 0 if it does not.
pub fn port_rate_mb_s(classes: &Path, device: &str, port: u8) -> u64 {
    let ports = classes.join("infiniband").join(device).join("ports");
    speed::rate_mb_s(&read(ports.join(port.to_string()).join("rate")))
}

/// Network interfaces that speak IPoIB on a port of `device`.
pub fn ipoib_interfaces(classes: &Path, device: &str, port: u8) -> Vec<String> {
    const ARPHRD_INFINIBAND: &str = "32";
    let function = |class: &str, name: &str| {
        let listed = classes.join(class).join(name);
        fs::canonicalize(listed.join("device")).ok()
    };
    let Some(own) = function("infiniband", device) else {
        return Vec::new();
    };
    let entries = fs::read_dir(classes.join("net")).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let on_port = |name: &String| {
        let interface = classes.join("net").join(name);
        let of_port = read(interface.join("dev_port")).trim().parse() == Ok(u32::from(port) - 1);
        let speaks = read(interface.join("type")).trim() == ARPHRD_INFINIBAND;
        speaks && of_port && function("net", name).as_ref() == Some(&own)
    };
    names.filter(on_port).collect()
}

fn numa_node(device: &Path) -> Option<u32> {
    // -1 where the device is close to none in particular.
    read(device.join("numa_node")).trim().parse().ok()
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is removed on drop.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)], links: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            let make = |path: &Path| fs::create_dir_all(path.parent().unwrap()).unwrap();
            for (file, content) in files {
                make(&root.join(file));
                fs::write(root.join(file), content).unwrap();
            }
            for (link, target) in links {
                make(&root.join(link));
                std::os::unix::fs::symlink(root.join(target), root.join(link)).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn interfaces_of_a_port_are_found() {
        let tree = Tree::new(
            "ferrorail-ipoib",
            &[
                ("pci/0000:3b:00.0/vendor", "0x15b3\n"),
                ("pci/0000:af:00.0/vendor", "0x15b3\n"),
                ("net/ib0/type", "32\n"),
                ("net/ib0/dev_port", "0\n"),
                ("net/ib1/type", "32\n"),
                ("net/ib1/dev_port", "1\n"),
                ("net/ib2/type", "32\n"),
                ("net/ib2/dev_port", "0\n"),
                ("net/eth0/type", "1\n"),
                ("net/eth0/dev_port", "0\n"),
            ],
            &[
                ("infiniband/mlx5_0/device", "pci/0000:3b:00.0"),
                ("infiniband/mlx5_1/device", "pci/0000:af:00.0"),
                ("net/ib0/device", "pci/0000:3b:00.0"),
                ("net/ib1/device", "pci/0000:3b:00.0"),
                ("net/eth0/device", "pci/0000:3b:00.0"),
                ("net/ib2/device", "pci/0000:af:00.0"),
            ],
        );
        let of = |device, port| ipoib_interfaces(&tree.0, device, port);
        assert_eq!(of("mlx5_0", 1), ["ib0"]);
        assert_eq!(of("mlx5_0", 2), ["ib1"]);
        assert_eq!(of("mlx5_1", 1), ["ib2"]);
        assert_eq!(of("mlx5_2", 1), [] as [&str; 0]);
    }

    #[test]
    fn devices_are_placed() {
        let tree = Tree::new(
            "ferrorail-places",
            &[
                ("pci/0000:3b:00.0/numa_node", "1\n"),
                ("pci/0000:3b:00.0/current_link_speed", "16.0 GT/s PCIe\n"),
                ("pci/0000:3b:00.0/current_link_width", "16\n"),
                ("pci/0000:3b:00.1/numa_node", "-1\n"),
                ("pci/0000:3b:04.3/numa_node", "1\n"),
                ("infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n"),
                ("virtual/virtio0/numa_node", "0\n"),
                ("infiniband/rxe0/parent", "eth1\n"),
            ],
            &[
                ("infiniband/mlx5_0/device", "pci/0000:3b:00.0"),
                ("infiniband/mlx5_1/device", "pci/0000:3b:00.1"),
                ("infiniband/mlx5_2/device", "pci/0000:3b:04.3"),
                ("pci/0000:3b:04.3/physfn", "pci/0000:3b:00.0"),
                ("net/eth1/device", "virtual/virtio0"),
            ],
        );
        let at = |device| place(&tree.0, device);
        let expect = |card: &str, numa_node, slot_mb_s| Place {
            card: card.to_owned(),
            numa_node,
            slot_mb_s,
        };
        assert_eq!(at("mlx5_0"), expect("0000:3b:00", Some(1), 31_507));
        assert_eq!(at("mlx5_1"), expect("0000:3b:00", None, 0));
        assert_eq!(
            at("mlx5_2"),
            expect("0000:3b:00", Some(1), 31_507),
            "virtual"
        );
        assert_eq!(at("rxe0"), expect("rxe0", Some(0), 0), "software");
        assert_eq!(at("absent"), expect("absent", None, 0));
        assert_eq!(at("../net/eth1"), expect("../net/eth1", None, 0));
        assert_eq!(port_rate_mb_s(&tree.0, "mlx5_0", 1), 12_500);
        assert_eq!(port_rate_mb_s(&tree.0, "mlx5_0", 2), 0);
    }
}
