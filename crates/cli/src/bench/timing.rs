//! What the numbers of a benchmark mean.

/// Blocks of iterations of one implementation at one size.
///
/// A block's value is the time per iteration of its slowest rank, in µs. Blocks of the compared
/// implementations alternate, so that a disturbance of the machine hits all alike.
#[derive(Clone, Debug, Default)]
pub struct Timing {
    /// In the order measured.
    pub blocks_us: Vec<f64>,
}

impl Timing {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_minimum() {
        let timing = |blocks_us: &[f64]| Timing {
            blocks_us: blocks_us.to_vec(),
        };
        assert_eq!(timing(&[3.0, 1.0, 9.0]).median_us(), 3.0);
        assert_eq!(timing(&[3.0, 1.0, 9.0, 4.0]).median_us(), 3.5);
        assert_eq!(timing(&[3.0, 1.0, 9.0]).min_us(), 1.0);
        assert!(timing(&[]).median_us().is_nan());
    }
}
