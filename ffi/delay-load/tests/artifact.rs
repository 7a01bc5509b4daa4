//! A linked artifact needs none of the delay-loaded libraries, exports none of their names, works
//! where they exist and says so where they do not.

use libloading::os::unix::Library;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set for the copy of this test program that runs without the libraries.
const CHILD: &str = "FERRORAIL_TEST_WITHOUT_LIBRARIES";

fn artifact() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let profile = program.parent().unwrap().parent().unwrap();
    profile.join("examples/libdelay_loaded.so")
}

fn call(function: &str) -> i32 {
    // SAFETY: our own example; both functions take nothing and return an int.
    unsafe {
        let library = Library::new(artifact()).expect("the artifact loads");
        let function = library
            .get::<unsafe extern "C" fn() -> i32>(function)
            .unwrap();
        function()
    }
}

fn readelf(option: &str, file: &Path) -> String {
    let output = Command::new("readelf")
        .args([option, "--wide"])
        .arg(file)
        .output();
    let output = output.expect("readelf runs");
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn nothing_is_needed_and_nothing_is_exported() {
    for file in [artifact(), std::env::current_exe().unwrap()] {
        let dynamic = readelf("--dynamic", &file);
        assert!(
            dynamic.contains("libc.so.6"),
            "readelf lists needed libraries"
        );
        for library in ["libibverbs", "librdmacm", "libhwloc"] {
            assert!(
                !dynamic.contains(library),
                "{} needs {library}",
                file.display()
            );
        }
    }
    let exported = readelf("--dyn-syms", &artifact());
    assert!(exported.contains("rdma_device_count"));
    for prefix in [" ibv_", " _ibv_", " hwloc_", " rdma_create_"] {
        assert!(!exported.contains(prefix), "{prefix} in\n{exported}");
    }
}

#[test]
fn the_libraries_work_where_they_exist() {
    assert!(
        call("rdma_device_count") >= -1,
        "-2 means that it could not be loaded"
    );
    assert!(call("event_channel_count") >= 0);
    assert!(call("processing_unit_count") >= 1);
    assert_eq!(ferrorail_delay_load::hwloc(), Ok(()));
    assert_eq!(ferrorail_delay_load::verbs(), Ok(()));
    assert_eq!(ferrorail_delay_load::rdmacm(), Ok(()));
}

/// Runs itself in a process whose library path leads to unusable files first.
#[test]
fn absence_is_an_error_and_no_crash() {
    if std::env::var_os(CHILD).is_some() {
        return without_libraries();
    }
    let folder = std::env::temp_dir().join(format!("delay-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for library in ["libibverbs.so.1", "librdmacm.so.1", "libhwloc.so.15"] {
        std::fs::write(folder.join(library), "").unwrap();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "absence_is_an_error_and_no_crash"])
        .env("LD_LIBRARY_PATH", &folder)
        .env(CHILD, "1")
        .output();
    std::fs::remove_dir_all(&folder).unwrap();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

fn without_libraries() {
    assert_eq!(call("rdma_device_count"), -2);
    assert_eq!(call("event_channel_count"), -2);
    assert_eq!(call("processing_unit_count"), -2);
    let error = ferrorail_delay_load::verbs().unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("libibverbs.so.1 cannot be loaded: "),
        "{text}"
    );
    assert_eq!(
        ferrorail_delay_load::verbs(),
        Err(error),
        "the answer stays"
    );
}

/// A jump that nobody may take yet ends the process with words, not with a wild call.
#[test]
fn a_call_without_asking_first_says_whose_fault_it_is() {
    if std::env::var_os(CHILD).is_some() {
        let _ = ibverbs::devices();
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_call_without_asking_first_says_whose_fault_it_is",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("bug in ferrorail"), "{text}");
}
