//! Segments of both kinds: sizes, handles, full file systems, leftovers.

use super::*;
use ferrorail_base::sync::Ordering;
use std::path::PathBuf;

/// A directory of its own, removed at the end; with `pages`, a tmpfs of so many.
struct Directory {
    path: PathBuf,
    mounted: bool,
}

impl Directory {
    fn new(test: &str, pages: Option<usize>) -> Self {
        let name = format!("ferrorail-test-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        let mut directory = Self {
            path,
            mounted: false,
        };
        if let Some(pages) = pages {
            let run = std::process::Command::new("mount")
                .args([
                    "-t",
                    "tmpfs",
                    "-o",
                    &format!("size={}", pages * 4096),
                    "tmpfs",
                ])
                .arg(&directory.path)
                .output()
                .expect("running mount");
            assert!(
                run.status.success(),
                "this test has to mount a tmpfs, as root: {run:?}"
            );
            directory.mounted = true;
        }
        directory
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.path).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.mounted {
            let run = std::process::Command::new("umount")
                .arg("-l")
                .arg(&self.path)
                .status();
            assert!(run.is_ok_and(|status| status.success()), "umount");
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[test]
fn a_segment_is_zero_page_sized_and_close_on_exec() {
    for kind in [ShmKind::Auto, ShmKind::Memfd, ShmKind::Posix] {
        let segment = Segment::create(kind, 5000).unwrap();
        assert_eq!(segment.bytes(), 8192);
        assert_eq!(segment.range().bytes, 8192);
        assert!((0..1024).all(|index| segment.word(8 * index).load(Ordering::Relaxed) == 0));
        // SAFETY: reads the flags of an open descriptor.
        let flags = unsafe { libc::fcntl(segment.fd(), libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        assert_eq!(
            segment.handle().posix_name.is_some(),
            kind == ShmKind::Posix
        );
    }
    assert_eq!(Segment::create(ShmKind::Memfd, 0).unwrap().bytes(), 4096);
}

#[test]
fn attached_mappings_share_memory_and_outlive_the_creator() {
    for kind in [ShmKind::Memfd, ShmKind::Posix] {
        let here = Segment::create(kind, 4096).unwrap();
        let handle = SegmentHandle::from_wire(&here.handle().to_wire()).unwrap();
        assert_eq!(handle, here.handle());
        let there = Segment::attach(&handle).unwrap();
        here.word32(4092).store(7, Ordering::Relaxed);
        assert_eq!(there.word32(4092).load(Ordering::Relaxed), 7);
        // A handle of one who attached serves as well.
        let third = Segment::attach(&there.handle()).unwrap();
        drop(here);
        third.word(8).store(9, Ordering::Relaxed);
        assert_eq!(there.word(8).load(Ordering::Relaxed), 9);
        let error = Segment::attach(&handle).unwrap_err();
        let gone = matches!(
            error,
            ShmError::AttachGone { .. } | ShmError::AttachOther { .. }
        );
        assert!(gone, "{error}");
    }
}

#[test]
fn offsets_are_checked() {
    let segment = Segment::create(ShmKind::Memfd, 4096).unwrap();
    let panics = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
    assert!(panics(&|| _ = segment.word(4092)));
    assert!(panics(&|| _ = segment.word(4096)));
    assert!(panics(&|| _ = segment.word(4)));
    assert!(panics(&|| _ = segment.word32(2)));
    assert!(panics(&|| _ = segment.word(usize::MAX - 7)));
    assert!(panics(&|| _ = segment.cells::<AtomicU64>(64, 505)));
    assert!(panics(&|| _ = segment.cells::<Flag>(0, usize::MAX)));
    assert!(panics(&|| _ = segment.cell::<Flag>(32)));
    assert_eq!(segment.cells::<AtomicU64>(64, 504).len(), 504);
}

#[test]
fn impossible_sizes_are_errors() {
    let error = Segment::create(ShmKind::Memfd, usize::MAX).unwrap_err();
    assert!(matches!(error, ShmError::TooLarge { .. }), "{error}");
    // More than the machine has.
    let error = Segment::create(ShmKind::Memfd, 1 << 60).unwrap_err();
    assert!(
        error.to_string().contains("1152921504606846976 bytes"),
        "{error}"
    );
}

#[test]
fn a_memfd_cannot_be_shortened() {
    let segment = Segment::create(ShmKind::Memfd, 8192).unwrap();
    let attached = Segment::attach(&segment.handle()).unwrap();
    let file = attached.file.as_ref().expect("not closed");
    assert!(file.set_len(0).is_err());
    assert!(file.set_len(1 << 20).is_err());
}

#[test]
fn somebody_elses_object_is_not_attached() {
    let segment = Segment::create(ShmKind::Memfd, 4096).unwrap();
    let other = Segment::create(ShmKind::Memfd, 4096).unwrap();
    let wrong = SegmentHandle {
        fd: other.fd(),
        ..segment.handle()
    };
    let error = Segment::attach(&wrong).unwrap_err();
    assert!(matches!(error, ShmError::AttachOther { .. }), "{error}");
    let wrong = SegmentHandle {
        bytes: 8192,
        ..segment.handle()
    };
    assert!(matches!(
        Segment::attach(&wrong),
        Err(ShmError::AttachOther { .. })
    ));
    let wrong = SegmentHandle {
        fd: 1 << 20,
        ..segment.handle()
    };
    assert!(matches!(
        Segment::attach(&wrong),
        Err(ShmError::AttachGone { .. })
    ));
}

#[test]
fn hostile_handles_are_refused() {
    let good = Segment::create(ShmKind::Posix, 1).unwrap().handle();
    for name in [
        "/etc/passwd",
        "ferrorail-1-ab",
        "/ferrorail-1-../x",
        "/ferrorail-x-1",
        "/",
    ] {
        let bad = SegmentHandle {
            posix_name: Some(name.to_owned()),
            ..good.clone()
        };
        assert_eq!(SegmentHandle::from_wire(&bad.to_wire()), None, "{name}");
    }
    assert_eq!(
        SegmentHandle::from_wire(&good.to_wire()),
        Some(good.clone())
    );
    assert_eq!(SegmentHandle::from_wire(&good.to_wire()[..31]), None);
    assert_eq!(SegmentHandle::from_wire(&[]), None);
}

#[test]
fn the_creator_removes_its_name_once() {
    let directory = Directory::new("unlink", None);
    let segment = Segment::create_posix(&directory.path, 4096).unwrap();
    let peer = Segment::attach_in(&directory.path, &segment.handle()).unwrap();
    let expected = segment.handle().posix_name.unwrap();
    assert_eq!(directory.names(), [expected.trim_start_matches('/')]);
    peer.unlink();
    assert_eq!(directory.names().len(), 1, "a peer does not remove it");
    segment.unlink();
    assert!(directory.names().is_empty());
    let error = Segment::attach_in(&directory.path, &segment.handle()).unwrap_err();
    assert!(matches!(error, ShmError::AttachGone { .. }), "{error}");
    peer.word(0).store(3, Ordering::Relaxed);
    assert_eq!(
        segment.word(0).load(Ordering::Relaxed),
        3,
        "the memory stays"
    );
    let second = Segment::create_posix(&directory.path, 4096).unwrap();
    segment.unlink();
    drop(segment);
    assert_eq!(directory.names().len(), 1, "names do not meet");
    drop(second);
    assert!(directory.names().is_empty(), "dropping removes it");
}

#[test]
fn a_tiny_dev_shm_is_a_clear_error() {
    let directory = Directory::new("tiny", Some(16));
    let fits = Segment::create_posix(&directory.path, 8 * 4096).unwrap();
    let error = Segment::create_posix(&directory.path, 12 * 4096).unwrap_err();
    let ShmError::Allocate {
        bytes: 49152,
        source,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(source.raw_os_error(), Some(libc::ENOSPC));
    let text = error.to_string();
    for part in [
        "FERRORAIL_SHM=memfd",
        "FERRORAIL_SCRATCH",
        directory.path.to_str().unwrap(),
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(directory.names().len(), 1, "the failed one left nothing");
    // What was granted is really there, to the last byte, even with the file system full.
    let _rest = Segment::create_posix(&directory.path, 7 * 4096).unwrap();
    for page in 0..8 {
        fits.word(4096 * page + 4088).store(1, Ordering::Relaxed);
    }
}

#[test]
fn a_missing_dev_shm_is_a_clear_error() {
    let error = Segment::create_posix(Path::new("/nonexistent/shm"), 4096).unwrap_err();
    assert!(matches!(error, ShmError::CreatePosix { .. }), "{error}");
    assert!(error.to_string().contains("FERRORAIL_SHM=memfd"), "{error}");
}

#[test]
fn only_abandoned_names_are_swept() {
    let directory = Directory::new("sweep", None);
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let touch = |name: &str| std::fs::write(directory.path.join(name), b"x").unwrap();
    let abandoned = format!("ferrorail-{dead}-00ff");
    let held = format!("ferrorail-{dead}-0011");
    let alive = format!("ferrorail-{}-00ff", std::process::id());
    let foreign = [
        format!("ferrorail-{dead}"),
        format!("ferrorail-{dead}-log.txt"),
        format!("other-{dead}-00ff"),
    ];
    for name in [&abandoned, &held, &alive].into_iter().chain(&foreign) {
        touch(name);
    }
    let symlink = format!("ferrorail-{dead}-22");
    std::os::unix::fs::symlink(directory.path.join(&alive), directory.path.join(symlink)).unwrap();
    let holder = File::open(directory.path.join(&held)).unwrap();
    holder.lock().unwrap();
    let segment = Segment::create_posix(&directory.path, 4096).unwrap();
    let names = directory.names();
    assert!(!names.contains(&abandoned), "{names:?}");
    assert_eq!(names.len(), 7, "the rest and the new one: {names:?}");
    assert!(names.contains(&held) && names.contains(&alive));
    holder.unlock().unwrap();
    posix::sweep(&directory.path);
    assert!(!directory.names().contains(&held), "its lock was given up");
    drop(segment);
}
