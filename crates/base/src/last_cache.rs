//! What the kernel says of the last cache of a processor.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel describes processor `index`.
pub fn processor(index: u32) -> PathBuf {
    Path::new("/sys/devices/system/cpu").join(format!("cpu{index}"))
}

/// What `read` finds in the folder of the last cache of a processor that the kernel describes in `processor`; `None` if there
/// is no cache in whose folder it finds anything.
pub fn of_last_cache<T: Ord>(processor: &Path, read: impl Fn(&Path) -> Option<T>) -> Option<T> {
    let caches = fs::read_dir(processor.join("cache")).ok()?;
    let cache = |folder: &Path| {
        let level = fs::read_to_string(folder.join("level")).ok()?;
        let level: u32 = level.trim().parse().ok()?;
        Some((level, read(folder)?))
    };
    let caches = caches.flatten().filter_map(|entry| cache(&entry.path()));
    caches.max().map(|(_, found)| found)
}
