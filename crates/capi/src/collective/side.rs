//! One side of a call: its elements, and the plain bytes that the engine sees of them.

use super::{Args, Buffer, Checked, Refusal};
use crate::datatype::{Elements, Packed};
use crate::error::{CallError, Wrong};
use crate::session::Session;
use ferrorail_mpi_abi::AbiKind;
use libc::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

/// A side that may be `MPI_IN_PLACE`.
#[derive(Clone)]
pub enum Side {
    /// The other side's buffer serves.
    InPlace,
    /// Here.
    At(Elements),
}

impl Side {
    /// Checks a side that may be `MPI_IN_PLACE`.
    #[inline(always)]
    pub fn check(session: &Session, buffer: &Buffer) -> Result<Self, Refusal> {
        if is_in_place(session, buffer) {
            Ok(Self::InPlace)
        } else {
            elements(session, buffer).map(Self::At)
        }
    }

    /// Bytes of one block, if it is known from this side.
    pub fn bytes(&self) -> Option<usize> {
        match self {
            Self::InPlace => None,
            Self::At(elements) => elements.bytes(),
        }
    }
}

impl Checked for Side {
    fn known_bytes(&self) -> usize {
        self.bytes().unwrap_or(0)
    }
}

impl Checked for Elements {
    fn known_bytes(&self) -> usize {
        self.bytes().unwrap_or(0)
    }
}

/// Whether `MPI_IN_PLACE` was passed.
#[inline]
pub fn is_in_place(session: &Session, buffer: &Buffer) -> bool {
    buffer.address as usize == session.host().constants().in_place
}

/// Checks a side that may not be `MPI_IN_PLACE`. The byte count of the result does not overflow.
#[inline(always)]
pub fn elements(session: &Session, buffer: &Buffer) -> Result<Elements, Refusal> {
    let elements = typed(session, buffer)?;
    check_address(session, &elements)?;
    Ok(elements)
}

/// Checks count and datatype, but not the address. The byte count of the result does not overflow.
#[inline(always)]
pub fn typed(session: &Session, buffer: &Buffer) -> Result<Elements, Refusal> {
    let described = Elements::of(session, buffer.address, buffer.count, buffer.datatype);
    described.map_err(|_| Refusal::Invalid)
}

/// Checks the address of `elements`.
#[inline]
pub fn check_address(session: &Session, elements: &Elements) -> Result<(), Refusal> {
    let in_place = elements.address as usize == session.host().constants().in_place;
    if in_place || elements.is_absent() {
        return Err(Refusal::Invalid);
    }
    Ok(())
}

/// The two sides of a collective in which every rank sends and receives.
pub struct Both {
    /// What is sent.
    pub send: Side,
    /// What is received.
    pub recv: Elements,
    /// Bytes of one block received.
    pub bytes: usize,
}

impl Checked for Both {
    fn known_bytes(&self) -> usize {
        self.bytes
    }
}

impl Both {
    /// Checks both sides, each by itself.
    #[inline]
    pub fn check(session: &Session, args: &Args) -> Result<Self, Refusal> {
        let recv = elements(session, &args.recv)?;
        let bytes = recv.bytes().ok_or(Refusal::Invalid)?;
        let alike = (args.send.count, args.send.datatype) == (args.recv.count, args.recv.datatype);
        let send = if alike && !args.send.address.is_null() && !is_in_place(session, &args.send) {
            Side::At(Elements {
                address: args.send.address.cast(),
                ..recv.clone()
            })
        } else {
            Side::check(session, &args.send)?
        };
        Ok(Self { send, recv, bytes })
    }

    /// Bytes of one block. Refuses sides that describe different amounts of data, which is right on
    /// an inter-communicator and therefore not part of [`Both::check`].
    #[inline]
    pub fn block_bytes(&self) -> Result<usize, Refusal> {
        if let Some(send_bytes) = self.send.bytes() {
            same_bytes(send_bytes, self.bytes)?;
        }
        Ok(self.bytes)
    }
}

/// Whether the host reports equal send and receive buffers as an error (MPICH does unless built
/// without checks; Open MPI does not). Asked of the host itself, on this process alone.
#[inline]
pub fn rejects_aliases(session: &Session) -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    match KNOWN.get() {
        Some(&known) => known,
        None => *KNOWN.get_or_init(|| try_alias(session)),
    }
}

#[cold]
fn try_alias(session: &Session) -> bool {
    let host = session.host();
    if host.kind() == AbiKind::OpenMpi {
        return false;
    }
    let (mut word, int) = (0 as c_int, host.predefined().int);
    let address = (&raw mut word).cast::<c_void>();
    // SAFETY: one integer in place, on a communicator of one rank that returns errors.
    let code = unsafe {
        (host.functions().allgather)(address, 1, int, address, 1, int, session.self_comm)
    };
    code != host.constants().success
}

/// Refuses a block that is sent from where it is received, if the host does. To be asked when the call is
/// over: the other ranks may have done nothing wrong, and are not kept waiting.
#[inline(always)]
pub fn not_aliased(
    session: &Session,
    sent: &Elements,
    received: impl FnOnce() -> Elements,
) -> Result<(), Refusal> {
    if !rejects_aliases(session) || sent.bytes() == Some(0) {
        return Ok(());
    }
    let same = |s: &Elements| (s.address, s.count, s.datatype);
    match same(sent) == same(&received()) {
        true => Err(Refusal::from(CallError::Wrong(Wrong::Alias))),
        false => Ok(()),
    }
}

