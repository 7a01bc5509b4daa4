//! Equations (3), (4) and (5) of Qian and Afsahi against the schedules, for every size.

use super::*;

/// (N, k, m, P): P = (k+1)^m is the largest power that is not above N.
fn cases() -> impl Iterator<Item = (u32, u32, u32, u32)> {
    (1..=4u32).flat_map(|k| {
        (k + 1..=64).map(move |size| {
            let (steps, power) = floor_log(size, k + 1);
            (size, k, steps, power)
        })
    })
}

fn allgather(size: u32, k: u32) -> Counts {
    let counts = counted("standard_exchange", &flat(size), k as u8);
    assert_eq!(counts.blocks, u64::from(size * (size - 1)), "none twice");
    assert_eq!(counts.blocks_per_rank, u64::from(size - 1));
    counts
}

fn alltoall(name: &str, size: u32, k: u32) -> Counts {
    counted_of(Collective::Alltoall, name, size, k as u8, 0)
}

#[test]
fn equation_3_standard_exchange_allgather_of_powers() {
    for (size, k, steps, _) in cases().filter(|&(size, .., power)| size == power) {
        let counts = allgather(size, k);
        assert_eq!(counts.rounds, u64::from(steps));
        assert_eq!(counts.port_blocks * u64::from(k), u64::from(size - 1));
        assert_eq!(counts.messages_per_rank, u64::from(k * steps));
        assert_eq!(counts.messages, u64::from(size * k * steps));
    }
}

#[test]
fn equation_4_standard_exchange_allgather_of_other_sizes() {
    let mut equal = 0;
    for (size, k, steps, power) in cases().filter(|&(size, .., power)| size > power) {
        let counts = allgather(size, k);
        // Corrections for which there are blocks, k at a time; equation (4) has k in each step.
        let needed = (size - power).div_ceil(k);
        if needed >= k * steps {
            assert_eq!(counts.rounds, u64::from((k + 1) * steps), "{size} {k}");
            equal += 1;
        } else {
            assert_eq!(counts.rounds, u64::from(steps + needed), "{size} {k}");
        }
        assert_eq!(counts.port_blocks, u64::from((size - 1).div_ceil(k)));
        // A port sends one message a round, as far as there are blocks for all.
        let most = counts.rounds * u64::from(k);
        assert!((most - u64::from(k - 1)..=most).contains(&counts.messages_per_rank));
        let all = counts.messages_per_rank * u64::from(size);
        assert_eq!(counts.messages, all, "all ranks alike");
    }
    assert_eq!(equal, EQUAL);
}

/// Sizes up to 64, k up to 4 with a block for each correction of equation (4).
const EQUAL: u32 = 143;

#[test]
fn equation_4_sixteen_processes_on_two_ports() {
    let counts = allgather(16, 2);
    assert_eq!((counts.rounds, counts.port_blocks), (3 * 2, 8));
    assert_eq!((counts.messages_per_rank, counts.messages), (11, 16 * 11));
    let model = Model {
        alpha_ns: 2000.0,
        beta_ns_per_byte: 1.0,
        stripe_bytes: u64::MAX,
        copy_alpha_ns: 0.0,
        copy_beta_ns_per_byte: 0.0,
        sync_ns: 0.0,
        register_ns: 0.0,
    };
    let algorithm = find(Collective::Allgather, "standard_exchange").expect("name");
    let shape = Shape::of(&flat(16), 2, 2);
    let time = predict(algorithm, Protocol::Eager, &shape, 512, &model);
    assert_eq!(time, Nanos(6.0 * 2000.0 + 8.0 * 512.0));
}

#[test]
fn fewer_ranks_than_ports_and_one_exchange_at_once() {
    for k in 2..=8 {
        for size in 2..=k {
            let counts = allgather(size, k);
            assert_eq!((counts.rounds, counts.port_blocks), (1, 1));
            let counts = alltoall("standard_exchange", size, k);
            assert_eq!((counts.rounds, counts.port_blocks), (1, 1));
        }
    }
}

#[test]
fn equation_5_alltoall_rounds_of_every_size() {
    for name in ["bruck", "standard_exchange"] {
        for (size, k, ..) in cases() {
            let rounds = u64::from(ceil_log(size, k + 1));
            assert_eq!(alltoall(name, size, k).rounds, rounds, "{name} {size} {k}");
        }
    }
}

#[test]
fn equation_5_alltoall_volume_of_powers() {
    for name in ["bruck", "standard_exchange"] {
        for (size, k, steps, _) in cases().filter(|&(size, .., power)| size == power) {
            let counts = alltoall(name, size, k);
            let volume = size / (k + 1) * steps;
            assert_eq!(counts.port_blocks, u64::from(volume));
            assert_eq!(counts.messages_per_rank, u64::from(steps * k));
            assert_eq!(counts.blocks_per_rank, u64::from(volume * k));
        }
    }
}

#[test]
fn equation_5_standard_exchange_alltoall_of_other_sizes() {
    for (size, k, ..) in cases().filter(|&(size, .., power)| size > power) {
        let ours = alltoall("standard_exchange", size, k).port_blocks;
        let bruck = alltoall("bruck", size, k).port_blocks;
        assert!(ours <= bruck, "{size} {k}: {ours}, Bruck {bruck}");
        let equation = f64::from(size) / f64::from(k + 1) * f64::from(size).log(f64::from(k + 1));
        if k == 1 {
            assert!(ours as f64 <= equation, "{size}: {ours}, not {equation}");
        }
    }
    // N/(k+1) log_{k+1} N is 13.46.
    let counts = alltoall("standard_exchange", 16, 2);
    assert_eq!((counts.rounds, counts.port_blocks), (3, 13));
    assert_eq!(counts.messages_per_rank, 6);
}
