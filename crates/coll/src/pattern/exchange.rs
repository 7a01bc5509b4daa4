//! Standard Exchange: recursive doubling with radix k + 1, for any size.
//!
//! The members are cut into `cores = radix^steps` contiguous teams, as even as can be; the first
//! member of each is its core, the others (at most k) are extras. Cores exchange digit by digit:
//! in step i the cores that differ only in digit i form a group of `radix`. Where size is a power
//! of the radix there are no extras. Otherwise extras hand in their block before and are handed the
//! result after; that suits reductions, where [`corrected`](super::corrected) serves all-gather.

use super::floor_log;
use crate::EvenParts;
use std::ops::Range;

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes part in the exchange, as this core.
    Core(u32),
    /// Hands its block to a core.
    Extra {
        /// Its core's index.
        core: u32,
        /// Port of the correction steps, below k.
        port: u8,
    },
}

/// One message of a core's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Port at both origins.
    pub port: u8,
    /// Core to send to.
    pub to: u32,
    /// Core to receive from, which uses the same port.
    pub from: u32,
}

/// The exchange of `size` members over k ports.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    size: u32,
    /// k + 1, or `size` where that is less (one step then does it).
    pub radix: u32,
    /// Number of exchange steps, correction steps apart.
    pub steps: u32,
    /// Number of cores: `radix^steps`.
    pub cores: u32,
}

impl Pattern {
    /// The pattern of `size` members, at least one.
    pub fn new(size: u32, ports: u8) -> Self {
        let radix = (u32::from(ports) + 1).min(size).max(2);
        let (steps, cores) = floor_log(size, radix);
        Self {
            size,
            radix,
            steps,
            cores,
        }
    }

    /// Whether correction steps are needed.
    pub fn has_extras(&self) -> bool {
        self.cores < self.size
    }

    /// Most extras of a core.
    pub fn extras_max(&self) -> u32 {
        self.size.div_ceil(self.cores) - 1
    }

    /// Rounds, with those in which extras hand in and are handed the result.
    pub fn rounds(&self) -> u32 {
        self.steps + if self.has_extras() { 2 } else { 0 }
    }

    /// Most messages that a core receives.
    pub fn arrivals(&self) -> u32 {
        self.extras_max() + self.steps * (self.radix - 1)
    }

    fn teams(&self) -> EvenParts {
        EvenParts {
            items: self.size,
            parts: self.cores,
        }
    }

    fn first(&self, core: u32) -> u32 {
        self.teams().range(core).start
    }

    /// The member that is `core`.
    pub fn member(&self, core: u32) -> u32 {
        self.first(core)
    }

    /// Members of `core`'s team, itself first.
    pub fn team(&self, core: u32) -> Range<u32> {
        self.teams().range(core)
    }

    /// What `member` is.
    pub fn role(&self, member: u32) -> Role {
        let core = self.teams().part_of(member);
        match member - self.first(core) {
            0 => Role::Core(core),
            index => Role::Extra {
                core,
                port: (index - 1) as u8,
            },
        }
    }

    /// Members whose blocks `core` holds before `step`.
    pub fn held(&self, core: u32, step: u32) -> Range<u32> {
        let stride = self.radix.pow(step);
        let first = core - core % stride;
        self.first(first)..self.first(first + stride)
    }

    /// Messages of `core` in `step`.
    pub fn step(&self, core: u32, step: u32) -> impl Iterator<Item = Exchange> + use<> {
        let (radix, stride) = (self.radix, self.radix.pow(step));
        let digit = core / stride % radix;
        let base = core - digit * stride;
        (1..radix).map(move |offset| Exchange {
            port: (offset - 1) as u8,
            to: base + (digit + offset) % radix * stride,
            from: base + (digit + radix - offset) % radix * stride,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn teams_partition_the_members_and_roles_agree() {
        for size in 1..=300u32 {
            for ports in 1..=8u8 {
                let pattern = Pattern::new(size, ports);
                let mut next = 0;
                for core in 0..pattern.cores {
                    let team = pattern.team(core);
                    assert_eq!(team.start, next);
                    assert!(!team.is_empty() && team.len() <= usize::from(ports) + 1);
                    next = team.end;
                    assert_eq!(pattern.role(team.start), Role::Core(core));
                    for (port, member) in (team.start + 1..team.end).enumerate() {
                        let port = port as u8;
                        assert_eq!(pattern.role(member), Role::Extra { core, port });
                    }
                }
                assert_eq!(next, size);
            }
        }
    }

    #[test]
    fn cores_hold_everything_after_the_last_step() {
        for size in 1..=200u32 {
            for ports in 1..=8u8 {
                let pattern = Pattern::new(size, ports);
                for core in 0..pattern.cores {
                    for step in 0..pattern.steps {
                        let mut ranges = vec![pattern.held(core, step)];
                        for exchange in pattern.step(core, step) {
                            assert!(exchange.port < ports);
                            let theirs = pattern.step(exchange.to, step);
                            let theirs: Vec<_> =
                                theirs.filter(|e| e.port == exchange.port).collect();
                            assert_eq!(theirs[0].from, core);
                            ranges.push(pattern.held(exchange.from, step));
                        }
                        ranges.sort_by_key(|range| range.start);
                        assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
                        let whole = ranges[0].start..ranges[ranges.len() - 1].end;
                        assert_eq!(whole, pattern.held(core, step + 1));
                    }
                    assert_eq!(pattern.held(core, pattern.steps), 0..size);
                }
            }
        }
    }
}
