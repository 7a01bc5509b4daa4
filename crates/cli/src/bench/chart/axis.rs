//! Axes: where a value lies between both ends, and what stands beside the lines of the grid.

use ferrorail_base::units::format_bytes;

/// Lines of the grid across at most.
const TICKS_MAX: usize = 11;

/// One axis.
pub struct Axis {
    /// Both ends, as they lie on the axis.
    ends: (f64, f64),
    is_logarithmic: bool,
    /// What is taken for 0 on a logarithmic axis.
    nothing: f64,
    ticks: Vec<(f64, String)>,
}

/// Least and greatest; 1 and 1 without any.
fn range(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match least <= greatest {
        true => (least, greatest),
        false => (1.0, 1.0),
    }
}

impl Axis {
    /// Of sizes: powers of two.
    pub fn bytes(values: &[f64]) -> Self {
        let positive: Vec<f64> = values.iter().copied().filter(|x| *x > 0.0).collect();
        let (least, greatest) = range(&positive);
        let powers = || (0..=40).map(|power| 2f64.powi(power));
        let inside: Vec<f64> = powers().filter(|x| least <= *x && *x <= greatest).collect();
        let step = inside.len().div_ceil(TICKS_MAX).max(1);
        let ticks = inside.into_iter().step_by(step);
        Self {
            ends: padded(least.log2(), greatest.log2()),
            is_logarithmic: true,
            nothing: 0.0,
            ticks: ticks.map(|x| (x, format_bytes(x as u64))).collect(),
        }
    }

    /// Of few numbers, each of which gets its line: logarithmic where they are spread.
    pub fn of_values(values: &[f64]) -> Self {
        let mut ticks = values.to_vec();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let positive: Vec<f64> = ticks.iter().copied().filter(|x| *x > 0.0).collect();
        let (first, greatest) = range(&positive);
        // Nothing is as far from the first as that from its half.
        let least = match ticks.first() {
            Some(0.0) => first / 2.0,
            _ => range(&ticks).0,
        };
        let is_logarithmic = least > 0.0 && greatest / least > 4.0;
        let (least, nothing) = match is_logarithmic {
            true => (least, least),
            false => (range(&ticks).0, 0.0),
        };
        let step = ticks.len().div_ceil(TICKS_MAX).max(1);
        let ends = match is_logarithmic {
            true => padded(least.log2(), greatest.log2()),
            false => padded(least, greatest),
        };
        let ticks = ticks.into_iter().step_by(step);
        Self {
            ends,
            is_logarithmic,
            nothing,
            ticks: ticks.map(|x| (x, format!("{x}"))).collect(),
        }
    }

    /// Of names, one after another.
    pub fn of_parts(names: &[&str]) -> Self {
        let names = names.iter().enumerate();
        let ticks: Vec<_> = names
            .map(|(x, name)| (x as f64, (*name).to_owned()))
            .collect();
        Self {
            ends: (-0.5, ticks.len() as f64 - 0.5),
            is_logarithmic: false,
            nothing: 0.0,
            ticks,
        }
    }

    /// Of measured values; linear if some are not above 0.
    pub fn logarithmic(values: &[f64]) -> Self {
        let (least, greatest) = range(values);
        if least <= 0.0 {
            let step = 10f64.powf((greatest - least).max(1e-9).log10().floor());
            let first = (least / step).floor() as i64;
            let last = (greatest / step).ceil() as i64;
            let ticks = (first..=last).map(|at| at as f64 * step);
            return Self {
                ends: (first as f64 * step, last.max(first + 1) as f64 * step),
                is_logarithmic: false,
                nothing: 0.0,
                ticks: ticks.map(|y| (y, number(y))).collect(),
            };
        }
        let (low, high) = padded(least.log2(), greatest.log2());
        let factors: &[f64] = match high - low {
            span if span < 7.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let powers = (-9..=12).map(|power| 10f64.powi(power));
        let marks = powers.flat_map(|power| factors.iter().map(move |factor| factor * power));
        let inside = marks.filter(|y| low <= y.log2() && y.log2() <= high);
        Self {
            ends: (low, high),
            is_logarithmic: true,
            nothing: 0.0,
            ticks: inside.map(|y| (y, number(y))).collect(),
        }
    }

    /// Lines of the grid.
    pub fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }

    /// 0 at the one end, 1 at the other.
    pub fn place(&self, value: f64) -> f64 {
        let value = match self.is_logarithmic {
            true => value.max(self.nothing).max(f64::MIN_POSITIVE).log2(),
            false => value,
        };
        ((value - self.ends.0) / (self.ends.1 - self.ends.0)).clamp(0.0, 1.0)
    }
}

/// A little more than from `low` to `high`.
fn padded(low: f64, high: f64) -> (f64, f64) {
    let more = ((high - low) * 0.04).max(0.1);
    (low - more, high + more)
}

fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1e6 => format!("{}M", value / 1e6),
        large if large >= 1e4 => format!("{}k", value / 1e3),
        _ => format!("{}", (value * 1e6).round() / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let texts = |axis: &Axis| -> Vec<String> {
            axis.ticks().iter().map(|(_, text)| text.clone()).collect()
        };
        let sizes = Axis::bytes(&[4.0, 64.0, 1024.0]);
        assert_eq!(
            texts(&sizes),
            ["4", "8", "16", "32", "64", "128", "256", "512", "1K"]
        );
        assert!(sizes.place(4.0) < sizes.place(64.0) && sizes.place(64.0) < sizes.place(1024.0));
        let times = Axis::logarithmic(&[3.0, 40_000.0]);
        assert_eq!(texts(&times), ["10", "100", "1000", "10k"]);
        assert_eq!(texts(&Axis::logarithmic(&[0.9, 4.0])), ["1", "2"]);
        let signed = Axis::logarithmic(&[-3.0, 40.0]);
        assert_eq!(texts(&signed), ["-10", "0", "10", "20", "30", "40"]);
        assert_eq!(texts(&Axis::of_values(&[2.0, 1.0, 2.0])), ["1", "2"]);
        let loops = Axis::of_values(&[0.0, 1.0, 4.0, 16.0]);
        assert_eq!(texts(&loops), ["0", "1", "4", "16"]);
        let apart = loops.place(1.0) - loops.place(0.0);
        assert!(apart > 0.1 && loops.place(0.0) > 0.0, "{apart}");
        assert_eq!(texts(&Axis::of_parts(&["a", "b"])), ["a", "b"]);
        assert!(Axis::logarithmic(&[]).place(1.0).is_finite());
    }
}
