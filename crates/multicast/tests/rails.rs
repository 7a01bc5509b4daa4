//! Sessions driven by hand: ports that go down and come up, readiness, and channels.

use ferrorail_multicast::wire::Kind;
use ferrorail_multicast::{Config, MessageId, Send, Session, Status, Time, To};

/// Members of a session whose datagrams arrive at once.
struct Group(Vec<Session>);

impl Group {
    fn new(members: u32) -> Self {
        let config = |me| Config {
            rails: 2,
            ..Config::new(7, members, me)
        };
        let session = |me| Session::new(config(me)).unwrap();
        Self((0..members).map(session).collect())
    }

    /// Exchanges datagrams until there are none; those that member 0 sent.
    fn settle(&mut self, now: Time) -> Vec<Send> {
        let mut by_first = Vec::new();
        loop {
            let mut sends = Vec::new();
            for (me, session) in self.0.iter_mut().enumerate() {
                session.tick(now);
                while let Some(send) = session.next_send() {
                    sends.push((me, send));
                }
            }
            if sends.is_empty() {
                return by_first;
            }
            for (from, send) in sends {
                by_first.extend((from == 0).then_some(send));
                for (me, session) in self.0.iter_mut().enumerate() {
                    if me != from && (send.to == To::All || send.to == To::Member(me as u32)) {
                        session.receive(&send.header, send.rail, now);
                    }
                }
            }
        }
    }

    /// The data datagrams of a broadcast of member 0.
    fn broadcast(&mut self, bytes: usize, now: Time) -> Vec<Send> {
        let open = |member: &mut Session| member.open(0, bytes, now).unwrap().id;
        let ids: Vec<_> = self.0.iter_mut().map(open).collect();
        let mut sends = self.settle(now);
        sends.retain(|send| send.header.kind == Kind::Data);
        assert!(self.0.iter().all(|member| member.status(ids[0]).is_done()));
        sends
    }
}

fn rails(sends: &[Send]) -> Vec<u8> {
    sends.iter().map(|send| send.rail).collect()
}

#[test]
fn striping_follows_the_ports() {
    let mut group = Group::new(3);
    // Messages begin at one rail after the other.
    let sends = group.broadcast(16 << 10, Time(1_000));
    assert_eq!(rails(&sends), [1, 0, 1, 0, 1]);
    let sends = group.broadcast(16 << 10, Time(1_500));
    assert_eq!(rails(&sends), [0, 1, 0, 1, 0]);
    assert!(sends.iter().all(|send| send.to == To::All));

    group.0[0].rail_down(0, Time(2_000));
    let sends = group.broadcast(16 << 10, Time(3_000));
    assert_eq!(rails(&sends), [1; 5]);
    assert_eq!(group.0[0].counters().failovers, 0);

    group.0[0].rail_up(0, Time(4_000));
    group.settle(Time(5_000));
    assert_eq!(group.0[0].counters().rails_returned, 1);
    let sends = group.broadcast(16 << 10, Time(6_000));
    assert_eq!(rails(&sends), [0, 1, 0, 1, 0]);
    assert_eq!(rails(&group.broadcast(8, Time(7_000))), [1]);
    assert_eq!(rails(&group.broadcast(8, Time(8_000))), [0]);
}

#[test]
fn without_a_port_messages_take_the_tree_and_return() {
    let mut group = Group::new(3);
    for rail in 0..2 {
        group.0[0].rail_down(rail, Time(1_000));
    }
    assert!(group.0[0].is_relaying());
    let sends = group.broadcast(8, Time(2_000));
    let to: Vec<_> = sends.iter().map(|send| send.to).collect();
    assert_eq!(to, [To::Member(1), To::Member(2)]);
    group.0[0].rail_up(1, Time(3_000));
    group.settle(Time(4_000));
    assert!(!group.0[0].is_relaying());
    let counters = group.0[0].counters();
    assert_eq!((counters.failovers, counters.returns), (1, 1));
}

#[test]
fn longer_messages_wait_for_all_and_end_with_their_acknowledgment() {
    let mut group = Group::new(3);
    let now = Time(1_000);
    let id = group.0[0].open(0, 100_000, now).unwrap().id;
    group.0[1].open(0, 100_000, now).unwrap();
    let early = group.settle(now);
    assert!(early.iter().all(|send| send.header.kind != Kind::Data));
    assert_eq!(group.0[0].status(id), Status::Sending);
    group.0[2].open(0, 100_000, now).unwrap();
    let sends = group.settle(now);
    let data = sends.iter().filter(|send| send.header.kind == Kind::Data);
    assert_eq!(data.count(), 100_000usize.div_ceil(3968));
    assert_eq!(group.0[0].status(id), Status::Acknowledged);
}

#[test]
fn a_source_waits_for_a_channel() {
    let mut group = Group::new(2);
    for message in 1..=16 {
        assert!(group.0[0].may_open(0));
        let opened = group.0[0].open(0, 8, Time(1)).unwrap();
        assert_eq!(opened.id, MessageId(message));
    }
    assert!(!group.0[0].may_open(0));
    assert!(group.0[0].open(0, 8, Time(1)).is_err());
    group.settle(Time(2));
    assert!(!group.0[0].may_open(0), "the other has not opened them");
    for _ in 0..8 {
        assert!(group.0[1].open(0, 8, Time(3)).unwrap().early);
    }
    group.settle(Time(4));
    assert_eq!(group.0[0].known().completed, 8);
    assert!(group.0[0].open(0, 8, Time(5)).is_ok());
}

#[test]
fn what_all_have_is_not_sent_from_memory_in_use_again() {
    let mut group = Group::new(2);
    for _ in 0..2 {
        group.0[0].open(0, 8, Time(1)).unwrap();
    }
    group.0[0].tick(Time(1));
    let mut sends = Vec::new();
    while let Some(send) = group.0[0].next_send() {
        sends.extend(send.payload.map(|_| send));
    }
    for _ in 0..8 {
        group.0[1].open(0, 8, Time(1)).unwrap();
    }
    for send in &sends {
        group.0[1].receive(&send.header, 0, Time(2));
    }
    // The device had no place for the first; meanwhile it has become needless.
    group.0[0].unsent(sends[0]);
    for _ in 0..6 {
        group.0[0].open(0, 8, Time(2)).unwrap();
    }
    let rest = group.settle(Time(3));
    let again = rest.iter().filter(|send| send.header.message == 1).count();
    assert_eq!(again, 1, "not acknowledged yet, so it is sent");
    group.0[0].unsent(sends[0]);
    assert_eq!(group.0[0].known().completed, 8);
    assert_eq!(group.0[0].next_send(), None);
}
