//! How much scratch an operation takes, and so how much of each block it moves at a time.
//!
//! Teams ask here, with what their segment has (`Scratch::of`), and `ferrorail explain`, with what a team would have.

use crate::choice::{Choice, by_length};
use crate::collective::eager::form::{Form, form};
use crate::sequence::{annex_bytes, rotating_bytes, rotating_share};
use crate::team::map::{CHANNELS, Map};
use ferrorail_coll::named::Variant;
use ferrorail_coll::{Collective, Protocol, cost};
use ferrorail_shm::layout::LINE;

/// What `FERRORAIL_SCRATCH` is unless it is set.
const SCRATCH_BYTES: u64 = 64 << 10;

/// The same of a team of few ranks on one node: each piece takes them waits for each other, and this many bytes stay in
/// the caches.
const SCRATCH_BYTES_OF_FEW: u64 = 128 << 10;

/// How many are few.
const FEW_RANKS: u32 = 4;

/// Scratch of a rank and channel, in a team of `ranks` on `nodes` nodes with `FERRORAIL_SCRATCH` set to `setting`: enough
/// for a cache line from and to each rank, where each may have a message for every other; else for the words about
/// staged pieces, and for pieces.
pub(crate) fn scratch_bytes(
    setting: Option<u64>,
    (ranks, nodes): (u32, u32),
    all_pairs: bool,
) -> u64 {
    let setting = setting.unwrap_or(match nodes == 1 && ranks <= FEW_RANKS {
        true => SCRATCH_BYTES_OF_FEW,
        false => SCRATCH_BYTES,
    });
    setting.max(match all_pairs {
        true => 64 * 2 * u64::from(ranks),
        false => 16 * u64::from(ranks) + (8 << 10),
    })
}

/// How many adjacent channels one operation may have the scratch of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Widths {
    /// Where all fits into so many.
    pub whole: u32,
    /// Where it goes in pieces.
    pub pieces: u32,
}

/// How many adjacent channels an operation on blocks of `bytes` takes, and the largest piece that it moves at once, as
/// `piece` says of so many: the fewest that have room for all, else those for pieces.
pub(crate) fn fit<T: PartialEq + Copy>(
    widths: Widths,
    bytes: T,
    piece: impl Fn(u32) -> T,
) -> (u32, T) {
    let mut fewer = (1..=widths.whole).filter(|width| width.is_power_of_two());
    match fewer.find(|&width| piece(width) == bytes) {
        Some(width) => (width, bytes),
        None => (widths.pieces, piece(widths.pieces)),
    }
}

/// Up to so many ranks that share cores, those of an exchange write their scratch in turn: the rotating scratch of more
/// does not stay in the cache that cores share, beside what they exchange.
const EXCHANGING_RANKS_MAX: u32 = 4;

/// Stages of a pipeline in which one rank copies a piece out while another copies the next one in.
const STAGES: u64 = 4;

/// Shorter pieces take longer to announce than they gain.
const STAGE_BYTES_MIN: u64 = 16 << 10;

/// What each rank of a team has, alike at all.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    /// Ranks of the team.
    pub ranks: u32,
    /// Nodes that they are on.
    pub nodes: u32,
    /// Whether each has a core of its own.
    pub has_cores: bool,
    /// Bytes of a channel that blocks may take.
    pub channel: u64,
    /// Bytes of rotating scratch.
    pub rotating: u64,
}

impl Scratch {
    /// Of a team on so many nodes, with `FERRORAIL_SCRATCH` set to `setting`.
    pub fn new(
        setting: Option<u64>,
        (ranks, nodes): (u32, u32),
        has_cores: bool,
        all_pairs: bool,
    ) -> Self {
        let channel = scratch_bytes(setting, (ranks, nodes), all_pairs);
        Self {
            ranks,
            nodes,
            has_cores,
            channel,
            rotating: match nodes {
                1 => rotating_bytes(ranks, channel as usize) as u64,
                _ => 0,
            },
        }
    }

