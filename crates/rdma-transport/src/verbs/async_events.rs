//! What devices say by themselves: ports that go down and come back, addresses that change, devices that break.

use super::channel::do_not_block;
use super::gid::Source;
use super::handles::Context;
use super::rail::Rail;
use ferrorail_base::sync::{AtomicBool, AtomicU8, Ordering};
use ibverbs_sys as ffi;
use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The asynchronous events of the devices of all rails.
#[derive(Debug)]
pub struct AsyncEvents {
    devices: Vec<Device>,
    said: Arc<Said>,
}

/// What was last said of rails, a bit each.
#[derive(Debug, Default)]
struct Said {
    /// That the port is down, or the device broken.
    down: AtomicU8,
    /// That the address is another one; it may come back after the port.
    lost: AtomicU8,
}

impl Said {
    /// The rails that carry nothing.
    fn down(&self) -> u8 {
        self.down.load(Ordering::Relaxed) | self.lost.load(Ordering::Relaxed)
    }
}

/// What is known of the port of one rail since events were last read.
#[derive(Debug)]
pub struct PortState {
    said: Arc<Said>,
    rail: usize,
}

impl PortState {
    pub fn is_down(&self) -> bool {
        self.said.down() & 1 << self.rail != 0
    }
}

/// A device with the rails on its ports.
#[derive(Debug)]
struct Device {
    context: Arc<Context>,
    ports: Vec<Port>,
    /// Whether it has nothing to say any more.
    is_over: AtomicBool,
}

/// The port of a rail.
#[derive(Clone, Copy, Debug)]
struct Port {
    rail: usize,
    number: u8,
    source: Option<Source>,
    lid: u16,
}

impl AsyncEvents {
    /// Those of the devices of `rails`. A device whose events cannot be read without waiting is left out.
    pub fn of(rails: &[Rail]) -> Self {
        let mut devices: Vec<Device> = Vec::new();
        for (index, rail) in rails.iter().enumerate() {
            let context = rail.domain.context();
            let port = Port {
                rail: index,
                number: rail.local.port,
                source: rail.local.source,
                lid: rail.lid,
            };
            let mut known = devices.iter_mut();
            if let Some(device) = known.find(|device| Arc::ptr_eq(&device.context, context)) {
                device.ports.push(port);
                continue;
            }
            match do_not_block(context.async_descriptor()) {
                Ok(()) => devices.push(Device {
                    context: Arc::clone(context),
                    ports: vec![port],
                    is_over: AtomicBool::new(false),
                }),
                Err(error) => tracing::debug!("rail {}: no events: {error}", rail.info.name),
            }
        }
        Self {
            devices,
            said: Arc::default(),
        }
    }

    /// What becomes known of the port of `rail`.
    pub fn port(&self, rail: usize) -> PortState {
        PortState {
            said: Arc::clone(&self.said),
            rail,
        }
    }

    /// Readable when there is something to read.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let devices = self.devices.iter().filter(|device| !device.is_over());
        devices
            .map(|device| device.context.async_descriptor())
            .collect()
    }

    /// Reads what has been said; the rails that carry nothing by that.
    pub fn down(&self) -> u8 {
        for device in self.devices.iter().filter(|device| !device.is_over()) {
            loop {
                match device.context.take_async_event() {
                    Ok((kind, port)) => self.heed(device, kind, port),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => {
                        // Its descriptor may stay readable for ever.
                        device.is_over.store(true, Ordering::Relaxed);
                        break;
                    }
                }
            }
        }
        self.said.down()
    }

    fn heed(&self, device: &Device, kind: ffi::ibv_event_type, number: u8) {
        let of_port = device.ports.iter().filter(|port| port.number == number);
        let rails = |rail: usize| 1_u8 << rail;
        let (all, is_down): (_, fn(&Context, &Port) -> bool) = match kind {
            ffi::IBV_EVENT_DEVICE_FATAL => {
                let all = device.ports.iter().map(|port| rails(port.rail)).sum();
                self.said.down.fetch_or(all, Ordering::Relaxed);
                return;
            }
            ffi::IBV_EVENT_PORT_ERR => (&self.said.down, |_, _| true),
            ffi::IBV_EVENT_PORT_ACTIVE => (&self.said.down, |_, _| false),
            ffi::IBV_EVENT_GID_CHANGE | ffi::IBV_EVENT_LID_CHANGE => {
                (&self.said.lost, Port::has_lost_address)
            }
            _ => return,
        };
        for port in of_port {
            let is_down = is_down(&device.context, port);
            let state = if is_down { "down" } else { "up" };
            tracing::debug!("port {number}: {}, {state}", name(kind));
            match is_down {
                true => all.fetch_or(rails(port.rail), Ordering::Relaxed),
                false => all.fetch_and(!rails(port.rail), Ordering::Relaxed),
            };
        }
    }
}

impl Device {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

impl Port {
    /// Whether its LID or the entry of the GID table that its packets come from is another one now, or empty.
    fn has_lost_address(context: &Context, port: &Self) -> bool {
        let attributes = context.port_attributes(port.number);
        let gid_lost = port.source.is_some_and(|source| {
            let gid = context.gid(port.number, source.index);
            gid.is_ok_and(|gid| gid != source.octets())
        });
        gid_lost || attributes.is_ok_and(|attributes| attributes.lid != port.lid)
    }
}

fn name(kind: ffi::ibv_event_type) -> String {
    // SAFETY: the library returns static strings, also for unknown codes.
    let name = unsafe { CStr::from_ptr(ffi::ibv_event_type_str(kind)) };
    name.to_string_lossy().into_owned()
}

impl Context {
    /// Readable when the device has said something.
    fn async_descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the context, and with it the descriptor, lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw((*self.as_ptr()).async_fd) }
    }

    /// `ibv_get_async_event`: what kind of event, and of which port if it is a port's.
    fn take_async_event(&self) -> io::Result<(ffi::ibv_event_type, u8)> {
        let mut event = ffi::ibv_async_event::default();
        // SAFETY: the context is open and the structure is ours.
        if unsafe { ffi::ibv_get_async_event(self.as_ptr(), &raw mut event) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the structure is filled; the number is read where others have a pointer, and used only
        // where the kind says that it is one.
        let port = unsafe { event.element.port_num } as u8;
        // SAFETY: the event was taken and is acknowledged once.
        unsafe { ffi::ibv_ack_async_event(&raw mut event) };
        Ok((event.event_type, port))
    }

    /// `ibv_query_gid`, in network order.
    fn gid(&self, port: u8, index: u8) -> io::Result<[u8; 16]> {
        let mut gid = ffi::ibv_gid::default();
        // SAFETY: the context is open and the union is ours.
        match unsafe { ffi::ibv_query_gid(self.as_ptr(), port, index.into(), &raw mut gid) } {
            // SAFETY: the call filled it.
            0 => Ok(unsafe { gid.raw }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
