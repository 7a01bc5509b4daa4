//! One suite over every kind of world.

use super::*;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

const SIZES: [u32; 4] = [1, 2, 3, 8];

type Ranks = Vec<Box<dyn Oob>>;

/// Every kind of world of `size` ranks, with what keeps it going.
fn worlds(size: u32) -> Vec<(Option<Rendezvous>, Ranks)> {
    let in_process = InProcess::world(size)
        .into_iter()
        .map(|oob| Box::new(oob) as Box<dyn Oob>)
        .collect();
    let server = Rendezvous::start(size).unwrap();
    let sockets = (0..size)
        .map(|rank| Box::new(connect(&server, rank)) as Box<dyn Oob>)
        .collect();
    vec![(None, in_process), (Some(server), sockets)]
}

fn connect(server: &Rendezvous, rank: u32) -> SocketOob {
    SocketOob::connect(&server.env(Rank(rank))).unwrap()
}

/// Runs `body` on a thread per rank and returns the results by rank.
fn run<T: Send + 'static>(
    world: Ranks,
    body: impl Fn(Box<dyn Oob>) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let threads: Vec<_> = world
        .into_iter()
        .map(|oob| {
            let body = body.clone();
            thread::spawn(move || body(oob))
        })
        .collect();
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect()
}

#[test]
fn allgather_keeps_order_and_lengths() {
    for size in SIZES {
        for (_server, world) in worlds(size) {
            run(world, move |mut oob| {
                assert_eq!(oob.size(), size);
                for round in 0..20u32 {
                    let message = |rank: u32| vec![rank as u8; (rank * 1000 + round) as usize];
                    let all = oob.allgather(&message(oob.rank().0)).unwrap();
                    let expected: Vec<_> = (0..size).map(message).collect();
                    assert_eq!(all, expected);
                }
                oob.barrier().unwrap();
            });
        }
    }
}

#[test]
fn exchange_pairs_up_while_others_do_not_take_part() {
    for (_server, world) in worlds(4) {
        run(world, |mut oob| {
            let me = oob.rank().0;
            // Rank 3 stays out; the first three talk in pairs, in different orders.
            if me < 3 {
                let peers: Vec<Rank> = (1..3).map(|step| Rank((me + step) % 3)).collect();
                let outgoing: Vec<_> = peers
                    .iter()
                    .map(|peer| vec![me as u8, peer.0 as u8])
                    .collect();
                let received = oob.exchange(&peers, &outgoing).unwrap();
                let expected: Vec<_> = peers
                    .iter()
                    .map(|peer| vec![peer.0 as u8, me as u8])
                    .collect();
                assert_eq!(received, expected);
            }
            oob.barrier().unwrap();
            assert_eq!(oob.exchange(&[], &[]).unwrap(), Vec::<Vec<u8>>::new());
        });
    }
}

#[test]
fn misuse_of_exchange_is_an_error() {
    for (_server, world) in worlds(2) {
        run(world, |mut oob| {
            let me = oob.rank();
            let peer = Rank(1 - me.0);
            let fails = |oob: &mut Box<dyn Oob>, peers: &[Rank], text: &str| {
                let error = oob.exchange(peers, &vec![vec![]; peers.len()]).unwrap_err();
                assert!(error.to_string().contains(text), "{error}");
            };
            fails(&mut oob, &[me], "itself");
            fails(&mut oob, &[peer, peer], "twice");
            fails(&mut oob, &[Rank(2)], "outside");
            assert!(oob.exchange(&[peer], &[]).is_err());
            // The world is as good as before.
            assert_eq!(oob.allgather(&[7]).unwrap(), [[7], [7]]);
        });
    }
}

#[test]
fn host_keys_tell_hosts_apart() {
    for (_server, world) in worlds(3) {
        let keys = run(world, |oob| oob.host_key());
        assert_eq!(keys, [crate::probe::host_key(); 3]);
    }
    let world = InProcess::with_host_keys(&[4, 9, 4]);
    assert_eq!(world[1].host_key(), 9);
}

#[test]
fn agreement_takes_all_ranks() {
    for size in [1, 2, 3, 5, 7, 8] {
        for against in [None, Some(0), Some(size - 1)] {
            for (_server, world) in worlds(size) {
                let agreed = run(world, move |mut oob| {
                    let agrees = against != Some(oob.rank().0);
                    oob.agree_while(agrees, &mut || true).unwrap()
                });
                assert_eq!(agreed, vec![against.is_none(); size as usize]);
            }
        }
    }
}

