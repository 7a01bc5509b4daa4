//! `FERRORAIL_MULTICAST_FAULTS`: what befalls multicast datagrams on purpose.

use std::ops::Range;

/// Probabilities are in millionths of a datagram, so that settings compare exactly.
pub const CERTAIN: u32 = 1_000_000;

/// Faults of multicast, for tests of programs and of this library; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MulticastFaults {
    /// Probability that a receiver does not get a datagram, in millionths.
    pub drop: u32,
    /// Probability that a receiver gets it with a wrong bit, in millionths.
    pub corrupt: u32,
    /// Probability that a receiver gets it twice, in millionths.
    pub duplicate: u32,
    /// Probability that a receiver gets it after some that were sent later, in millionths.
    pub reorder: u32,
    /// Multicasts of a sender that get nowhere, by their number in its group, from 0.
    pub down: Vec<Range<u64>>,
    /// Start of the random numbers.
    pub seed: u64,
}

impl MulticastFaults {
    /// Whether nothing befalls any datagram.
    pub fn is_none(&self) -> bool {
        let random = [self.drop, self.corrupt, self.duplicate, self.reorder];
        random == [0; 4] && self.down.is_empty()
    }

    /// Whether multicast `number` of a sender gets nowhere.
    pub fn is_down(&self, number: u64) -> bool {
        self.down.iter().any(|range| range.contains(&number))
    }

    /// Reads e.g. `drop=0.01,corrupt=0.001,down=1000..2000,seed=7`; `down` may be given several times,
    /// and without its end lasts for ever.
    ///
    /// # Errors
    /// What is wrong with which part, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        let parts = text.split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` is not of the form fault=value"))?;
            let (name, value) = (name.trim(), value.trim());
            let probability = || {
                millionths(value).ok_or_else(|| {
                    format!(
                        "`{part}`: a probability is a decimal fraction from 0 to 1, such as 0.01"
                    )
                })
            };
            match name {
                "drop" => faults.drop = probability()?,
                "corrupt" => faults.corrupt = probability()?,
                "duplicate" => faults.duplicate = probability()?,
                "reorder" => faults.reorder = probability()?,
                "down" => faults.down.push(range(value).ok_or_else(|| {
                    format!(
                        "`{part}`: down takes numbers of multicasts, such as 1000..2000 or 1000.."
                    )
                })?),
                "seed" => {
                    let number = value.parse();
                    faults.seed =
                        number.map_err(|_| format!("`{part}`: a seed is a whole number"))?;
                }
                _ => {
                    let known = ["drop", "corrupt", "duplicate", "reorder", "down", "seed"];
                    let hint = super::parse::did_you_mean(name, known.into_iter());
                    return Err(format!("`{name}` is not one of {}{hint}", known.join(", ")));
                }
            }
        }
        Ok(faults)
    }
}

fn millionths(text: &str) -> Option<u32> {
    let fraction: f64 = text.parse().ok()?;
    let inside = (0.0..=1.0).contains(&fraction);
    inside.then(|| (fraction * f64::from(CERTAIN)).round() as u32)
}

fn range(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.split_once("..")?;
    let start = start.parse().ok()?;
    let end = match end {
        "" => u64::MAX,
        end => end.parse().ok()?,
    };
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read() {
        let text =
            "drop=0.01, corrupt=0.000001,duplicate=1,reorder=.5,down=1000..2000,down=5000..,seed=7";
        let faults = MulticastFaults::parse(text).unwrap();
        let expected = MulticastFaults {
            drop: 10_000,
            corrupt: 1,
            duplicate: CERTAIN,
            reorder: 500_000,
            down: vec![1000..2000, 5000..u64::MAX],
            seed: 7,
        };
        assert_eq!(faults, expected);
        let down = [999, 1000, 1999, 2000, 4999, 5000].map(|number| faults.is_down(number));
        assert_eq!(down, [false, true, true, false, false, true]);
        assert!(!faults.is_none());
    }

    #[test]
    fn nothing_is_no_fault() {
        for text in ["", " ", "seed=3", "drop=0,corrupt=0.0"] {
            assert!(MulticastFaults::parse(text).unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn mistakes_are_explained() {
        let hint = |text| MulticastFaults::parse(text).unwrap_err();
        assert_eq!(
            hint("dorp=0.1"),
            "`dorp` is not one of drop, corrupt, duplicate, reorder, down, seed; did you mean drop?"
        );
        assert_eq!(hint("drop"), "`drop` is not of the form fault=value");
        for text in [
            "drop=1%",
            "corrupt=1.5",
            "reorder=-0.1",
            "duplicate=NaN",
            "drop=",
        ] {
            assert!(
                hint(text).contains("a decimal fraction from 0 to 1"),
                "{text}"
            );
        }
        for text in ["down=7", "down=2..1", "down=..5", "down=a..b"] {
            assert!(hint(text).contains("such as 1000..2000"), "{text}");
        }
        assert_eq!(hint("seed=x"), "`seed=x`: a seed is a whole number");
    }
}
