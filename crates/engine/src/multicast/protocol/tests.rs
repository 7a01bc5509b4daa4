//! Rails that come and go.

use super::*;
use ferrorail_base::sync::Mutex;
use ferrorail_fabric::multicast::DatagramLimits;
use std::sync::Arc;

type Rail = Arc<Mutex<State>>;

/// A rail: whether its port is down, what of its device fails, and datagrams with a payload sent on it.
#[derive(Default)]
struct State {
    down: bool,
    fails: Option<&'static str>,
    sent: usize,
}

struct Seat(Rail);

impl Seat {
    fn verb(&self, verb: &'static str) -> Result<(), MulticastError> {
        let failed = || MulticastError::Device {
            rail: "rail".to_owned(),
            verb,
            source: std::io::Error::other("broken"),
        };
        match self.0.lock().fails == Some(verb) {
            true => Err(failed()),
            false => Ok(()),
        }
    }
}

impl Group for Seat {
    fn limits(&self) -> DatagramLimits {
        DatagramLimits {
            bytes: 4096,
            depth: 64,
            sends: 64,
        }
    }

    fn address(&self) -> Vec<u8> {
        Vec::new()
    }

    fn set_members(&mut self, _: u32, _: &[Vec<u8>]) -> Result<(), MulticastError> {
        Ok(())
    }

    unsafe fn send(
        &mut self,
        _: multicast::To,
        _: &[u8],
        payload: Payload<'_>,
    ) -> Result<(), MulticastError> {
        self.verb("send")?;
        if let Payload::Copied([_, ..]) = payload {
            self.0.lock().sent += 1;
        }
        Ok(())
    }

    fn pending_sends(&mut self) -> Result<usize, MulticastError> {
        Ok(0)
    }

    fn poll(&mut self, _: usize, _: &mut dyn FnMut(&[u8])) -> Result<usize, MulticastError> {
        self.verb("poll")?;
        Ok(0)
    }

    fn is_port_down(&self) -> bool {
        self.0.lock().down
    }
}

struct Source {
    rails: [Rail; 2],
    protocol: Protocol,
    memory: [u8; 64],
}

impl Source {
    fn new(reliable: bool) -> Self {
        let rails: [Rail; 2] = Default::default();
        let seats = rails
            .iter()
            .map(|rail| Box::new(Seat(Arc::clone(rail))) as Box<dyn Group>);
        let config = Config {
            rails: 2,
            reliable,
            ..Config::new(1, 2, 0)
        };
        let leaders = vec![Rank(0), Rank(1)];
        Self {
            protocol: Protocol::new(config, seats.collect(), leaders).unwrap(),
            rails,
            memory: [0; 64],
        }
    }

    /// Sends two messages; how many datagrams of them went on each rail.
    fn send(&mut self, now: u64) -> Result<[usize; 2], EngineError> {
        for rail in &self.rails {
            rail.lock().sent = 0;
        }
        for time in [now, now + 1] {
            let memory = MemoryRange::new(self.memory.as_mut_ptr(), self.memory.len());
            // SAFETY: it is copied at once.
            unsafe { self.protocol.open(0, memory, Time(time)) }?.expect("a channel is free");
            self.protocol.drive_now(Time(time));
        }
        Ok(self.rails.each_ref().map(|rail| rail.lock().sent))
    }
}

#[test]
fn a_rail_whose_port_is_down_carries_no_multicast() {
    let mut source = Source::new(true);
    assert_eq!(source.send(1_000).unwrap(), [1, 1]);
    source.rails[0].lock().down = true;
    assert_eq!(source.send(2_000).unwrap(), [0, 2]);
    source.rails[0].lock().down = false;
    // Until a probe shows that all hear it again.
    assert_eq!(source.send(3_000).unwrap(), [0, 2]);
}

#[test]
fn the_others_take_over_from_a_rail_whose_device_failed() {
    for verb in ["send", "poll"] {
        let mut source = Source::new(true);
        source.rails[0].lock().fails = Some(verb);
        // What a device refuses when it fails is lost like any datagram.
        let first = source.send(1_000).unwrap();
        assert!(first[0] == 0 && first[1] > 0, "{verb}: {first:?}");
        assert_eq!(source.send(2_000).unwrap(), [0, 2], "{verb}");
        source.rails[1].lock().fails = Some(verb);
        let _ = source.send(3_000);
        assert!(source.send(4_000).is_err(), "{verb}: no rail is left");
    }
    // Where nobody asks for what is lost, waiting would have no end.
    let mut source = Source::new(false);
    source.rails[0].lock().fails = Some("poll");
    let _ = source.send(1_000);
    assert!(source.send(2_000).is_err());
}
