//! Data rates of ports and of the slots that devices sit in, in MB/s.

/// Data rate of a port from the codes of its speed and width (InfiniBand specification, volume 1,
/// section 14.2.5.6; RoCE ports use the same codes), line coding taken off. 0 if unknown.
///
/// 8b/10b coding is that of InfiniBand below FDR; 10, 20 and 40 Gb/s Ethernet go by the same codes
/// at their full rates.
pub fn port_mb_s(speed: u32, width: u8, ethernet: bool) -> u64 {
    let lane_mbit_s = match (speed, ethernet) {
        (1, true) => 2_500,
        (1, false) => 2_000,
        (2, true) => 5_000,
        (2, false) => 4_000,
        (4, false) => 8_000,
        (4 | 8, _) => 10_000, // QDR and FDR10
        (16, _) => 13_636,    // FDR
        (32, _) => 25_000,    // EDR
        (64, _) => 50_000,    // HDR
        (128, _) => 100_000,  // NDR
        (256, _) => 200_000,  // XDR
        _ => 0,
    };
    let lanes = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    };
    lane_mbit_s * lanes / 8
}

/// Data rate from the kernel's words for it, e.g. `800 Gb/sec (4X XDR)` or `2.5 Gb/sec (1X SDR)`:
/// of ports whose speed has no code in this build's or the host's libibverbs.
pub fn rate_mb_s(words: &str) -> u64 {
    let mut words = words.split_whitespace();
    match (
        words.next().and_then(|rate| rate.parse::<f64>().ok()),
        words.next(),
    ) {
        (Some(rate), Some("Gb/sec")) => (rate * 1000.0 / 8.0) as u64,
        _ => 0,
    }
}

/// Data rate of a PCI Express slot in one direction, from what the kernel says of its link, e.g.
/// `16.0 GT/s PCIe` and `16`. 0 if unknown.
pub fn slot_mb_s(speed: &str, width: &str) -> u64 {
    let transfers: f64 = match speed.split_whitespace().next().map(str::parse) {
        Some(Ok(transfers)) => transfers,
        _ => return 0,
    };
    // 8b/10b up to the second generation, 128b/130b and about as much since.
    let coding = if transfers < 8.0 { 0.8 } else { 128.0 / 130.0 };
    let lanes: f64 = width.trim().parse().unwrap_or(0.0);
    (transfers * coding * lanes * 1000.0 / 8.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_all_generations() {
        let four_lanes = |speed, ethernet| port_mb_s(speed, 2, ethernet);
        let infiniband: Vec<u64> = [1, 2, 4, 8, 16, 32, 64, 128, 256]
            .into_iter()
            .map(|speed| four_lanes(speed, false))
            .collect();
        let expected = [
            1_000, 2_000, 4_000, 5_000, 6_818, 12_500, 25_000, 50_000, 100_000,
        ];
        assert_eq!(infiniband, expected);
        assert_eq!(four_lanes(4, true), 5_000, "40 Gb/s Ethernet");
        assert_eq!(four_lanes(32, true), 12_500, "100 Gb/s Ethernet");
        assert_eq!(port_mb_s(32, 1, true), 3_125, "25 Gb/s Ethernet");
        assert_eq!(port_mb_s(128, 16, false), 25_000, "2x NDR is NDR200");
        assert_eq!(port_mb_s(64, 4, false), 50_000, "8x");
        assert_eq!(port_mb_s(64, 8, false), 75_000, "12x");
        assert_eq!((port_mb_s(0, 1, true), port_mb_s(4, 3, true)), (0, 0));
    }

    #[test]
    fn the_kernels_words() {
        assert_eq!(rate_mb_s("800 Gb/sec (4X XDR)\n"), 100_000);
        assert_eq!(rate_mb_s("2.5 Gb/sec (1X SDR)"), 312);
        assert_eq!((rate_mb_s(""), rate_mb_s("Unknown")), (0, 0));
    }

    #[test]
    fn slots_of_all_generations() {
        assert_eq!(slot_mb_s("8.0 GT/s PCIe\n", "16\n"), 15_753);
        assert_eq!(slot_mb_s("16.0 GT/s PCIe", "16"), 31_507);
        assert_eq!(slot_mb_s("5 GT/s", "8"), 4_000);
        assert_eq!(
            (slot_mb_s("Unknown", "16"), slot_mb_s("8.0 GT/s", "")),
            (0, 0)
        );
    }
}
