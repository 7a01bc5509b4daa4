//! `MPI_Reduce`, `MPI_Allreduce`, `MPI_Reduce_scatter_block`, `MPI_Reduce_scatter`, `MPI_Scan`, `MPI_Exscan`
//! (MPI 4.1, sections 6.9 to 6.11).

use super::fast_path::{FastCall, Outcome, Part, bytes_of};
use super::plain::{Input, Output, overlap};
use super::side::{check_address, is_in_place, rejects_aliases, typed};
use super::table::Consecutive;
use super::{Args, Call, Check, Checked, Collective, Refusal, done};
use crate::datatype::Elements;
use crate::operation::{Operation, Operations};
use crate::session::Session;
use ferrorail_engine::{Collective as Kind, EngineError, Reducer};
use ferrorail_mpi_abi::AbiKind;
use std::ptr;

/// All-reduce.
pub struct Allreduce;

/// Reduce to a root.
pub struct Reduce;

/// Reduce-scatter of equal blocks.
pub struct ReduceScatterBlock;

/// Reduce-scatter of blocks of different sizes.
pub struct ReduceScatter;

/// Scan.
pub struct Scan;

/// Exclusive scan.
pub struct Exscan;

/// Arguments that are significant on all ranks: how many elements of which type, and what is done
/// with them. Where they are is another matter.
#[derive(Clone)]
pub struct Vector {
    elements: Elements,
    operation: Operation,
}