    /// Of `map`'s team. Segments of some kinds have no rotating scratch.
    pub(crate) fn of(map: &Map) -> Self {
        let shape = (map.topology.size(), map.topology.node_count());
        let setting = map.settings.scratch_bytes;
        Self {
            rotating: map.geometry().map_or(0, |geometry| geometry.rotating_bytes),
            ..Self::new(setting, shape, map.has_cores, map.all_pairs)
        }
    }

    /// What long messages of a node use, part after part.
    pub(crate) fn in_turn(&self) -> u64 {
        self.rotating.max(self.channel * u64::from(CHANNELS))
    }

    /// Whether an operation takes rotating scratch instead of its channels'. Two ranks that exchange write to lines that
    /// they have read themselves, and of ranks that share a core the next one in a scan finds in its cache what the one
    /// before has written.
    pub(crate) fn rotates(&self, collective: Collective) -> bool {
        let gains = match collective {
            Collective::Bcast
            | Collective::Gather
            | Collective::Gatherv
            | Collective::Reduce
            | Collective::Scatter
            | Collective::Scatterv => true,
            Collective::Scan | Collective::Exscan => self.has_cores,
            Collective::Allgather | Collective::Allgatherv => self.ranks > 2 && !self.has_cores,
            Collective::Allreduce
            | Collective::Alltoall
            | Collective::Alltoallv
            | Collective::ReduceScatter
            | Collective::ReduceScatterBlock => {
                (3..=EXCHANGING_RANKS_MAX).contains(&self.ranks) && !self.has_cores
            }
            Collective::Barrier => false,
        };
        gains && self.rotating > 0
    }

    /// What an operation may take for each of its channels where that is not what the channel has. Where ranks share
    /// cores it is as much of the rotating scratch as may be, since each piece takes context switches; else what
    /// channels have, so that pieces stay in the cores' caches.
    pub(crate) fn rotating_share(&self, collective: Collective) -> Option<u64> {
        let shares = self.rotates(collective) && !self.has_cores;
        shares.then(|| rotating_share(self.ranks, self.rotating as usize) as u64)
    }

    /// How many channels an operation may have the scratch of. Those that wait for every rank anyway need no more than
    /// two operations' room, and each piece of them takes waits for each other. Others run ahead in the rest, and are
    /// faster in pieces of one channel, unless ranks share cores: then each piece takes as many context switches as the
    /// whole.
    ///
    /// A domain's leader has the vectors of its ranks in its scratch at once: elements as long as without domains fit.
    pub(crate) fn widths(&self, variant: Variant) -> Widths {
        let collective = variant.algorithm.collective;
        let shares = self.rotating_share(collective).is_some();
        let gathers = self.nodes == 1 && variant.domains && collective == Collective::Reduce;
        let most = match collective.synchronising() || shares || gathers {
            true => CHANNELS / 2,
            false => 1,
        };
        Widths {
            whole: most,
            pieces: if self.nodes > 1 { 1 } else { most },
        }
    }

    /// How many channels an operation of which no rank knows all lengths has the scratch of: those who share the scratch
    /// of a rank on one node, up to 16 of them, have room for 16 KB each, and two of them for 64 KB. With more channels
    /// at a time ranks would run ahead less.
    pub(crate) fn width_by_length(&self) -> u32 {
        match self.nodes {
            1 if self.ranks == 2 => 2,
            1 => (self.ranks.div_ceil(4).next_power_of_two()).min(CHANNELS / 2),
            _ => 1,
        }
    }

