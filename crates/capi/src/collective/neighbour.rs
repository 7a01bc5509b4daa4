//! The neighbourhood collectives (MPI 4.1, section 8.6): all-to-alls with lengths, in which ranks without an edge between them
//! have nothing for each other.

use super::edges::{Arrangement, Grouped, Rows, list_plain};
use super::fast_path::{FastCall, Outcome};
use super::list::List;
use super::plain::{move_elements, overlap};
use super::side::{is_in_place, same_bytes};
use super::{
    Allgather, Allgatherv, Alltoall, Alltoallv, Alltoallw, Call, Check, Checked, Collective,
    Entries, Refusal, done,
};
use crate::datatype::Elements;
use crate::error::CallError;
use crate::neighbourhood::Neighbourhood;
use crate::session::Session;
use crate::team_cache;
use crate::thread::with_local;
use ferrorail_engine::Team;
use std::marker::PhantomData;
use std::sync::Arc;

/// What `F` is among all ranks, among the neighbours in a topology.
pub struct Neighbor<F>(PhantomData<F>);

pub type NeighborAllgather = Neighbor<Allgather>;
pub type NeighborAllgatherv = Neighbor<Allgatherv>;
pub type NeighborAlltoall = Neighbor<Alltoall>;
pub type NeighborAlltoallv = Neighbor<Alltoallv>;
pub type NeighborAlltoallw = Neighbor<Alltoallw>;

/// What one of them has of its own.
pub trait Form {
    /// Its name, and those of its non-blocking form and of the call that makes a persistent request for it.
    const NAMES: [&'static str; 3];

    /// How blocks lie that are sent, and those that are received.
    const BLOCKS: [Arrangement; 2];
}

/// A call that is right as far as the team does not matter.
#[derive(Clone)]
pub struct Exchange {
    neighbourhood: Arc<Neighbourhood>,
    sent: Rows,
    received: Rows,
}

impl Checked for Exchange {}

impl<F: Form> Collective for Neighbor<F> {
    const NAME: &'static str = F::NAMES[0];
    const NONBLOCKING_NAME: &'static str = F::NAMES[1];
    const PERSISTENT_NAME: &'static str = F::NAMES[2];
    const RULE_NAME: &'static str = Alltoallv::NAME;
    const ENTRIES: Entries = Entries::Neighbours;
    const TYPE_EACH: bool = matches!(F::BLOCKS, [Arrangement::Typed, _]);
    type Checked = Exchange;

    const CHECK: Check<Exchange> = |session, args| {
        let [send, recv] = [&args.send, &args.recv];
        if is_in_place(session, send) || is_in_place(session, recv) {
            return Err(Refusal::Invalid);
        }
        let comm = session.host().comm(args.comm);
        // SAFETY: a communicator in use by this call is not freed meanwhile.
        let neighbourhood = with_local(|local| unsafe {
            team_cache::neighbourhood(session, &local.handle_cache, comm)
        });
        Ok(Exchange {
            neighbourhood: neighbourhood.ok_or(Refusal::Invalid)?,
            sent: Rows::of(session, F::BLOCKS[0], send, &args.send_table)?,
            received: Rows::of(session, F::BLOCKS[1], recv, &args.recv_table)?,
        })
    };

    fn entries(_: &Team, checked: &Exchange) -> (usize, usize) {
        checked.neighbourhood.entries
    }

    unsafe fn perform(call: &Call<'_>, exchange: &Exchange) -> Result<(), Refusal> {
        let (session, team, args) = (call.session, call.team, call.args);
        let Neighbourhood { own, doubled, .. } = &*exchange.neighbourhood;
        let rounds = 1 + usize::from(*doubled && !exchange.received.go_together());
        let (sent, received) = (
            &exchange.neighbourhood.sent,
            &exchange.neighbourhood.received,
        );
        let mut input = Grouped::new(args.send.address);
        let mut output = Grouped::new(args.recv.address);
        // SAFETY: the program's arrays, with an entry per neighbour, and its elements.
        unsafe {
            output.fill(session, team, &exchange.received, (received, rounds))?;
            input.fill(session, team, &exchange.sent, (sent, rounds))?;
            let own = own_rows(session, exchange, own)?;
            output.prepare_output()?;
            input.prepare_input(session, &output)?;
            for round in 0..rounds {
                let (from, into) = (input.list(round), output.list(round));
                done(team.alltoallv(input.base(), from, output.base(), into))?;
            }
            output.finish(session)?;
            for (from, into) in &own {
                move_elements(session, from, into)?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<Outcome> {
        let (args, team) = (call.args, call.team);
        let comm = call.session.host().comm(args.comm);
        // SAFETY: a communicator in use by this call is not freed meanwhile.
        let known = unsafe { team_cache::known_neighbourhood(&call.local.handle_cache, comm)? };
        let (sent, received) = (known.only_sent()?, &known.received);
        let (mut send, mut recv) = (List::new(), List::new());
        let (out, into) = (
            (&args.send, &args.send_table),
            (&args.recv, &args.recv_table),
        );
        // SAFETY: the program's arrays, with an entry per neighbour.
        let (from, into) = unsafe {
            (
                list_plain(call, F::BLOCKS[0], out, sent, &mut send)?,
                list_plain(call, F::BLOCKS[1], into, received, &mut recv)?,
            )
        };
        if overlap(&from, &into) {
            return None;
        }
        team.begin_call();
        let (from, into) = (args.send.address.cast(), args.recv.address.cast());
        // SAFETY: the caller's contract.
        Some(done(unsafe { team.alltoallv(from, &send, into, &recv) }))
    }
}

/// What the rank has for itself: elements, and those that they are copied to.
///
/// # Safety
/// The program's arrays have an entry for each.
unsafe fn own_rows(
    session: &Session,
    exchange: &Exchange,
    own: &[(usize, usize)],
) -> Result<Vec<(Elements, Elements)>, Refusal> {
    let pair = |&(from, into): &(usize, usize)| {
        // SAFETY: the caller's contract.
        let (from, into) = unsafe {
            let into = exchange.received.row(session, into)?;
            (exchange.sent.row(session, from)?, into)
        };
        let bytes = |elements: &Elements| elements.bytes().ok_or(CallError::TooMuch);
        same_bytes(bytes(&from)?, bytes(&into)?)?;
        Ok((from, into))
    };
    own.iter().map(pair).collect()
}

/// Forms by their names, with how blocks lie that are sent, and those that are received.
macro_rules! forms {
    ($($form:ident: $name:literal $sent:ident $received:ident;)*) => {$(
        impl Form for $form {
            const NAMES: [&'static str; 3] = [$name, concat!("i", $name), concat!($name, "_init")];
            const BLOCKS: [Arrangement; 2] = [Arrangement::$sent, Arrangement::$received];
        }
    )*};
}

forms! {
    Allgather: "neighbor_allgather" Same Even;
    Allgatherv: "neighbor_allgatherv" Same Listed;
    Alltoall: "neighbor_alltoall" Even Even;
    Alltoallv: "neighbor_alltoallv" Listed Listed;
    Alltoallw: "neighbor_alltoallw" Typed Typed;
}
