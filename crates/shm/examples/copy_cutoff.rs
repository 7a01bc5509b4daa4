//! Where cross-memory attach starts to beat the copy through a segment, on this machine.
//!
//! `k` pairs of processes move messages of each size at the same time: through a segment (copy in,
//! flag, copy out) and by reading the sender's memory. Prints the time per message of the slowest
//! pair in microseconds, as figures 2 and 3 of Qian and Afsahi (Cluster Computing 2008) do for
//! their machine.
//!
//!     cargo run --release -p ferrorail-shm --example copy_cutoff [largest k]

use ferrorail_base::NodeRank;
use ferrorail_base::config::ShmKind;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::Ordering;
use ferrorail_shm::{
    Cma, EAGER_SLOTS, NodeGeometry, NodeSegment, WaitPolicy, Waiter, cma_allow, cores_of,
};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use std::time::Instant;

const BYTES_MAX: usize = 4 << 20;
const REPEATS: usize = 5;

/// How a pair moves a message.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    Segment,
    Cma,
}

fn main() {
    let largest: u32 = match std::env::args().nth(1).map(|text| text.parse()) {
        None => 2,
        Some(Ok(k)) if k > 0 => k,
        Some(_) => return eprintln!("usage: copy_cutoff [largest k]"),
    };
    let cores = cores_of(&[std::process::id()]);
    println!("{cores} cores; microseconds per message, slowest of k concurrent pairs\n");
    println!("{:>2} {:>9} {:>10} {:>10}", "k", "bytes", "segment", "cma");
    for k in 1..=largest {
        let mut bytes = 256;
        while bytes <= BYTES_MAX {
            let [segment, cma] =
                [Method::Segment, Method::Cma].map(|method| measure(k, bytes, method));
            println!("{k:>2} {bytes:>9} {segment:>10.2} {cma:>10.2}");
            bytes *= 4;
        }
    }
}

/// Best of several runs, so that other load on the machine does not decide.
fn measure(pairs: u32, bytes: usize, method: Method) -> f64 {
    let runs = (0..REPEATS).map(|_| run(pairs, bytes, method));
    runs.fold(f64::INFINITY, f64::min)
}

fn run(pairs: u32, bytes: usize, method: Method) -> f64 {
    let geometry = NodeGeometry {
        local_ranks: 2 * pairs,
        eager_slots: EAGER_SLOTS,
        channels: 1,
        slots: 1,
        rails: 1,
        scratch_bytes: BYTES_MAX as u64,
        ..NodeGeometry::default()
    };
    let node = NodeSegment::create(ShmKind::Memfd, geometry, 0).expect("node segment");
    let messages = ((8 << 20) / bytes).clamp(4, 2000) as u64;
    let policy = WaitPolicy::for_host(2 * pairs, cores_of(&[std::process::id()]), None);
    let children: Vec<Pid> = (0..2 * pairs)
        // SAFETY: this program has one thread.
        .map(|rank| match unsafe { fork() }.expect("fork") {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                cma_allow();
                let good = std::panic::catch_unwind(|| {
                    move_messages(&node, rank, bytes, messages, method, &policy);
                });
                std::process::exit(i32::from(good.is_err()));
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
    let slowest = (0..pairs)
        .map(|pair| node.arrival(NodeRank(2 * pair + 1), 0, 0, 0).value())
        .max();
    slowest.unwrap_or(0) as f64 / 1000.0 / messages as f64
}

/// The even rank of a pair sends to the odd one, which leaves the elapsed ns in its arrival flag.
fn move_messages(
    node: &NodeSegment,
    rank: u32,
    bytes: usize,
    messages: u64,
    method: Method,
    policy: &WaitPolicy,
) {
    let (me, peer) = (NodeRank(rank), NodeRank(rank ^ 1));
    let (flags, sends) = (node.flags(), rank.is_multiple_of(2));
    let mut memory = vec![rank as u8 + 1; bytes];
    let buffer = MemoryRange::new(memory.as_mut_ptr(), bytes);
    let scratch = node.scratch(NodeRank(rank & !1), 0).slice(0, bytes);
    let wait = |arrived: &dyn Fn() -> bool| {
        let mut waiter = Waiter::new(policy);
        while !arrived() {
            waiter.idle(None, &mut || ());
        }
    };
    // The sender tells where its memory is.
    let told = &node.rtr(NodeRank(rank & !1), 0, 0)[..2];
    if sends {
        told[0].store(buffer.address as u64, Ordering::Relaxed);
        told[1].store(std::process::id().into(), Ordering::Release);
    }
    flags.signal(me, 1);
    wait(&|| flags.all_reached(1));
    let (address, pid) = (
        told[0].load(Ordering::Relaxed),
        told[1].load(Ordering::Acquire),
    );
    let start = Instant::now();
    for message in 2..2 + messages {
        if sends {
            if method == Method::Segment {
                // SAFETY: the peer has acknowledged what was here before.
                unsafe { buffer.copy_to(scratch) };
            }
            flags.signal(me, message);
            wait(&|| flags.reached(peer, message));
        } else {
            wait(&|| flags.reached(peer, message));
            match method {
                // SAFETY: the peer does not touch it until acknowledged.
                Method::Segment => unsafe { scratch.copy_to(buffer) },
                // SAFETY: likewise; the buffer is this process's own.
                Method::Cma => unsafe {
                    let peer = Cma::named(pid as u32).expect("it lives");
                    peer.read(address, buffer).expect("read")
                },
            }
            flags.signal(me, message);
        }
    }
    let elapsed = start.elapsed().as_nanos() as u64;
    if !sends {
        node.arrival(me, 0, 0, 0).raise(elapsed);
    }
}
