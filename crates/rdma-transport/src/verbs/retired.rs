//! Ends of connections whose queue pairs are still to be destroyed, by a thread: who ends a lane may not wait for
//! that. Soft-RoCE waits until every packet has left the network card, and where the link is down some leave when
//! it comes back; other devices wait for their firmware.

use ferrorail_base::sync::Mutex;
use ferrorail_shm::spawn_quietly;
use std::any::Any;
use std::sync::Arc;

/// Those of one rail.
#[derive(Debug, Default)]
pub struct Retired(Arc<Mutex<Waiting>>);

/// What is destroyed by being dropped.
type End = Box<dyn Any + Send>;

#[derive(Debug, Default)]
struct Waiting {
    ends: Vec<End>,
    has_thread: bool,
}

impl Waiting {
    fn next(&mut self) -> Option<End> {
        let end = self.ends.pop();
        self.has_thread = end.is_some();
        end
    }
}

impl Retired {
    /// Has `end` destroyed, which the device uses no more.
    pub fn push(&self, end: End) {
        let mut waiting = self.0.lock();
        waiting.ends.push(end);
        if !waiting.has_thread {
            let shared = Arc::clone(&self.0);
            let destroy_all = move || {
                let next = || shared.lock().next();
                std::iter::from_fn(next).for_each(drop);
            };
            waiting.has_thread = spawn_quietly("ferrorail-ends", destroy_all).is_ok();
            if !waiting.has_thread {
                waiting.ends.clear();
            }
        }
    }
}
