//! Which loopback rails a process opens.

use ferrorail_base::config::{RailChoice, Settings};
use ferrorail_fabric::{FabricError, RAILS_MAX, RailInfo};

/// Rails where `FERRORAIL_RAILS` leaves the number open: enough to exercise striping.
const RAILS_AUTO: usize = 2;

const PREFIX: &str = "loop";

/// The rails that `settings` asks for, and why some of those are not there: a name that is none of
/// `loop0` to `loop7` is refused, and the job goes on with the others.
///
/// # Errors
/// [`FabricError::NoRails`] if none is left.
pub(super) fn choose(settings: &Settings) -> Result<(Vec<RailInfo>, Vec<String>), FabricError> {
    let mut refused = Vec::new();
    let picks = match &settings.rails {
        RailChoice::Auto => first(RAILS_AUTO),
        RailChoice::Count(count) => first(usize::from(*count)),
        RailChoice::Names(names) => known(names, &mut refused),
    };
    if picks.is_empty() {
        return Err(FabricError::NoRails {
            reason: format!(
                "FERRORAIL_RAILS names no loopback rail; those are {PREFIX}0 to {PREFIX}{}",
                RAILS_MAX - 1
            ),
        });
    }
    let rail = |Pick { number, plane }| RailInfo {
        name: format!("{PREFIX}{number}"),
        device: PREFIX.into(),
        port: 0,
        plane: plane as u8,
        address: String::new(),
        bandwidth_mb_s: bandwidth_mb_s(settings, plane),
        mtu_bytes: 0,
        numa_node: numa_node(settings, plane),
    };
    Ok((picks.into_iter().map(rail).collect(), refused))
}

/// Modelled bandwidth of the rail of `plane`, 0 if it is unlimited.
fn bandwidth_mb_s(settings: &Settings, plane: usize) -> u64 {
    let given = &settings.loopback_bandwidths_mb_s;
    given.get(plane).or(given.last()).copied().unwrap_or(0)
}

/// NUMA node that the rail of `plane` pretends to be on.
fn numa_node(settings: &Settings, plane: usize) -> Option<u32> {
    let given = settings.loopback_numa.get(plane)?;
    u32::try_from(*given).ok()
}

/// Rail `loop<number>`, on the plane of its position in the setting.
#[derive(Clone, Copy, Debug)]
struct Pick {
    number: usize,
    plane: usize,
}

fn first(count: usize) -> Vec<Pick> {
    let pick = |number| Pick {
        number,
        plane: number,
    };
    (0..count.min(RAILS_MAX)).map(pick).collect()
}

fn known(names: &[String], refused: &mut Vec<String>) -> Vec<Pick> {
    let mut picks: Vec<Pick> = Vec::new();
    for (plane, name) in names.iter().enumerate() {
        match number(name) {
            _ if plane >= RAILS_MAX => {
                refused.push(format!(
                    "FERRORAIL_RAILS: {name} is beyond {RAILS_MAX} rails"
                ));
            }
            Some(number) if picks.iter().any(|pick| pick.number == number) => {
                refused.push(format!("FERRORAIL_RAILS: {name} is named twice"));
            }
            Some(number) => picks.push(Pick { number, plane }),
            None => refused.push(format!(
                "FERRORAIL_RAILS: no loopback rail {name}, going on without it"
            )),
        }
    }
    picks
}

fn number(name: &str) -> Option<usize> {
    (0..RAILS_MAX).find(|number| name == format!("{PREFIX}{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(rails: RailChoice) -> Result<Vec<(String, u8)>, FabricError> {
        let settings = Settings {
            rails,
            ..Settings::default()
        };
        let (rails, _) = choose(&settings)?;
        Ok(rails
            .into_iter()
            .map(|rail| (rail.name, rail.plane))
            .collect())
    }

    #[test]
    fn counts_and_names() {
        let expect = |rails, expected: &[(&str, u8)]| {
            let found = names(rails).unwrap();
            let found: Vec<_> = found
                .iter()
                .map(|(name, plane)| (&**name, *plane))
                .collect();
            assert_eq!(found, expected);
        };
        expect(RailChoice::Auto, &[("loop0", 0), ("loop1", 1)]);
        expect(RailChoice::Count(1), &[("loop0", 0)]);
        let mixed = ["loop7", "mlx5_0", "loop8", "loop0", "loop7"].map(str::to_owned);
        expect(
            RailChoice::Names(mixed.into()),
            &[("loop7", 0), ("loop0", 3)],
        );
        let many = (0..9).map(|i| format!("loop{}", i % 8)).collect();
        assert_eq!(names(RailChoice::Names(many)).unwrap().len(), 8);
    }

    #[test]
    fn what_is_refused_is_said() {
        let settings = Settings {
            rails: RailChoice::Names(vec!["loop0".into(), "nonsense".into(), "loop0".into()]),
            ..Settings::default()
        };
        let (_, refused) = choose(&settings).unwrap();
        let expected = [
            "FERRORAIL_RAILS: no loopback rail nonsense, going on without it",
            "FERRORAIL_RAILS: loop0 is named twice",
        ];
        assert_eq!(refused, expected);
    }

    #[test]
    fn no_rail_at_all_is_an_error_that_says_what_to_set() {
        let error = names(RailChoice::Names(vec!["rxe0".into()])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no usable rail: FERRORAIL_RAILS names no loopback rail; those are loop0 to loop7"
        );
    }
}