    /// Longest piece of a block of `bytes` bytes that passes one way between ranks with a core each, so that a call that
    /// all ranks enter at once does not take as long as all its copies. Gathers and scatters in blocks of one length
    /// have copies of several ranks at once, and the root's own.
    pub(crate) fn stage_bytes(&self, collective: Collective, bytes: u64) -> u64 {
        let one_way = matches!(
            collective,
            Collective::Bcast | Collective::Gatherv | Collective::Reduce | Collective::Scatterv
        );
        match one_way && self.has_cores && self.rotates(collective) {
            true => (bytes / STAGES)
                .max(STAGE_BYTES_MIN)
                .next_multiple_of(LINE as u64),
            false => u64::MAX,
        }
    }

    /// The form by eager slots, which blocks that are short enough take in place of `variant`. Not in place of one over
    /// domains, as slots are read across them.
    pub(crate) fn eager_form(&self, variant: Variant, protocol: Protocol) -> Option<Form> {
        let collective = variant.algorithm.collective;
        let takes_slots = variant.algorithm.smp_aware && !variant.domains;
        let shared = takes_slots && protocol == Protocol::Eager;
        let on_one_node = self.nodes == 1 && self.ranks > 1 && (shared || by_length(collective));
        // The flags of a barrier of more ranks stay in the cache, slots are used in turn.
        let pays = collective != Collective::Barrier || self.ranks <= 2;
        let annex_bytes = annex_bytes(self.ranks, self.rotating as usize);
        let form = || form(collective, (self.ranks, !self.has_cores), annex_bytes);
        (on_one_node && pays).then(form).flatten()
    }

    /// Longest block that goes by eager slots and their annexes where `variant` is chosen; `None` if none does.
    pub fn eager_bytes(&self, variant: Variant, protocol: Protocol) -> Option<u64> {
        let form = self.eager_form(variant, protocol)?;
        Some(form.longest() as u64)
    }

    /// How many channels an operation of `variant` on blocks of `bytes` takes, and the largest piece of a block that it
    /// moves at a time, as `piece` says of so many bytes of scratch: at most `most`.
    fn fit(
        &self,
        variant: Variant,
        bytes: u64,
        most: u64,
        piece: impl Fn(u64) -> u64,
    ) -> (u32, u64) {
        let share = self.rotating_share(variant.algorithm.collective);
        let share = share.unwrap_or(self.channel);
        let of_width = |width: u32| piece((share * u64::from(width)).min(most));
        fit(self.widths(variant), bytes, of_width)
    }

    /// As [`Scratch::fit`], with a schedule that uses `blocks` of scratch, in pieces as long as stages of a pipeline allow.
    pub(crate) fn fit_stages(
        &self,
        variant: Variant,
        bytes: u64,
        blocks: u32,
        piece: impl Fn(u64) -> u64,
    ) -> (u32, u64) {
        let stage = self.stage_bytes(variant.algorithm.collective, bytes);
        let most = stage.saturating_mul(blocks.max(1).into());
        self.fit(variant, bytes, most, piece)
    }

    /// As much of a block, or of a vector, as an operation moves at a time through scratch, with elements of a byte.
    pub fn piece_bytes(&self, variant: Variant, bytes: u64, blocks: u32) -> u64 {
        let piece = |scratch| self.piece_in(scratch, variant, bytes, blocks);
        self.fit_stages(variant, bytes, blocks, piece).1
    }

    /// The largest piece with which a schedule that uses `blocks` of scratch finds room in `scratch` bytes.
    fn piece_in(&self, scratch: u64, variant: Variant, bytes: u64, blocks: u32) -> u64 {
        cost::piece_bytes(variant.algorithm, self.ranks, bytes, blocks, scratch)
    }

