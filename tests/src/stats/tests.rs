//! Each check of statistics must be able to fail.

use super::*;
use serde_json::json;

fn stats(calls: u64, rails: [u64; 2]) -> Stats {
    let rail = |name: &str, bytes: u64| {
        json!({ "fabric": "loopback", "rail": name, "messages": 1, "bytes": bytes, "failures": 0,
            "readmissions": 0, "resent": 0 })
    };
    let report = json!({
        "version": "1", "ranks": 2, "nodes": 2,
        "collectives": [{ "collective": "allgather", "algorithm": "ring", "protocol": "eager",
            "size_class_bytes": 8, "calls": calls, "bytes": 1, "ranks": 2, "nodes": 2, "chosen_by": "forced",
            "rounds": 1, "messages": 1, "predicted_total_us": 1.0 }],
        "rails": [rail("loop0", rails[0]), rail("loop1", rails[1])],
        "forwarded": [{ "collective": "allgather", "reason": "inter-communicator", "calls": 1, "bytes": 0 }],
    });
    Stats(serde_json::from_value(report).unwrap())
}

#[test]
fn interception_must_show() {
    assert!(stats(1, [1, 1]).check_taken().is_ok());
    assert!(stats(0, [1, 1]).check_taken().is_err());
}

#[test]
fn forced_algorithms_must_run_on_the_shape_that_was_asked_for() {
    let stats = stats(1, [1, 1]);
    let check = |ranks, algorithm: &str, node_size: &str| {
        let settings = [("ALGORITHM", algorithm), ("NODE_SIZE", node_size)];
        let settings = settings.map(|(name, value)| (format!("FERRORAIL_{name}"), value.into()));
        stats.check_forced(ranks, 1, &settings.into()).is_ok()
    };
    assert!(check(2, "allgather=ring", "1"));
    assert!(!check(2, "allgather=bruck", "1"));
    assert!(!check(2, "allgather=ring:ports=2", "1"));
    assert!(!check(2, "allgather=ring", "2"));
    assert!(!check(4, "allgather=ring", "2"));
}

#[test]
fn forwarded_calls_must_be_the_expected_ones() {
    let stats = stats(1, [1, 1]);
    assert!(
        stats
            .check_forwarded(&["inter-communicator".into()])
            .is_ok()
    );
    assert!(stats.check_forwarded(&[]).is_err());
    let more = ["inter-communicator".into(), "size".into()];
    assert!(stats.check_forwarded(&more).is_err());
    assert!(stats.check_share(50).is_ok() && stats.check_share(100).is_err());
}

#[test]
fn rails_must_be_even() {
    assert!(stats(1, [100, 96]).check_even_rails().is_ok());
    assert!(stats(1, [100, 95]).check_even_rails().is_err());
    assert!(stats(1, [0, 0]).check_even_rails().is_err());
}

#[test]
fn messages_of_locks_are_counted_per_acquisition() {
    let mut stats = stats(1, [0, 0]);
    assert!(stats.check_lock_messages(4.0).is_err());
    let window = |acquired, lock_messages| WindowRow {
        acquired,
        lock_messages,
        ..WindowRow::default()
    };
    stats.0.windows = vec![window(10, 20), window(10, 40)];
    assert!(stats.check_lock_messages(3.0).is_ok());
    assert!(stats.check_lock_messages(2.9).is_err());
    stats.0.windows.push(window(100, 0));
    assert!(stats.check_lock_messages(3.0).is_err());
}

#[test]
fn rails_that_carried_bytes_are_counted() {
    assert!(stats(1, [100, 1]).check_rails_used(2).is_ok());
    assert!(stats(1, [100, 0]).check_rails_used(2).is_err());
    assert!(stats(1, [100, 0]).check_rails_used(1).is_ok());
}
