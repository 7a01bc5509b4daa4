//! Faults over a network in memory that has none of its own.

use super::*;

/// Queues of all members of the one group there is.
#[derive(Clone, Debug, Default)]
struct Bus(Arc<Mutex<Vec<VecDeque<Vec<u8>>>>>);

struct Seat {
    bus: Bus,
    index: usize,
    /// Sends that the test has not let complete.
    pending: Arc<AtomicU64>,
}

const LIMITS: DatagramLimits = DatagramLimits {
    bytes: 64,
    depth: u32::MAX,
    sends: 4000,
};

impl Bus {
    fn queues<T>(&self, act: impl FnOnce(&mut Vec<VecDeque<Vec<u8>>>) -> T) -> T {
        act(&mut self.0.lock())
    }
}

impl Multicast for Bus {
    fn multicast_rails(&self) -> Vec<Result<DatagramLimits, MulticastError>> {
        vec![Ok(LIMITS)]
    }

    fn join(&self, _: RailId, _: GroupId, _: u32) -> Result<Box<dyn Group>, MulticastError> {
        let index = self.queues(|queues| {
            queues.push(VecDeque::new());
            queues.len() - 1
        });
        Ok(Box::new(Seat {
            bus: self.clone(),
            index,
            pending: Arc::default(),
        }))
    }
}

impl Group for Seat {
    fn limits(&self) -> DatagramLimits {
        LIMITS
    }

    fn address(&self) -> Vec<u8> {
        vec![self.index as u8]
    }

    fn set_members(&mut self, _: u32, _: &[Vec<u8>]) -> Result<(), MulticastError> {
        Ok(())
    }

    unsafe fn send(
        &mut self,
        to: To,
        header: &[u8],
        payload: Payload<'_>,
    ) -> Result<(), MulticastError> {
        let Payload::Copied(payload) = payload else {
            panic!("these tests copy");
        };
        let datagram = [header, payload].concat();
        self.bus.queues(|queues| match to {
            To::Member(member) => queues[member as usize].push_back(datagram),
            To::All => {
                for (index, queue) in queues.iter_mut().enumerate() {
                    if index != self.index {
                        queue.push_back(datagram.clone());
                    }
                }
            }
        });
        self.pending.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn pending_sends(&mut self) -> Result<usize, MulticastError> {
        Ok(self.pending.load(Ordering::Relaxed) as usize)
    }

    fn poll(&mut self, limit: usize, each: &mut dyn FnMut(&[u8])) -> Result<usize, MulticastError> {
        let come: Vec<_> = self.bus.queues(|queues| {
            let queue = &mut queues[self.index];
            queue.drain(..limit.min(queue.len())).collect()
        });
        come.iter().for_each(|datagram| each(datagram));
        Ok(come.len())
    }
}

const COUNT: u32 = 2000;

fn send(group: &mut dyn Group, to: To, number: u32) {
    // SAFETY: a copied payload asks for nothing.
    let sent = unsafe { group.send(to, &number.to_le_bytes(), Payload::Copied(&[0x5a; 28])) };
    sent.unwrap();
}

fn join(faulty: &Faulty<Bus>, members: u32) -> Vec<Box<dyn Group>> {
    let join = |me| {
        let mut group = faulty.join(RailId(0), GroupId([0; 16]), 1).unwrap();
        group.set_members(me, &[]).unwrap();
        group
    };
    (0..members).map(join).collect()
}

fn received(group: &mut dyn Group, limit: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let before = all.len();
        let count = group.poll(limit, &mut |datagram| all.push(datagram.to_vec()));
        let count = count.unwrap();
        assert_eq!(all.len() - before, count);
        assert!(count <= limit);
        if count == 0 {
            return all;
        }
    }
}

/// What members 1 and 2 receive of [`COUNT`] multicasts of member 0 under `faults`.
fn run(faults: &str) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, FaultCounters) {
    let faults = MulticastFaults::parse(faults).unwrap();
    let faulty = Faulty::new(Bus::default(), &faults);
    let mut groups = join(&faulty, 3);
    for number in 0..COUNT {
        send(&mut *groups[0], To::All, number);
    }
    let one = received(&mut *groups[1], 7);
    let other = received(&mut *groups[2], usize::MAX);
    (one, other, faulty.counters())
}

fn number(datagram: &[u8]) -> u32 {
    u32::from_le_bytes(*datagram.first_chunk().unwrap())
}

/// Of `COUNT` events at each of two receivers, as many as the probability 0.1 lets expect, within
/// more than six standard deviations.
fn is_a_tenth(events: u64) -> bool {
    (260..540).contains(&events)
}

#[test]
fn without_faults_nothing_happens() {
    let (one, other, counters) = run("");
    assert!(one.iter().map(|datagram| number(datagram)).eq(0..COUNT));
    assert_eq!(one, other);
    assert_eq!(counters, FaultCounters::default());
}

