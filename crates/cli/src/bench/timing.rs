//! What the numbers of a benchmark mean, and how many are taken.

use anyhow::Result;
use ferrorail_base::random::SplitMix64;
use ferrorail_mpi_abi::{Comm, Host};
use std::time::Duration;

const ITERATIONS_MAX: u32 = 20_000;
const BLOCKS_MIN: u32 = 3;
/// Blocks that warm an implementation up, and most calls of one.
const WARM_UPS: u32 = 3;
const WARM_UP: u32 = 10;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time for one cell, all implementations together.
    pub budget: Duration,
    /// Calls per block; `None` for what fits into the budget.
    pub iterations: Option<u32>,
    /// Most blocks per implementation.
    pub blocks: u32,
}

impl Limits {
    /// Blocks per implementation and calls per block that fit into the budget. `block` runs so many
    /// calls of one of `implementations`, which warms it up; what it says is the same at every rank.
    fn amount(
        &self,
        implementations: usize,
        block: &mut impl FnMut(usize, u32) -> Result<Block>,
    ) -> Result<(u32, u32)> {
        let budget_us = self.budget.as_secs_f64() * 1e6;
        let share_us = budget_us / 10.0 / f64::from(WARM_UPS) / implementations as f64;
        let mut round_us = f64::MIN_POSITIVE;
        for index in 0..implementations {
            // The first calls connect ranks, which may take longer than all the others together.
            let mut call_us = block(index, 1)?.elapsed_us;
            for _ in 0..WARM_UPS {
                let affordable = (share_us / call_us.max(0.01)) as u32;
                let block = block(index, affordable.clamp(1, WARM_UP))?;
                call_us = call_us.min(block.elapsed_us);
            }
            round_us += call_us;
        }
        let rounds = budget_us / round_us;
        let blocks = (rounds as u32).clamp(BLOCKS_MIN.min(self.blocks), self.blocks);
        let fitting = (rounds / f64::from(blocks)) as u32;
        let fitting = fitting.clamp(1, ITERATIONS_MAX);
        Ok(match self.iterations {
            Some(iterations) => (self.blocks, iterations),
            None => (blocks, fitting),
        })
    }

    /// Blocks of each of `implementations`, by turns in an order that changes, and calls per block. `block` runs so many calls of one of
    /// them, and says the same at every rank.
    pub fn measure(
        &self,
        implementations: usize,
        mut block: impl FnMut(usize, u32) -> Result<Block>,
    ) -> Result<(Vec<Timing>, u32)> {
        let (blocks, iterations) = self.amount(implementations, &mut block)?;
        let mut timings = vec![Timing::default(); implementations];
        let mut order: Vec<usize> = (0..implementations).collect();
        // Alike on all ranks.
        let mut random = SplitMix64(implementations as u64);
        for _ in 0..blocks {
            // What ran before leaves its things in the caches: nobody always follows the same one.
            shuffle(&mut order, &mut random);
            for &index in &order {
                let block = block(index, iterations)?;
                let timing: &mut Timing = &mut timings[index];
                timing.blocks_us.push(block.value);
                timing.lost += block.lost;
            }
        }
        Ok((timings, iterations))
    }
}

fn shuffle(order: &mut [usize], random: &mut SplitMix64) {
    for last in (1..order.len()).rev() {
        let other = random.draw() % (last as u64 + 1);
        order.swap(last, other as usize);
    }
}

/// What came of one block of iterations.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// What is shown of it.
    pub value: f64,
    /// µs that an iteration took.
    pub elapsed_us: f64,
    /// Datagrams that ranks did not receive.
    pub lost: u64,
}

impl Block {
    /// Of which the time is shown, and that lost nothing.
    pub fn of(us: f64) -> Self {
        Self {
            value: us,
            elapsed_us: us,
            lost: 0,
        }
    }
}

/// Blocks of iterations of one implementation at one size.
///
/// A block's value is the time per iteration of its slowest rank, in µs. Blocks of the compared
/// implementations alternate, so that a disturbance of the machine hits all alike.
#[derive(Clone, Debug, Default)]
pub struct Timing {
    /// In the order measured.
    pub blocks_us: Vec<f64>,
    /// Datagrams that ranks did not receive in any of them.
    pub lost: u64,
}

#[cfg(test)]
impl Timing {
    /// Of blocks that took so long.
    pub fn of(blocks_us: &[f64]) -> Self {
        Self {
            blocks_us: blocks_us.to_vec(),
            lost: 0,
        }
    }
}

