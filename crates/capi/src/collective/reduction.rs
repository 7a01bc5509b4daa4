//! `MPI_Reduce`, `MPI_Allreduce`, `MPI_Scan`, `MPI_Exscan` (MPI 4.1, sections 6.9 and 6.11).

use super::rooted::{check_root, root_of};
use super::side::{Input, Output, check_address, is_in_place, rejects_aliases, typed};
use super::{Args, Checked, Collective, Refusal, done};
use crate::datatype::Elements;
use crate::operation::{Operation, Operations};
use crate::session::Session;
use ferrorail_base::Rank;
use ferrorail_engine::{Collective as Kind, Reducer, Team};
use ferrorail_mpi_abi::AbiKind;
use std::ptr;

/// All-reduce.
pub struct Allreduce;

/// Reduce to a root.
pub struct Reduce;

/// Scan.
pub struct Scan;

/// Exclusive scan.
pub struct Exscan;

/// Arguments that are significant on all ranks: how many elements of which type, and what is done
/// with them. Where they are is another matter.
pub struct Vector {
    pub(super) elements: Elements,
    operation: Operation,
}

impl Vector {
    #[inline(always)]
    pub(super) fn check(session: &Session, args: &Args) -> Result<Self, Refusal> {
        let elements = typed(session, &args.recv)?;
        let op = session.host().operation(args.op);
        let operation = Operations::of(session).find(session, op, &elements);
        Ok(Self {
            elements,
            operation: operation.ok_or(Refusal::Invalid)?,
        })
    }

    /// As [`Vector::check`], with buffers that are significant on all ranks.
    #[inline(always)]
    pub(super) fn check_both(session: &Session, args: &Args) -> Result<Self, Refusal> {
        let vector = Self::check(session, args)?;
        vector.check_result(session, args, false)?;
        Ok(vector)
    }

    /// Leaves a `collective` of blocks of `elements` elements to the host where one has no room in scratch, as
    /// all ranks do: before memory is taken for it, which this rank alone may not get.
    #[inline]
    pub(super) fn find_room(
        &self,
        team: &Team,
        collective: Kind,
        root: Rank,
        elements: impl FnOnce() -> usize,
    ) -> Result<(), Refusal> {
        // Elements that kernels know are short.
        if self.operation.kernel().is_some() {
            return Ok(());
        }
        let unit = self.elements.layout.bytes;
        let sizes = (elements() * unit, unit);
        done(team.check_element(collective, root, sizes, self.operation.commutes()))
    }

    /// Checks where the result goes. Send and receive buffer may be the same unless that is `wrong`,
    /// or the host always says so.
    #[inline]
    fn check_result(&self, session: &Session, args: &Args, wrong: bool) -> Result<(), Refusal> {
        check_address(session, &self.elements)?;
        let aliases = ptr::eq(args.send.address, args.recv.address) && self.known_bytes() != 0;
        if aliases && (wrong || rejects_aliases(session)) {
            return Err(Refusal::Invalid);
        }
        Ok(())
    }

    /// Runs `act` with the contribution of `send` elements, `None` if it is in `output`, and the
    /// operation.
    ///
    /// # Safety
    /// The program's elements are readable.
    #[inline]
    pub(super) unsafe fn with(
        &self,
        session: &Session,
        args: &Args,
        send: &Elements,
        output: &Output<'_>,
        act: impl FnOnce(Option<*const u8>, &Reducer<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let input = match is_in_place(session, &args.send) {
            true => {
                // SAFETY: the program's elements, from the first of the output's on.
                unsafe { output.keep(session, send, 0)? };
                None
            }
            false => {
                let send = Elements {
                    address: args.send.address.cast(),
                    ..send.clone()
                };
                check_address(session, &send)?;
                // SAFETY: the caller's contract.
                Some(unsafe { Input::new(session, &send, output.range())? })
            }
        };
        let send = input.as_ref().map(Input::address);
        let act = |reducer: &Reducer<'_>| act(send, reducer);
        let outcome = self.operation.with_reducer(session, &self.elements, act);
        outcome.ok_or(Refusal::Invalid)?
    }
}

impl Checked for Vector {
    fn known_bytes(&self) -> usize {
        self.elements.known_bytes()
    }
}

impl Collective for Allreduce {
    const NAME: &'static str = "allreduce";
    type Call = Vector;

