//! One side of a call: the elements that its arguments describe.

use super::{Args, Buffer, Checked, Refusal};
use crate::datatype::Elements;
use crate::error::{CallError, Wrong};
use crate::session::Session;
use ferrorail_mpi_abi::{AbiKind, SUCCESS};
use libc::{c_int, c_void};
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

    /// [`Side::check`] of what is sent to a root.
    #[inline(always)]
    pub fn sent(session: &Session, args: &Args) -> Result<Self, Refusal> {
        args.check_root()?;
        Self::check(session, &args.send)
    }

    /// [`Side::check`] of what is received from a root.
    #[inline(always)]
    pub fn received(session: &Session, args: &Args) -> Result<Self, Refusal> {
        args.check_root()?;
        Self::check(session, &args.recv)
    }

    /// The elements of a rank that is not the root, which cannot be in place, and their bytes.
    #[inline]
    pub fn not_in_place(&self) -> Result<(&Elements, usize), Refusal> {
        match self {
            Self::At(elements) => Ok((elements, elements.bytes().ok_or(Refusal::Invalid)?)),
            Self::InPlace => Err(Refusal::Invalid),
        }
    }

    /// Refuses a block of other than `bytes` bytes.
    #[inline]
    pub fn check_bytes(&self, bytes: usize) -> Result<(), Refusal> {
        self.bytes().map_or(Ok(()), |own| same_bytes(own, bytes))
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
#[derive(Clone)]
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
        self.send.check_bytes(self.bytes)?;
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
    code != SUCCESS
}

/// Refuses a block that is sent from where it is received, if the host does. To be asked when the call is
/// over: the other ranks may have done nothing wrong, and are not kept waiting.
#[inline(always)]
pub fn not_aliased(
    session: &Session,
    sent: &Side,
    received: impl FnOnce() -> Elements,
) -> Result<(), Refusal> {
    let Side::At(sent) = sent else {
        return Ok(());
    };
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