impl Timing {
    /// Of iterations that are each `factor` times what was measured.
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            blocks_us: self.blocks_us.iter().map(|us| us * factor).collect(),
            ..*self
        }
    }

    /// Half of the blocks took no longer; the mean of the two middle ones if their count is even.
    pub fn median_us(&self) -> f64 {
        let mut sorted = self.blocks_us.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            count if count % 2 == 1 => sorted[count / 2],
            count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
        }
    }

    /// The undisturbed time, as far as one was seen.
    pub fn min_us(&self) -> f64 {
        self.blocks_us.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Numbers of all ranks of `comm`, by rank. Collective.
pub fn everybodys<const N: usize>(
    host: &Host,
    comm: Comm,
    mine: [f64; N],
) -> Result<Vec<[f64; N]>> {
    let mine: Vec<u8> = mine.into_iter().flat_map(f64::to_ne_bytes).collect();
    let mut all = vec![0; mine.len() * host.comm_size(comm)? as usize];
    host.allgather_bytes(&mine, &mut all, comm)?;
    let numbers = all.as_chunks::<8>().0.iter();
    let numbers: Vec<f64> = numbers.map(|&bytes| f64::from_ne_bytes(bytes)).collect();
    Ok(numbers.as_chunks::<N>().0.to_vec())
}

/// The largest of the numbers of all ranks of `comm`. Collective.
pub fn largest(host: &Host, comm: Comm, mine: f64) -> Result<f64> {
    let all = everybodys(host, comm, [mine])?;
    Ok(all.into_iter().map(|[number]| number).fold(0.0, f64::max))
}

/// Geometric means of ratios.
pub struct Means {
    /// Of all; `None` without any.
    pub all: Option<f64>,
    /// Of those with the same name, in the order in which names first come.
    pub by_name: Vec<(String, Option<f64>)>,
}

impl Means {
    /// Of what has names; what does not count has no ratio.
    pub fn of(rows: impl Iterator<Item = (String, Option<f64>)>) -> Self {
        let rows: Vec<_> = rows.collect();
        let mut names: Vec<&String> = Vec::new();
        for (name, _) in &rows {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let of_name = |name: &String| {
            let alike = rows.iter().filter(|(other, _)| other == name);
            (name.clone(), geometric_mean(alike.filter_map(|row| row.1)))
        };
        Self {
            all: geometric_mean(rows.iter().filter_map(|row| row.1)),
            by_name: names.into_iter().map(of_name).collect(),
        }
    }
}

/// None without any.
pub fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = ratios.map(f64::ln).collect();
    let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
    (!logarithms.is_empty()).then(|| mean.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_first_calls_do_not_shorten_blocks() {
        let limits = Limits {
            budget: Duration::from_millis(300),
            iterations: None,
            blocks: 10,
        };
        let mut calls = [0; 2];
        let (blocks, iterations) = limits
            .amount(2, &mut |index, iterations| {
                calls[index] += iterations;
                let connecting = calls[index] <= 2;
                Ok(Block::of(if connecting { 50_000.0 } else { 100.0 }))
            })
            .unwrap();
        assert_eq!((blocks, iterations), (10, 150));
        assert!(calls.iter().all(|&calls| calls <= 3 * WARM_UP));
    }

    #[test]
    fn all_have_their_turn_behind_all_others() {
        let limits = Limits {
            budget: Duration::from_millis(1),
            iterations: Some(1),
            blocks: 50,
        };
        let mut turns = Vec::new();
        let (timings, _) = limits
            .measure(3, |index, _| {
                turns.push(index);
                Ok(Block::of(1.0))
            })
            .unwrap();
        assert!(timings.iter().all(|timing| timing.blocks_us.len() == 50));
        let turns = &turns[turns.len() - 150..];
        for (one, other) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
            assert!(turns.windows(2).any(|pair| pair == [one, other]));
        }
    }

    #[test]
    fn median_and_minimum() {
        assert_eq!(Timing::of(&[3.0, 1.0, 9.0]).median_us(), 3.0);
        assert_eq!(Timing::of(&[3.0, 1.0, 9.0, 4.0]).median_us(), 3.5);
        assert_eq!(Timing::of(&[3.0, 1.0, 9.0]).min_us(), 1.0);
        assert!(Timing::of(&[]).median_us().is_nan());
    }
}