impl Vector {
    #[inline(always)]
    fn check(session: &Session, args: &Args) -> Result<Self, Refusal> {
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
    fn check_both(session: &Session, args: &Args) -> Result<Self, Refusal> {
        let vector = Self::check(session, args)?;
        check_address(session, &vector.elements)?;
        Ok(vector)
    }

    /// As [`Vector::check`], with a root.
    #[inline(always)]
    fn check_rooted(session: &Session, args: &Args) -> Result<Self, Refusal> {
        args.check_root()?;
        Self::check(session, args)
    }

    /// This many elements instead.
    #[inline]
    fn counted(&self, count: usize) -> Elements {
        Elements {
            count,
            ..self.elements.clone()
        }
    }

    /// Leaves a `collective` of blocks of `elements` elements to the host where one has no room in scratch, as
    /// all ranks do: before memory is taken for it, which this rank alone may not get.
    #[inline]
    fn find_room(
        &self,
        call: &Call<'_>,
        collective: Kind,
        elements: impl FnOnce() -> usize,
    ) -> Result<(), Refusal> {
        // Elements that kernels know are short.
        if self.operation.kernel().is_some() {
            return Ok(());
        }
        let unit = self.elements.layout.bytes;
        let sizes = (elements() * unit, unit);
        let (team, root) = (call.team, call.root()?);
        done(team.check_element(collective, root, sizes, self.operation.commutes()))
    }

    /// Runs `act` with the contribution of `send` elements, `None` if it is in `output`, and the
    /// operation. The result is brought to the program if it is `received`.
    ///
    /// # Safety
    /// The program's elements.
    #[inline]
    unsafe fn run(
        &self,
        call: &Call<'_>,
        send: &Elements,
        output: &Output<'_>,
        received: bool,
        act: impl FnOnce(Option<*const u8>, &Reducer<'_>) -> Result<(), EngineError>,
    ) -> Result<(), Refusal> {
        let (session, args) = (call.session, call.args);
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
        let act = |reducer: &Reducer<'_>| done(act(send, reducer));
        let outcome = self.operation.with_reducer(session, &self.elements, act);
        outcome.ok_or(Refusal::Invalid)??;
        if received {
            // SAFETY: the caller's contract.
            unsafe { output.finish(session)? };
        }
        Ok(())
    }
}

/// Refuses `bytes` bytes that are sent from where the result goes, if the host does, which says so. To be asked when
/// the call is over: the other ranks may have done nothing wrong, and are not kept waiting.
#[inline]
fn not_the_result(call: &Call<'_>, bytes: usize, rejects: bool) -> Result<(), Refusal> {
    let args = call.args;
    let aliases = ptr::eq(args.send.address, args.recv.address) && bytes != 0;
    match aliases && (rejects || rejects_aliases(call.session)) {
        true => Err(Refusal::Invalid),
        false => Ok(()),
    }
}

impl Checked for Vector {
    fn known_bytes(&self) -> usize {
        self.elements.known_bytes()
    }
}

/// Reductions of whole vectors, of which each rank receives one, the first rank only `$of_first`. A macro, as a function of
/// the call would have to be inlined for what it captures.
macro_rules! of_vectors {
    ($($collective:ident: $name:literal $method:ident, $check:ident, $of_first:expr;)*) => {$(
        impl Collective for $collective {
            const NAME: &'static str = $name;
            const NONBLOCKING_NAME: &'static str = concat!("i", $name);
            const PERSISTENT_NAME: &'static str = concat!($name, "_init");
            type Checked = Vector;
            const CHECK: Check<Vector> = Vector::$check;

            fn is_computed_here(vector: &Vector) -> bool {
                vector.operation.kernel().is_some()
            }

            #[inline]
            unsafe fn perform(call: &Call<'_>, vector: &Vector) -> Result<(), Refusal> {
                let all = &vector.elements;
                let receives = $of_first != Part::Nothing || call.team.rank().0 > 0;
                // Wherever it is said to be.
                let nothing = (!receives && !is_in_place(call.session, &call.args.send))
                    .then(|| vector.counted(0));
                let has_result = nothing.is_none();
                if $of_first == Part::Nothing && has_result {
                    check_address(call.session, all)?;
                }
                vector.find_room(call, Kind::$collective, || all.count)?;
                let output = Output::new(nothing.as_ref().unwrap_or(all))?;
                // SAFETY: the program's elements; overlap is removed.
                unsafe {
                    vector.run(call, all, &output, receives, |send, reducer| {
                        (call.team).$method(send, output.address(), all.count, reducer)
                    })?;
                }
                not_the_result(call, if has_result { vector.known_bytes() } else { 0 }, false)
            }

            #[inline(always)]
            unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
                let received = if call.team.rank().0 == 0 { $of_first } else { Part::Block };
                call.reduction(Part::Block, received, |sides, reducer| {
                    // SAFETY: the caller's contract.
                    unsafe { (call.team).$method(sides.send, sides.recv, sides.elements, reducer) }
                })
            }
        }
    )*};
}

of_vectors! {
    Allreduce: "allreduce" allreduce, check_both, Part::Block;
    Scan: "scan" scan, check_both, Part::Block;
    // The first rank's buffer is not significant (MPI 4.1, section 6.11.2).
    Exscan: "exscan" exscan, check, Part::Nothing;
}

impl Collective for Reduce {
    const NAME: &'static str = "reduce";
    const NONBLOCKING_NAME: &'static str = "ireduce";
    const PERSISTENT_NAME: &'static str = "reduce_init";
    type Checked = Vector;
    const CHECK: Check<Vector> = Vector::check_rooted;

    fn is_computed_here(vector: &Vector) -> bool {
        vector.operation.kernel().is_some()
    }

    #[inline]
    unsafe fn perform(call: &Call<'_>, vector: &Vector) -> Result<(), Refusal> {
        let (session, args, root) = (call.session, call.args, call.root()?);
        let all = &vector.elements;
        let is_root = call.team.rank() == root;
        let received = if is_root {
            check_address(session, all)?;
            all.count
        } else if is_in_place(session, &args.send) {
            return Err(Refusal::Invalid);
        } else {
            0
        };
        vector.find_room(call, Kind::Reduce, || all.count)?;
        let recv = vector.counted(received);
        let output = Output::new(&recv)?;
        // SAFETY: the program's elements; overlap is removed.
        unsafe {
            vector.run(call, all, &output, true, |send, reducer| {
                (call.team).reduce(send, output.address(), all.count, root, reducer)
            })?;
        }
        // Open MPI, too, looks for equal buffers here, though not in all-reduce.
        let rejects = session.host().kind() == AbiKind::OpenMpi;
        not_the_result(
            call,
            if is_root { vector.known_bytes() } else { 0 },
            rejects,
        )
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        call.reduction(Part::Block, Part::RootBlock, |sides, reducer| {
            // SAFETY: the caller's contract.
            unsafe {
                (call.team).reduce(sides.send, sides.recv, sides.elements, sides.root, reducer)
            }
        })
    }
}

impl Collective for ReduceScatterBlock {
    const NAME: &'static str = "reduce_scatter_block";
    const NONBLOCKING_NAME: &'static str = "ireduce_scatter_block";
    const PERSISTENT_NAME: &'static str = "reduce_scatter_block_init";
    type Checked = Vector;
    const CHECK: Check<Vector> = Vector::check_both;