/// Refuses sides that describe different amounts of data.
#[inline]
pub fn same_bytes(send_bytes: usize, recv_bytes: usize) -> Result<(), Refusal> {
    if send_bytes == recv_bytes {
        return Ok(());
    }
    Err(Refusal::from(CallError::Signature {
        send_bytes,
        recv_bytes,
    }))
}

/// Plain bytes to send: the program's own memory, or a packed copy.
pub struct Input {
    address: *const u8,
    _copy: Option<Packed>,
}

impl Input {
    /// The bytes of `elements`. They are copied if they have gaps or lie in `output`: overlapping
    /// buffers are wrong, but hosts that do not check send what was there before.
    ///
    /// # Safety
    /// The elements are readable.
    #[inline(always)]
    pub unsafe fn new(
        session: &Session,
        elements: &Elements,
        output: Range<usize>,
    ) -> Result<Self, CallError> {
        match elements.dense() {
            Some(address) if !overlap(&elements.range(address), &output) => Ok(Self {
                address,
                _copy: None,
            }),
            // SAFETY: the caller's contract.
            _ => unsafe { Self::copied(session, elements) },
        }
    }

    /// A copy of the bytes of `elements`.
    ///
    /// # Safety
    /// As [`Input::new`].
    #[cold]
    pub unsafe fn copied(session: &Session, elements: &Elements) -> Result<Self, CallError> {
        let mut copy = Packed::new(size_of(elements)?)?;
        // SAFETY: the caller's contract; the copy has room.
        unsafe { collect(session, elements, copy.as_mut_ptr())? };
        Ok(Self {
            address: copy.as_mut_ptr(),
            _copy: Some(copy),
        })
    }

    /// First byte.
    #[inline]
    pub fn address(&self) -> *const u8 {
        self.address
    }
}

/// Plain bytes to receive into: the program's own memory, or memory to unpack from.
pub struct Output<'a> {
    address: *mut u8,
    elements: &'a Elements,
    packed: Option<Packed>,
}

impl<'a> Output<'a> {
    /// Room for the bytes of `elements`.
    #[inline]
    pub fn new(elements: &'a Elements) -> Result<Self, CallError> {
        match elements.dense() {
            Some(address) => Ok(Self {
                address,
                elements,
                packed: None,
            }),
            None => Self::with_room(elements, 0),
        }
    }

    /// Memory to unpack `elements` from, which are the first of at least `room` bytes.
    #[cold]
    fn with_room(elements: &'a Elements, room: usize) -> Result<Self, CallError> {
        let mut packed = Packed::new(size_of(elements)?.max(room))?;
        Ok(Self {
            address: packed.as_mut_ptr(),
            elements,
            packed: Some(packed),
        })
    }

    /// Room for the bytes of `elements`. If they are the first of `all` that the program has there, as
    /// in place, there is room for all of those where any have to be packed: few may be plain bytes
    /// where many are not, and the other way round (one element with gaps is, none is not).
    pub fn first_of(elements: &'a Elements, all: Option<&Elements>) -> Result<Self, CallError> {
        match all {
            Some(all) if elements.dense().is_none() || all.dense().is_none() => {
                Self::with_room(elements, size_of(all)?)
            }
            _ => Self::new(elements),
        }
    }

    /// First byte.
    #[inline]
    pub fn address(&self) -> *mut u8 {
        self.address
    }

    /// Where the program's bytes will be written during the call.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        match self.packed {
            None => self.elements.range(self.address),
            Some(_) => 0..0,
        }
    }

    /// Makes the data that is in `block` of the program's buffer part of the bytes, at `offset`.
    ///
    /// # Safety
    /// `block` is readable, and its bytes fit at `offset`.
    pub unsafe fn keep(
        &self,
        session: &Session,
        block: &Elements,
        offset: usize,
    ) -> Result<(), CallError> {
        if let Some(packed) = &self.packed {
            debug_assert!(
                packed.room() >= offset + size_of(block)?,
                "room for what is kept"
            );
            // SAFETY: the caller's contract.
            unsafe { collect(session, block, self.address.wrapping_add(offset))? };
        }
        Ok(())
    }

    /// Brings what was received to the program's elements; gaps keep their bytes.
    ///
    /// # Safety
    /// The elements are writable, all bytes were received.
    #[inline(always)]
    pub unsafe fn finish(self, session: &Session) -> Result<(), CallError> {
        if self.packed.is_some() {
            // SAFETY: the caller's contract.
            unsafe { self.elements.unpack(session, self.address)? };
        }
        Ok(())
    }
}

/// Brings the bytes of `elements` to `to`.
///
/// # Safety
/// The elements are readable; `to` has room for their bytes.
pub unsafe fn collect(
    session: &Session,
    elements: &Elements,
    to: *mut u8,
) -> Result<(), CallError> {
    match elements.dense() {
        Some(from) => {
            // SAFETY: the caller's contract; `copy` allows overlap.
            unsafe { ptr::copy(from, to, size_of(elements)?) };
            Ok(())
        }
        // SAFETY: the caller's contract.
        None => unsafe { elements.pack(session, to) },
    }
}

fn size_of(elements: &Elements) -> Result<usize, CallError> {
    elements.bytes().ok_or(CallError::TooMuch)
}

/// Whether two ranges of addresses have bytes in common.
#[inline]
pub fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_do_not_overlap() {
        assert!(!overlap(&(100..108), &(108..172)));
        assert!(!overlap(&(172..180), &(108..172)));
        assert!(overlap(&(107..115), &(108..172)));
        assert!(overlap(&(171..179), &(108..172)));
        assert!(overlap(&(108..116), &(108..172)));
        assert!(!overlap(&(108..108), &(108..108)));
    }
}