    #[inline]
    fn check(session: &Session, args: &Args) -> Result<Vector, Refusal> {
        Vector::check_both(session, args)
    }

    #[inline]
    unsafe fn perform(
        session: &Session,
        team: &Team,
        args: &Args,
        call: &Vector,
    ) -> Result<(), Refusal> {
        let recv = &call.elements;
        call.find_room(team, Kind::Allreduce, Rank(0), || recv.count)?;
        let output = Output::new(recv)?;
        // SAFETY: the program's elements; overlap is removed.
        unsafe {
            call.with(session, args, recv, &output, |send, reducer| {
                done(team.allreduce(send, output.address(), recv.count, reducer))
            })?;
            output.finish(session)?;
        }
        Ok(())
    }
}

impl Collective for Reduce {
    const NAME: &'static str = "reduce";
    type Call = Vector;

    #[inline]
    fn check(session: &Session, args: &Args) -> Result<Vector, Refusal> {
        check_root(args)?;
        Vector::check(session, args)
    }

    #[inline]
    unsafe fn perform(
        session: &Session,
        team: &Team,
        args: &Args,
        call: &Vector,
    ) -> Result<(), Refusal> {
        let root = root_of(team, args)?;
        let is_root = team.rank() == root;
        if !is_root && is_in_place(session, &args.send) {
            return Err(Refusal::Invalid);
        }
        if is_root {
            // Open MPI, too, looks for equal buffers here, though not in all-reduce.
            let checks = session.host().kind() == AbiKind::OpenMpi;
            call.check_result(session, args, checks)?;
        }
        let send = &call.elements;
        let count = send.count;
        call.find_room(team, Kind::Reduce, root, || count)?;
        let recv = Elements {
            count: if is_root { count } else { 0 },
            ..send.clone()
        };
        let output = Output::new(&recv)?;
        // SAFETY: the program's elements; overlap is removed.
        unsafe {
            call.with(session, args, send, &output, |send, reducer| {
                done(team.reduce(send, output.address(), count, root, reducer))
            })?;
            output.finish(session)?;
        }
        Ok(())
    }
}

impl Collective for Scan {
    const NAME: &'static str = "scan";
    type Call = Vector;

    #[inline]
    fn check(session: &Session, args: &Args) -> Result<Vector, Refusal> {
        Vector::check_both(session, args)
    }

    #[inline]
    unsafe fn perform(
        session: &Session,
        team: &Team,
        args: &Args,
        call: &Vector,
    ) -> Result<(), Refusal> {
        let recv = &call.elements;
        call.find_room(team, Kind::Scan, Rank(0), || recv.count)?;
        let output = Output::new(recv)?;
        // SAFETY: the program's elements; overlap is removed.
        unsafe {
            call.with(session, args, recv, &output, |send, reducer| {
                done(team.scan(send, output.address(), recv.count, reducer))
            })?;
            output.finish(session)?;
        }
        Ok(())
    }
}

impl Collective for Exscan {
    const NAME: &'static str = "exscan";
    type Call = Vector;

    #[inline]
    fn check(session: &Session, args: &Args) -> Result<Vector, Refusal> {
        Vector::check_both(session, args)
    }

    #[inline]
    unsafe fn perform(
        session: &Session,
        team: &Team,
        args: &Args,
        call: &Vector,
    ) -> Result<(), Refusal> {
        let recv = &call.elements;
        call.find_room(team, Kind::Exscan, Rank(0), || recv.count)?;
        let output = Output::new(recv)?;
        // SAFETY: the program's elements; overlap is removed. Rank 0 receives nothing.
        unsafe {
            call.with(session, args, recv, &output, |send, reducer| {
                done(team.exscan(send, output.address(), recv.count, reducer))
            })?;
            if team.rank().0 > 0 {
                output.finish(session)?;
            }
        }
        Ok(())
    }
}