    fn is_computed_here(vector: &Vector) -> bool {
        vector.operation.kernel().is_some()
    }

    #[inline]
    unsafe fn perform(call: &Call<'_>, vector: &Vector) -> Result<(), Refusal> {
        let block = &vector.elements;
        let all = block.times(call.team.size())?;
        vector.find_room(call, Kind::ReduceScatterBlock, || block.count)?;
        // In place the whole vector is where only its first block is written.
        let in_place = is_in_place(call.session, &call.args.send);
        let output = Output::first_of(block, in_place.then_some(&all))?;
        // SAFETY: the program's elements; overlap is removed.
        unsafe {
            vector.run(call, &all, &output, true, |send, reducer| {
                (call.team).reduce_scatter_block(send, output.address(), block.count, reducer)
            })?;
        }
        not_the_result(call, block.known_bytes(), false)
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        call.reduction(Part::Blocks, Part::Block, |sides, reducer| {
            // SAFETY: the caller's contract.
            unsafe {
                (call.team).reduce_scatter_block(sides.send, sides.recv, sides.elements, reducer)
            }
        })
    }
}

impl Collective for ReduceScatter {
    const NAME: &'static str = "reduce_scatter";
    const NONBLOCKING_NAME: &'static str = "ireduce_scatter";
    const PERSISTENT_NAME: &'static str = "reduce_scatter_init";
    type Checked = Vector;
    /// How many elements there are is known once the communicator is.
    const CHECK: Check<Vector> = Vector::check;

    fn is_computed_here(vector: &Vector) -> bool {
        vector.operation.kernel().is_some()
    }

    #[inline]
    unsafe fn perform(call: &Call<'_>, vector: &Vector) -> Result<(), Refusal> {
        let (session, args, team) = (call.session, call.args, call.team);
        let bytes = vector.elements.layout.bytes;
        // SAFETY: the program's array, with an entry per rank.
        let blocks = unsafe { Consecutive::check(team, &args.recv_table, bytes)? };
        let elements_in = |block: usize| block / bytes.max(1);
        let own = elements_in(blocks.list()[team.rank().index()].bytes);
        let (all, own) = (vector.counted(blocks.elements()), vector.counted(own));
        // In place the whole vector is where only its first elements are written.
        let in_place = is_in_place(session, &args.send);
        let result = if in_place { &all } else { &own };
        check_address(session, result)?;
        vector.find_room(call, Kind::ReduceScatter, || {
            let longest = blocks.list().iter().map(|block| block.bytes).max();
            elements_in(longest.unwrap_or(0))
        })?;
        let output = Output::first_of(&own, in_place.then_some(&all))?;
        // SAFETY: the program's elements; overlap is removed.
        unsafe {
            vector.run(call, &all, &output, true, |send, reducer| {
                team.reduce_scatter(send, output.address(), blocks.list(), reducer)
            })?;
        }
        not_the_result(call, all.known_bytes(), false)
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        let (args, team, reducer) = (call.args, call.team, call.reducer()?);
        let unit = reducer.element_bytes;
        // SAFETY: the program's array, with an entry per rank.
        let blocks = unsafe { Consecutive::check(team, &args.recv_table, unit).ok()? };
        let from = call.bytes_at(&args.send, blocks.elements() * unit)?;
        let into = call.bytes_at(&args.recv, bytes_of(blocks.list(), team.rank()))?;
        if overlap(&from, &into) {
            return None;
        }
        team.begin_call();
        let (send, recv) = (args.send.address.cast_const(), args.recv.address);
        // SAFETY: the caller's contract.
        Some(done(unsafe {
            team.reduce_scatter(Some(send.cast()), recv.cast(), blocks.list(), &reducer)
        }))
    }
}