#[test]
fn a_rank_that_leaves_fails_the_calls_that_need_it() {
    for (_server, world) in worlds(3) {
        let start = Instant::now();
        run(world, |mut oob| match oob.rank().0 {
            0 => {
                let error = oob.allgather(&[1]).unwrap_err();
                assert!(error.to_string().contains("rank 2 has left"), "{error}");
                // Ranks that are still there can still talk.
                assert_eq!(oob.exchange(&[Rank(1)], &[vec![5]]).unwrap(), [[6]]);
            }
            1 => {
                let error = oob.exchange(&[Rank(2)], &[vec![]]).unwrap_err();
                assert!(error.to_string().contains("rank 2 has left"), "{error}");
                assert_eq!(oob.exchange(&[Rank(0)], &[vec![6]]).unwrap(), [[5]]);
            }
            _ => drop(oob),
        });
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn ranks_of_a_process_leave_one_by_one() {
    let mut world = InProcess::world(2);
    assert!(!world[0].leave().unwrap(), "waits for nobody");
    let error = world[1].exchange(&[Rank(0)], &[vec![]]).unwrap_err();
    assert!(error.to_string().contains("rank 0 has left"), "{error}");
    assert!(world[1].leave().unwrap());
    assert!(world[0].leave().unwrap());
}

#[test]
fn messages_sent_before_leaving_arrive() {
    for (_server, world) in worlds(2) {
        run(world, |mut oob| {
            let peer = Rank(1 - oob.rank().0);
            if oob.rank().0 == 1 {
                thread::sleep(Duration::from_millis(50));
            }
            assert_eq!(
                oob.exchange(&[peer], &[vec![oob.rank().0 as u8]]).unwrap(),
                [[peer.0 as u8]]
            );
        });
    }
}

#[test]
fn a_process_that_ends_without_connecting_is_missed_by_nobody() {
    let server = Rendezvous::start(2).unwrap();
    let mut early = connect(&server, 0);
    let waiting = thread::spawn(move || early.allgather(&[]));
    thread::sleep(Duration::from_millis(50));
    server.rank_exited(Rank(1), "was killed by signal 9");
    let error = waiting.join().unwrap().unwrap_err();
    assert!(
        error.to_string().contains("rank 1 was killed by signal 9"),
        "{error}"
    );
    let error = connect(&server, 0).allgather(&[]).unwrap_err();
    assert!(
        error.to_string().contains("rank 1 was killed by signal 9"),
        "{error}"
    );
}

#[test]
fn a_rank_cut_off_in_the_middle_of_a_call_is_noticed() {
    let server = Rendezvous::start(3).unwrap();
    // Rank 0 waits for rank 2 in an exchange and dies there; ranks 1 and 2 meet in an all-gather.
    let mut dying = raw_connect(
        &server,
        &wire::Hello {
            version: wire::VERSION,
            rank: 0,
            size: 3,
        },
    );
    wire::read_reply(&mut dying, 0).unwrap().unwrap();
    let request = wire::pack_exchange(&[Rank(2)], &[vec![]]);
    wire::write_request(&mut dying, wire::Request::Exchange, &request).unwrap();
    let world = vec![connect(&server, 1), connect(&server, 2)];
    let world = world
        .into_iter()
        .map(|oob| Box::new(oob) as Box<dyn Oob>)
        .collect();
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        drop(dying);
    });
    let errors = run(world, |mut oob| oob.allgather(&[]).unwrap_err().to_string());
    killer.join().unwrap();
    for error in errors {
        assert!(error.contains("rank 0"), "{error}");
    }
}

#[test]
fn strangers_are_refused_and_do_no_harm() {
    let server = Rendezvous::start(2).unwrap();
    for (hello, text) in [
        (
            wire::Hello {
                version: 99,
                rank: 0,
                size: 2,
            },
            "protocol 99",
        ),
        (
            wire::Hello {
                version: wire::VERSION,
                rank: 2,
                size: 2,
            },
            "world of 2",
        ),
        (
            wire::Hello {
                version: wire::VERSION,
                rank: 0,
                size: 3,
            },
            "world of 2",
        ),
    ] {
        let mut stream = raw_connect(&server, &hello);
        let reason = wire::read_reply(&mut stream, 0).unwrap().unwrap_err();
        assert!(reason.contains(text), "{reason}");
    }
    let mut stream = open(&server);
    stream.write_all(b"GET /index HTTP/1.0\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("not a ferrorail rank"));

    let world = (0..2)
        .map(|rank| Box::new(connect(&server, rank)) as Box<dyn Oob>)
        .collect();
    run(world, |mut oob| oob.barrier().unwrap());
}

#[test]
fn a_rank_may_open_one_world_after_another() {
    let server = Rendezvous::start(2).unwrap();
    let mut first: Vec<_> = (0..2).map(|rank| connect(&server, rank)).collect();
    // Rank 0 is already in its second world while rank 1 is still in the first.
    drop(first.remove(0));
    let mut second = connect(&server, 0);
    let waiting = thread::spawn(move || second.allgather(&[1]).unwrap());
    assert!(first[0].allgather(&[0]).is_err());
    drop(first);
    assert_eq!(connect(&server, 1).allgather(&[2]).unwrap(), [[1], [2]]);
    assert_eq!(waiting.join().unwrap(), [[1], [2]]);
}

#[test]
fn oversized_messages_are_refused_before_they_are_sent() {
    let server = Rendezvous::start(1).unwrap();
    let mut oob = connect(&server, 0);
    let error = oob
        .allgather(&vec![0; wire::MESSAGE_BYTES_MAX as usize + 1])
        .unwrap_err();
    assert!(error.to_string().contains("exceeds"), "{error}");
    assert_eq!(oob.allgather(&[3]).unwrap(), [[3]]);
}

#[test]
fn a_launcher_that_is_gone_is_an_error() {
    let env = RunEnv {
        rank: 0,
        size: 1,
        socket: "@ferrorail-no-such-socket".into(),
    };
    let error = SocketOob::connect(&env).err().expect("nobody listens");
    assert!(
        error.to_string().contains("@ferrorail-no-such-socket"),
        "{error}"
    );
}

fn open(server: &Rendezvous) -> UnixStream {
    let socket = server.env(Rank(0)).socket;
    let address = SocketAddr::from_abstract_name(&socket[1..]).unwrap();
    UnixStream::connect_addr(&address).unwrap()
}

fn raw_connect(server: &Rendezvous, hello: &wire::Hello) -> UnixStream {
    let mut stream = open(server);
    hello.write(&mut stream).unwrap();
    stream
}