#[test]
fn each_receiver_loses_others() {
    let (one, other, counters) = run("drop=0.1,seed=1");
    assert!(is_a_tenth(counters.dropped), "{counters:?}");
    let left = 2 * u64::from(COUNT) - counters.dropped;
    assert_eq!((one.len() + other.len()) as u64, left);
    assert_ne!(one, other);
    assert!(one.is_sorted_by_key(|datagram| number(datagram)));
    let (again, _, _) = run("drop=0.1,seed=1");
    assert_eq!(one, again, "a seed says all");
    assert_ne!(one, run("drop=0.1,seed=2").0);
}

#[test]
fn a_damaged_datagram_has_one_wrong_bit() {
    let (one, other, counters) = run("corrupt=0.1,seed=3");
    assert!(is_a_tenth(counters.corrupted), "{counters:?}");
    let mut damaged = 0;
    for datagrams in [one, other] {
        for (number, datagram) in (0..COUNT).zip(&datagrams) {
            let mut sound = number.to_le_bytes().to_vec();
            sound.extend([0x5a; 28]);
            let differ = |(a, b): (&u8, &u8)| (a ^ b).count_ones();
            let bits: u32 = datagram.iter().zip(&sound).map(differ).sum();
            assert!(bits <= 1 && datagram.len() == sound.len());
            damaged += u64::from(bits);
        }
    }
    assert_eq!(damaged, counters.corrupted);
}

#[test]
fn doubles_and_latecomers_are_all_there() {
    let (one, other, counters) = run("duplicate=0.1,reorder=0.1,seed=4");
    assert!(is_a_tenth(counters.duplicated), "{counters:?}");
    assert!(is_a_tenth(counters.reordered), "{counters:?}");
    let all = 2 * u64::from(COUNT) + counters.duplicated;
    assert_eq!((one.len() + other.len()) as u64, all);
    for datagrams in [one, other] {
        let mut numbers: Vec<u32> = datagrams.iter().map(|one| number(one)).collect();
        assert!(!numbers.is_sorted());
        let highest_before = numbers.iter().scan(0, |highest, &number| {
            *highest = number.max(*highest);
            Some(*highest)
        });
        let late = highest_before
            .zip(&numbers)
            .map(|(high, number)| high - number);
        assert!(late.max().unwrap() <= 2 * OVERTAKEN_BY as u32);
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.into_iter().eq(0..COUNT), "none is lost");
    }
}

#[test]
fn multicasts_are_down_and_unicasts_go_on() {
    let faults = MulticastFaults::parse("down=10..20").unwrap();
    let faulty = Faulty::new(Bus::default(), &faults);
    let mut groups = join(&faulty, 2);
    for turn in 0..30 {
        send(&mut *groups[0], To::All, turn);
        send(&mut *groups[0], To::Member(1), 1000 + turn);
    }
    let numbers = |datagrams: Vec<Vec<u8>>| -> Vec<u32> {
        datagrams.iter().map(|datagram| number(datagram)).collect()
    };
    let heard = numbers(received(&mut *groups[1], 5));
    let wanted = (0..30).flat_map(|turn| [turn, 1000 + turn]);
    let wanted: Vec<u32> = wanted.filter(|number| !(10..20).contains(number)).collect();
    assert_eq!(heard, wanted);
    assert_eq!(faulty.counters().suppressed, 10);
    for down in [true, false] {
        faulty.set_down(down);
        send(&mut *groups[0], To::All, 77);
        send(&mut *groups[0], To::Member(1), 88);
        let heard = numbers(received(&mut *groups[1], 5));
        assert_eq!(heard, if down { vec![88] } else { vec![77, 88] });
    }
}

/// A send that was not passed on is done no sooner than those before it.
#[test]
fn what_is_pending_stays_in_order() {
    let (on, off) = (true, false);
    let mut sending = Sending::default();
    sending.order.extend([off, on, off, on, on, off]);
    assert_eq!(sending.settle(3), 5, "the first was not passed on");
    assert_eq!(sending.settle(3), 5);
    assert_eq!(sending.settle(2), 3);
    assert_eq!(sending.settle(1), 2);
    assert_eq!(sending.settle(0), 0);
    sending.order.extend([off, off]);
    assert_eq!(sending.settle(0), 0);
}

#[test]
fn without_faults_nothing_is_put_between() {
    let bus: Arc<dyn Multicast> = Arc::new(Bus::default());
    let same = with_faults(Arc::clone(&bus), &MulticastFaults::default());
    assert!(Arc::ptr_eq(&bus, &same));
    let faults = MulticastFaults::parse("drop=1").unwrap();
    let lossy = with_faults(Arc::clone(&bus), &faults);
    assert!(!Arc::ptr_eq(&bus, &lossy));
    assert_eq!(lossy.multicast_rails()[0].as_ref().unwrap(), &LIMITS);
}
