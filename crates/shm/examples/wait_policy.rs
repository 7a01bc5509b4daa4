//! What waiting longer is worth: time per 8-byte exchange of all ranks under several wait policies.
//!
//! The constants of `WaitPolicy::for_host` come from this table.
//!
//!     cargo run --release -p ferrorail-shm --example wait_policy [ranks]...

use ferrorail_base::NodeRank;
use ferrorail_base::config::ShmKind;
use ferrorail_base::sync::Ordering;
use ferrorail_shm::{EAGER_SLOTS, NodeGeometry, NodeSegment, WaitPolicy, Waiter, cores_of};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use std::time::{Duration, Instant};

const RUN: Duration = Duration::from_millis(300);

fn main() {
    let numbers = std::env::args().skip(1).map(|text| text.parse::<u32>());
    let Ok(mut ranks) = numbers.collect::<Result<Vec<u32>, _>>() else {
        return eprintln!("usage: wait_policy [ranks]...");
    };
    if ranks.is_empty() {
        ranks = vec![2, 4, 8, 16];
    }
    let cores = cores_of(&[std::process::id()]);
    println!("{cores} cores; microseconds per exchange (median of 5), by time of yields\n");
    let spins = [0, 200, 2000, 20_000];
    println!(
        "ranks   yields {}",
        spins.map(|spin| format!(" spin {spin:>5}")).concat()
    );
    for &ranks in &ranks {
        for yields_us in [0, 20, 100, 500, 1000, 2000, 5000] {
            let times = spins.map(|spin| {
                let mut policy = WaitPolicy::for_host(ranks, cores, Some(spin));
                policy.yields = Duration::from_micros(yields_us);
                let mut runs: Vec<f64> = (0..5).map(|_| run(ranks, &policy)).collect();
                runs.sort_by(f64::total_cmp);
                format!(" {:>10.2}", runs[2])
            });
            println!("{ranks:>5} {yields_us:>6}us {}", times.concat());
        }
    }
}

/// Microseconds per exchange.
fn run(ranks: u32, policy: &WaitPolicy) -> f64 {
    let geometry = NodeGeometry {
        local_ranks: ranks,
        eager_slots: EAGER_SLOTS,
        channels: 1,
        slots: 1,
        rails: 1,
        scratch_bytes: 0,
        ..NodeGeometry::default()
    };
    let node = NodeSegment::create(ShmKind::Memfd, geometry, 0).expect("node segment");
    let children: Vec<Pid> = (0..ranks)
        // SAFETY: this program has one thread.
        .map(|rank| match unsafe { fork() }.expect("fork") {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                exchange(&node, NodeRank(rank), policy);
                std::process::exit(0);
            }
        })
        .collect();
    for child in children {
        let status = waitpid(child, None).expect("wait");
        assert!(
            matches!(status, nix::sys::wait::WaitStatus::Exited(_, 0)),
            "{status:?}"
        );
    }
    let [operations, ns] =
        [0, 1].map(|index| node.rtr(NodeRank(0), 0, 0)[index].load(Ordering::Acquire));
    ns as f64 / 1000.0 / operations as f64
}

/// Exchanges until the time is over, which rank 0 tells in its payload.
fn exchange(node: &NodeSegment, me: NodeRank, policy: &WaitPolicy) {
    let doorbell = node.doorbell();
    let start = Instant::now();
    for operation in 1.. {
        let parity = (operation % 2) as u32;
        let over = me.0 == 0 && operation % 16 == 0 && start.elapsed() > RUN;
        node.eager_slot(me, parity)
            .publish(operation, &u64::from(over).to_ne_bytes());
        doorbell.ring();
        let mut first = [0; 8];
        for rank in 0..node.geometry().local_ranks {
            let slot = node.eager_slot(NodeRank(rank), parity);
            let mut out = [0; 8];
            let mut waiter = Waiter::new(policy);
            while !slot.try_read(operation, &mut out) {
                waiter.idle(Some(&doorbell), &mut || ());
            }
            if rank == 0 {
                first = out;
            }
        }
        if first != [0; 8] {
            if me.0 == 0 {
                let told = node.rtr(me, 0, 0);
                told[0].store(operation, Ordering::Release);
                told[1].store(start.elapsed().as_nanos() as u64, Ordering::Release);
            }
            return;
        }
    }
}
