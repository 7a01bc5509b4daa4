//! Facts by handle.

/// Slots of a table: a power of two, of which most stay free.
const SLOTS: usize = 256;

/// Facts by handle, looked up in a few instructions: a hash table with linear probing. No handle is 0.
#[derive(Clone, Debug)]
pub struct HandleTable<V>(Box<[(usize, Option<V>); SLOTS]>);

impl<V: Copy> HandleTable<V> {
    /// A table of `entries`. Of several with one handle, the last counts.
    ///
    /// # Panics
    /// If there are more than half as many as a table has slots.
    pub fn new(entries: &[(usize, V)]) -> Self {
        assert!(entries.len() <= SLOTS / 2, "room for all entries");
        let mut table = Self(Box::new([(0, None); SLOTS]));
        for &(handle, value) in entries {
            let slot = table.slot(handle);
            table.0[slot] = (handle, Some(value));
        }
        table
    }

    /// The fact on `handle`.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<V> {
        self.0[self.slot(handle)].1
    }

    /// The slot where `handle` is, or would be.
    #[inline]
    fn slot(&self, handle: usize) -> usize {
        let hash = (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = (hash >> (u64::BITS - SLOTS.ilog2())) as usize;
        while self.0[slot].0 != 0 && self.0[slot].0 != handle {
            slot = (slot + 1) % SLOTS;
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_find_all_and_only_their_own() {
        for count in [0, 1, 2, 3, 14, 80] {
            let handle = |i: usize| 0x7f00_1234_0000 + 320 * i;
            let entries: Vec<(usize, usize)> = (0..count).map(|i| (handle(i), i)).collect();
            let table = HandleTable::new(&entries);
            for i in 0..count {
                assert_eq!(table.get(handle(i)), Some(i));
                assert_eq!(table.get(handle(i) + 8), None);
            }
            assert_eq!(table.get(0), None);
        }
    }

    #[test]
    fn the_last_entry_of_a_handle_counts() {
        let table = HandleTable::new(&[(5, 'a'), (6, 'b'), (5, 'c')]);
        assert_eq!((table.get(5), table.get(6)), (Some('c'), Some('b')));
    }
}
