//! Message sizes as options: `4:1M`, `8,64,1K`, `0,8:64`, `4:1M:4`.

use ferrorail_base::units::parse_bytes;

/// Largest size; counts of MPI calls are of 31 bits.
const BYTES_MAX: usize = 1 << 30;

/// Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<usize>);

/// Reads a list of sizes and ranges `first:last`, which double, or `first:last:factor`.
pub fn parse(text: &str) -> Result<Sizes, String> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        let Some((first, last)) = part.split_once(':') else {
            sizes.push(size(part)?);
            continue;
        };
        let (last, factor) = last.split_once(':').unwrap_or((last, "2"));
        let (first, last) = (size(first)?, size(last)?);
        let factor: usize = factor.parse().unwrap_or(0);
        if first == 0 || first > last || factor < 2 {
            let reason = "a range goes from its first size, above 0, up to its last by a factor of \
                          2 or more";
            return Err(reason.into());
        }
        let growing = std::iter::successors(Some(first), |bytes| bytes.checked_mul(factor));
        sizes.extend(growing.take_while(|&bytes| bytes <= last));
    }
    Ok(Sizes(sizes))
}

fn size(text: &str) -> Result<usize, String> {
    match parse_bytes(text).and_then(|bytes| usize::try_from(bytes).ok()) {
        Some(bytes) if bytes <= BYTES_MAX => Ok(bytes),
        Some(_) => Err(format!("{text} is more than 1G")),
        None => Err(format!("{text:?} is not a size such as 64, 4K or 1M")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_lists_are_read() {
        assert_eq!(parse("4:64").unwrap().0, [4, 8, 16, 32, 64]);
        assert_eq!(parse("3:10").unwrap().0, [3, 6]);
        assert_eq!(parse("512K:1M").unwrap().0, [1 << 19, 1 << 20]);
        assert_eq!(parse("0,7,1K").unwrap().0, [0, 7, 1024]);
        assert_eq!(parse("4:100:4").unwrap().0, [4, 16, 64]);
        assert_eq!(parse("0,8:32").unwrap().0, [0, 8, 16, 32]);
        for wrong in ["", "x", "0:8", "8:4", "2G", "8,", "1:2:1", "1:2:3:4"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
