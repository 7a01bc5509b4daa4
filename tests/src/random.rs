//! Jobs of `c/random_check.c`, `c/win_random.c` and `c/comm_random.c`: their shape and settings are drawn from one seed,
//! as are the cases in them. Formerly failing seeds run every time.

use crate::Extent;
use crate::list::{Case, Environment, Expect};
use crate::mpi::Mpi;
use ferrorail_base::random::SplitMix64;
use ferrorail_coll::algorithms;

/// Seeds of jobs that once failed, with what they found.
const KEPT: &[u64] = &[];

const PROGRAM: &str = "c/random_check.c";

/// One-sided communication.
const WINDOWS: &str = "c/win_random.c";

/// Communicators that come and go.
const COMMUNICATORS: &str = "c/comm_random.c";

/// Where the jobs run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Loopback,
    Verbs,
}

/// Jobs of one kind: how many there are, and how large.
struct Series {
    place: Place,
    mpi: Mpi,
    jobs: u64,
    batches: u64,
    most_ranks: u64,
}

const fn series(place: Place, mpi: Mpi, jobs: u64, batches: u64, most_ranks: u64) -> Series {
    Series {
        place,
        mpi,
        jobs,
        batches,
        most_ranks,
    }
}

/// The jobs of one run.
const SERIES: &[Series] = &[
    series(Place::Loopback, Mpi::Open, 16, 60, 8),
    series(Place::Loopback, Mpi::Mpich, 6, 60, 5),
    series(Place::Loopback, Mpi::Abi, 8, 40, 5),
    series(Place::Verbs, Mpi::Open, 2, 20, 4),
];

/// The jobs of one-sided communication; a batch is an epoch.
const WINDOW_SERIES: &[Series] = &[
    series(Place::Loopback, Mpi::Open, 14, 40, 7),
    series(Place::Loopback, Mpi::Mpich, 5, 40, 5),
    series(Place::Loopback, Mpi::Abi, 5, 20, 4),
    series(Place::Verbs, Mpi::Open, 2, 10, 3),
];

/// The jobs of communicators that come and go; a batch is a step.
const COMMUNICATOR_SERIES: &[Series] = &[
    series(Place::Loopback, Mpi::Open, 6, 150, 7),
    series(Place::Loopback, Mpi::Mpich, 4, 150, 5),
    series(Place::Loopback, Mpi::Abi, 2, 150, 5),
];

/// All jobs for a seed, and those that always run.
pub fn cases(seed: u64, extent: Extent) -> Vec<Case> {
    let mut found = drawn(SERIES, seed, extent, Series::case);
    found.extend(drawn(WINDOW_SERIES, !seed, extent, Series::windows));
    let communicators = seed.rotate_left(7);
    found.extend(drawn(
        COMMUNICATOR_SERIES,
        communicators,
        extent,
        Series::communicators,
    ));
    let first = &SERIES[0];
    found.extend(KEPT.iter().map(|&seed| first.case(seed)));
    found
}

/// The jobs of all `series`, each made of a seed of its own.
fn drawn(
    series: &[Series],
    seed: u64,
    extent: Extent,
    case: fn(&Series, u64) -> Case,
) -> Vec<Case> {
    let mut found = Vec::new();
    for series in series {
        let jobs = match extent {
            Extent::Sample => series.jobs.div_ceil(2),
            Extent::List => series.jobs,
            Extent::All => series.jobs * 10,
        };
        for number in 0..jobs {
            let mut draw = SplitMix64(seed ^ (number << 32) ^ series.mpi as u64);
            found.push(case(series, draw.draw() >> 32));
        }
    }
    found
}

/// A seed that was hardly used before.
pub fn new_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| since.as_secs())
}

impl Series {
    /// The job that `seed` stands for.
    fn case(&self, seed: u64) -> Case {
        let mut draw = SplitMix64(seed);
        let (group, fabric, most_bytes) = match self.place {
            Place::Loopback => ("random", "loopback", "300000"),
            Place::Verbs => ("verbs", "verbs", "60000"),
        };
        let ranks = 2 + draw.below(self.most_ranks - 1);
        let mut environment = settings(&mut draw);
        environment.insert("FERRORAIL_FABRIC".into(), fabric.into());
        environment.extend(of_host(self.mpi));
        if self.place == Place::Verbs {
            let rails = (1 + draw.below(2)).to_string();
            environment.insert("FERRORAIL_RAILS".into(), rails);
            environment.insert(
                "FERRORAIL_NODE_SIZE".into(),
                (1 + draw.below(2)).to_string(),
            );
        }
        let batches = self.batches.to_string();
        Case {
            name: format!("random/{}/{fabric}/{seed}", self.mpi),
            group: group.into(),
            program: PROGRAM.into(),
            arguments: [&seed.to_string(), &batches, "0", most_bytes]
                .map(str::to_owned)
                .into(),
            mpi: self.mpi,
            ranks: u32::try_from(ranks).unwrap_or(2),
            hosts: 1,
            environment,
            rounds: Vec::new(),
            expect: Expect {
                // A forced algorithm does not fit every communicator.
                forced: false,
                output: vec!["ok=yes".into()],
                ..Expect::usual()
            },
            asleep: false,
            drawn: true,
            timeout_s: 120,
        }
    }