    /// Where messages of `choice` land in blocks of `bytes`: what a node gathers on its way to user memory has to have
    /// room in scratch; where it has none all goes in pieces, through scratch. `blocks` is how many of scratch the
    /// schedule of the chosen protocol uses.
    pub fn settled_protocol(&self, choice: &Choice, bytes: u64, blocks: u32) -> Protocol {
        let variant = choice.variant;
        let piece = |scratch| self.piece_in(scratch, variant, bytes, blocks);
        let room = || self.fit(variant, bytes, u64::MAX, piece).1;
        match choice.protocol {
            Protocol::Rendezvous if blocks > 0 && room() < bytes => Protocol::Eager,
            protocol => protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::ChosenBy;
    use ferrorail_coll::named::variant;

    #[test]
    fn what_a_node_gathers_has_room_in_scratch_or_goes_in_pieces() {
        let choice = Choice {
            variant: variant(Collective::Gather, "smp_direct").unwrap(),
            protocol: Protocol::Rendezvous,
            by: ChosenBy::Forced,
            host: false,
        };
        let scratch = Scratch {
            ranks: 8,
            nodes: 4,
            has_cores: true,
            channel: 4096,
            rotating: 0,
        };
        let protocol = |bytes, blocks| scratch.settled_protocol(&choice, bytes, blocks);
        assert_eq!(protocol(2048, 2), Protocol::Rendezvous);
        assert_eq!(protocol(2049, 2), Protocol::Eager);
        assert_eq!(
            protocol(1 << 30, 0),
            Protocol::Rendezvous,
            "through no scratch"
        );
    }

    #[test]
    fn pieces_are_what_teams_on_one_node_move_at_a_time() {
        let of = |ranks, has_cores| Scratch::new(None, (ranks, 1), has_cores, true);
        let piece = |scratch: Scratch, collective, name, bytes, blocks| {
            let variant = variant(collective, name).unwrap();
            scratch.piece_bytes(variant, bytes, blocks)
        };
        let bcast = |scratch, bytes| piece(scratch, Collective::Bcast, "smp_knomial", bytes, 1);
        // Between ranks with cores a quarter, if that is not too short, and what a channel has at most.
        assert_eq!(bcast(of(2, true), 8 << 10), 8 << 10);
        assert_eq!(bcast(of(2, true), 64 << 10), 16 << 10);
        assert_eq!(bcast(of(2, true), 256 << 10), 64 << 10);
        assert_eq!(bcast(of(2, true), 16 << 20), 128 << 10);
        // Between ranks that share cores as much of the rotating scratch as may be.
        let shared = of(4, false);
        let share = shared.rotating_share(Collective::Bcast).unwrap();
        assert_eq!(bcast(shared, 64 << 20), share * u64::from(CHANNELS / 2));
        // Exchanges of few have four channels' scratch.
        let gathered = piece(of(2, true), Collective::Allgather, "direct", 1 << 20, 1);
        assert_eq!(gathered, u64::from(CHANNELS / 2) * (128 << 10));
        let eager = |scratch: Scratch, collective, name| {
            let variant = variant(collective, name).unwrap();
            scratch.eager_bytes(variant, Protocol::Eager)
        };
        assert_eq!(
            eager(of(2, true), Collective::Bcast, "smp_knomial"),
            Some(64 << 10)
        );
        assert_eq!(eager(of(2, true), Collective::Bcast, "knomial"), None);
        let domains = "smp_knomial:domains";
        assert_eq!(eager(of(2, true), Collective::Bcast, domains), None);
        assert_eq!(
            eager(of(3, true), Collective::Barrier, "smp_dissemination"),
            None
        );
        // An element of 2 KB has room in each of the vectors of 97 ranks that a domain's leader reduces.
        let reduced = |name| piece(of(192, true), Collective::Reduce, name, 8 << 10, 97);
        assert!(reduced("smp_knomial:domains") >= 2 << 10);
        assert!(reduced("smp_knomial") < 1 << 10);
        // What a user sets is what a channel has; between nodes only that.
        let set = Scratch::new(Some(32 << 10), (2, 1), true, true);
        assert_eq!(bcast(set, 1 << 20), 32 << 10);
        let apart = Scratch::new(None, (4, 2), true, true);
        assert_eq!(eager(apart, Collective::Bcast, "smp_knomial"), None);
        assert_eq!((apart.rotating, bcast(apart, 1 << 20)), (0, 64 << 10));
    }
}
