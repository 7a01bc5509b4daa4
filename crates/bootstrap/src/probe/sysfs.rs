//! NUMA nodes read from `/sys`, where libhwloc is absent.

use ferrorail_base::last_cache::of_last_cache;
use std::fs;
use std::path::Path;

/// NUMA nodes that have memory or processors, with their processors.
pub(super) fn numa_nodes(nodes: &Path) -> Vec<(u32, Vec<u32>)> {
    let mut found: Vec<(u32, Vec<u32>)> = fs::read_dir(nodes)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let index = name.to_str()?.strip_prefix("node")?.parse().ok()?;
            let list = fs::read_to_string(entry.path().join("cpulist")).ok()?;
            Some((index, parse_list(&list)))
        })
        .collect();
    found.sort();
    found
}

/// Processors that share a core with `processor`, itself included; the list names the core.
pub(super) fn core_of(processors: &Path, processor: u32) -> Vec<u32> {
    let path = processors.join(format!("cpu{processor}/topology/thread_siblings_list"));
    let siblings = fs::read_to_string(path).map_or(Vec::new(), |list| parse_list(&list));
    if siblings.is_empty() {
        return vec![processor];
    }
    siblings
}

/// Processors that share the last-level cache of one that the kernel describes in `processor`, itself included, ascending; none
/// if that is not known.
pub(super) fn cache_of(processor: &Path) -> Vec<u32> {
    let list = of_last_cache(processor, |folder| {
        fs::read_to_string(folder.join("shared_cpu_list")).ok()
    });
    list.map_or(Vec::new(), |list| parse_list(&list))
}

/// The kernel's list format: `0-3,8,10-11`. What cannot be read is left out.
fn parse_list(text: &str) -> Vec<u32> {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    text.split(',')
        .filter_map(|part| match part.split_once('-') {
            Some((first, last)) => Some(number(first)?..=number(last)?),
            None => number(part).map(|only| only..=only),
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A directory that is removed on drop.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            for (file, content) in files {
                let path = root.join(file);
                fs::create_dir_all(path.parent().expect("files are below the root")).unwrap();
                fs::write(path, content).unwrap();
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
    fn lists_of_processors_are_read() {
        assert_eq!(parse_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_list("\n"), [0; 0]);
        assert_eq!(parse_list("x,2-,5"), [5]);
    }

    #[test]
    fn nodes_and_cores_are_listed() {
        let tree = Tree::new(
            "ferrorail-nodes",
            &[
                ("node1/cpulist", "2-3\n"),
                ("node0/cpulist", "0-1\n"),
                ("possible", "0-1\n"),
                ("cpu2/topology/thread_siblings_list", "0,2\n"),
                ("cpu5/cache/index0/level", "1\n"),
                ("cpu5/cache/index0/shared_cpu_list", "5\n"),
                ("cpu5/cache/index3/level", "3\n"),
                ("cpu5/cache/index3/shared_cpu_list", "4-7\n"),
                ("cpu5/cache/uevent", "\n"),
            ],
        );
        assert_eq!(numa_nodes(&tree.0), [(0, vec![0, 1]), (1, vec![2, 3])]);
        assert_eq!(core_of(&tree.0, 2), [0, 2]);
        assert_eq!(core_of(&tree.0, 1), [1]);
        assert_eq!(cache_of(&tree.0.join("cpu5")), [4, 5, 6, 7]);
        assert_eq!(cache_of(&tree.0.join("cpu2")), [0; 0]);
    }
}