    /// The job of one-sided communication that `seed` stands for: one rank is enough for it.
    fn windows(&self, seed: u64) -> Case {
        let mut case = self.case(seed);
        let mut draw = SplitMix64(!seed);
        let most = if self.place == Place::Verbs {
            20_000
        } else {
            100_000
        };
        case.name = case.name.replacen("random", "random-windows", 1);
        case.program = WINDOWS.into();
        case.arguments = vec![seed.to_string(), self.batches.to_string(), most.to_string()];
        case.ranks = 1 + u32::try_from(draw.below(self.most_ranks)).unwrap_or(0);
        // Without it MPI_Win_create is left to the host, as nothing else reaches the memory.
        case.environment.remove("FERRORAIL_CMA");
        let locks = ["auto", "test_and_set", "mcs", "queue", "thread", "event"];
        let lock = locks[draw.below(locks.len() as u64) as usize];
        let atomics = ["auto", "auto", "nic"][draw.below(3) as usize];
        let accumulate = ["origin", "event", "auto", "nic"][draw.below(4) as usize];
        let scattered = ["auto", "origin", "target", "target"][draw.below(4) as usize];
        case.environment
            .insert("FERRORAIL_SCATTERED".into(), scattered.into());
        case.environment
            .insert("FERRORAIL_LOCK".into(), lock.into());
        case.environment
            .insert("FERRORAIL_ATOMICS".into(), atomics.into());
        case.environment
            .insert("FERRORAIL_ACCUMULATE".into(), accumulate.into());
        // The verdict names its seed.
        case.expect.output.push(format!("win_random seed={seed} "));
        case
    }

    /// The job of communicators that `seed` stands for.
    fn communicators(&self, seed: u64) -> Case {
        let mut case = self.case(seed);
        case.name = case.name.replacen("random", "random-communicators", 1);
        case.program = COMMUNICATORS.into();
        case.arguments = vec![seed.to_string(), self.batches.to_string()];
        let left = [
            "communicator being freed",
            "inter-communicator",
            "invalid arguments",
        ];
        case.expect.forwarded = left.map(str::to_owned).into();
        case
    }
}

/// What the host needs to be a reference.
fn of_host(mpi: Mpi) -> Environment {
    let pairs: &[(&str, &str)] = match mpi {
        // MPI_Allgatherv chooses by the local counts and types: ranks with different layouts of the
        // same data wait for each other for ever, unless one algorithm is forced. Its AVX sums of
        // short integers saturate instead of wrapping around, as the others' do.
        Mpi::Open => &[
            ("OMPI_MCA_op", "^avx"),
            ("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),
            ("OMPI_MCA_coll_tuned_allgatherv_algorithm", "3"),
        ],
        Mpi::Mpich | Mpi::Abi => &[],
    };
    pairs
        .iter()
        .map(|&(name, value)| (name.into(), value.into()))
        .collect()
}

/// Settings that must make no difference to any result.
fn settings(draw: &mut SplitMix64) -> Environment {
    let mut found = Environment::new();
    let mut vary = |draw: &mut SplitMix64, name: &str, values: &[&str]| {
        let value = values[draw.below(values.len() as u64) as usize];
        if !value.is_empty() {
            found.insert(format!("FERRORAIL_{name}"), value.into());
        }
    };
    // An empty word leaves the setting alone.
    vary(draw, "NODE_SIZE", &["0", "1", "2", "2", "3"]);
    vary(draw, "RAILS", &["", "1", "2", "3", "4"]);
    vary(draw, "PORTS", &["", "1", "2", "3", "5"]);
    vary(draw, "LEADERS", &["", "", "1", "2", "3"]);
    vary(draw, "ZERO_COPY", &["", "on", "off"]);
    vary(draw, "CMA", &["", "", "off"]);
    vary(draw, "SHM", &["", "memfd", "posix"]);
    vary(draw, "SCRATCH", &["", "4K", "16K", "256K"]);
    vary(draw, "STRIPE_THRESHOLD", &["", "0", "64", "64K"]);
    vary(draw, "SPIN", &["", "0", "100"]);
    let mut forced = Vec::new();
    for &collective in ferrorail_engine::OFFERED {
        let all = algorithms(collective);
        if draw.below(2) == 0 {
            let algorithm = &all[draw.below(all.len() as u64) as usize];
            forced.push(format!("{}={}", collective.name(), algorithm.name));
        }
    }
    if !forced.is_empty() {
        found.insert("FERRORAIL_ALGORITHM".into(), forced.join(","));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_stands_for_the_same_jobs() {
        let names = |seed| {
            cases(seed, Extent::List)
                .into_iter()
                .map(|case| case.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(7), names(7));
        assert_ne!(names(7), names(8));
        let job = &SERIES[0];
        assert_eq!(job.case(11).environment, job.case(11).environment);
    }

    #[test]
    fn every_setting_is_known_and_every_algorithm_is_drawn() {
        let mut drawn = BTreeSet::new();
        for seed in 0..400 {
            let settings = settings(&mut SplitMix64(seed));
            let (_, problems) = ferrorail_base::config::parse(settings.clone());
            assert!(problems.is_empty(), "{settings:?}: {problems:?}");
            let forced = settings
                .get("FERRORAIL_ALGORITHM")
                .cloned()
                .unwrap_or_default();
            drawn.extend(forced.split(',').map(str::to_owned));
        }
        for &collective in ferrorail_engine::OFFERED {
            for algorithm in algorithms(collective) {
                let setting = format!("{}={}", collective.name(), algorithm.name);
                assert!(drawn.contains(&setting), "{setting}");
            }
        }
    }
}
