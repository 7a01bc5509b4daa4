//! Of the test list, and of the real one.

use super::*;

const LIST: &str = "[values]\nalgorithms = ['allgather=ring', 'allgather=bruck']\n\
    [[row]]\nname = 'a'\ngroup = 'loopback'\nprogram = 'c/a.c'\nmpi = ['openmpi', 'abi']\n\
    ranks = [1, 4]\nset = { FERRORAIL_RAILS = '2' }\n\
    vary = { FERRORAIL_ALGORITHM = '@algorithms', FERRORAIL_NODE_SIZE = ['0', '2', '8'] }\n";

fn real_cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("list");
    expand(&read(&folder).unwrap(), Extent::List, 0).unwrap()
}

#[test]
fn rows_are_multiplied_out() {
    let cases = expand(&parse(LIST).unwrap(), Extent::List, 0).unwrap();
    // Per MPI and algorithm: one shape of 1 rank, two of 4 (8 per node is one node, as is 0).
    assert_eq!(cases.len(), 2 * 2 * (1 + 2));
    let case = cases
        .iter()
        .find(|case| case.name == "a/abi/n4/algorithm=bruck/node_size=2")
        .unwrap();
    assert_eq!(case.environment["FERRORAIL_RAILS"], "2");
    assert_eq!(case.environment["FERRORAIL_ALGORITHM"], "allgather=bruck");
    assert!(case.expect.taken && case.expect.forwarded.is_empty());
}

#[test]
fn rounds_of_one_job_are_multiplied_out() {
    let list = LIST.replace("vary", "each");
    let cases = expand(&parse(&list).unwrap(), Extent::List, 0).unwrap();
    assert_eq!(cases.len(), 2 * 2);
    let case = cases.iter().find(|case| case.name == "a/abi/n4").unwrap();
    assert_eq!(case.rounds.len(), 2 * 2);
    assert_eq!(case.names()[1], "a/abi/n4/algorithm=ring/node_size=2");
    assert_eq!(case.settings()[1]["FERRORAIL_RAILS"], "2");
    assert_eq!(
        case.rounds_for_the_program().unwrap(),
        "ferrorail_algorithm=allgather=ring ferrorail_node_size=0;\
         ferrorail_algorithm=allgather=ring ferrorail_node_size=2;\
         ferrorail_algorithm=allgather=bruck ferrorail_node_size=0;\
         ferrorail_algorithm=allgather=bruck ferrorail_node_size=2"
    );
    let one = cases.iter().find(|case| case.name == "a/abi/n1").unwrap();
    assert_eq!(one.rounds.len(), 2);
    let names = |extent| -> Vec<String> {
        let cases = expand(&parse(&list).unwrap(), extent, 0).unwrap();
        let mut names: Vec<_> = cases.iter().flat_map(Case::names).collect();
        names.sort();
        names
    };
    assert_eq!(names(Extent::List), names(Extent::All));
}

#[test]
fn mistakes_are_reported() {
    assert!(parse("[[row]]\nname = 'a'\n").is_err());
    assert!(parse("[[rows]]\n").is_err());
    let unknown = LIST.replace("@algorithms", "@algorithm");
    assert!(expand(&parse(&unknown).unwrap(), Extent::List, 0).is_err());
    let twice = format!("{LIST}{}", &LIST[LIST.find("[[row]]").unwrap()..]);
    assert!(expand(&parse(&twice).unwrap(), Extent::List, 0).is_err());
}

#[test]
fn the_real_list_is_sound() {
    let cases = real_cases();
    assert!(cases.iter().any(|case| case.group == "verbs"));
    for case in cases {
        let several = case.group == "nodes";
        assert_eq!(case.hosts > 1, several, "{}", case.name);
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(&case.program);
        assert!(source.is_file(), "{}: no {}", case.name, case.program);
    }
}

#[test]
fn the_smoke_test_is_short_and_runs_on_both_hosts() {
    let list = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("list")).unwrap();
    let cases = expand(&list.smoke(), Extent::List, 0).unwrap();
    for mpi in [Mpi::Open, Mpi::Mpich] {
        let of_it = cases.iter().filter(|case| case.mpi == mpi).count();
        assert!((8..=16).contains(&of_it), "{of_it} jobs under {mpi}");
    }
}

/// Each algorithm that exists is forced, on loopback and on verbs.
#[test]
fn the_real_list_forces_every_algorithm() {
    use ferrorail_coll::algorithms;
    let cases = real_cases();
    for &collective in ferrorail_engine::OFFERED {
        for algorithm in algorithms(collective) {
            let setting = format!("{}={}", collective.name(), algorithm.name);
            for group in ["loopback", "verbs"] {
                let forced = cases.iter().any(|case| {
                    let forces = |settings: &Environment| {
                        let value = settings.get("FERRORAIL_ALGORITHM");
                        value.is_some_and(|all| all.split(',').any(|one| one == setting))
                    };
                    case.group == group && case.ranks > 4 && case.settings().iter().any(forces)
                });
                assert!(
                    forced,
                    "no {group} case of more than 4 ranks forces {setting}"
                );
            }
        }
    }
}

#[test]
fn a_sample_has_each_row() {
    let list = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("list")).unwrap();
    let names = |cases: &[Case]| -> Vec<String> { cases.iter().flat_map(Case::names).collect() };
    let all: BTreeSet<_> = names(&real_cases()).into_iter().collect();
    let sampled = |seed| expand(&list, Extent::Sample, seed).unwrap();
    let (one, other) = (sampled(1), sampled(2));
    assert_eq!(names(&one), names(&sampled(1)));
    assert_ne!(names(&one), names(&other));
    for sample in [one, other] {
        assert!(sample.len() < real_cases().len() / 2);
        assert!(names(&sample).iter().all(|name| all.contains(name)));
        for row in list
            .row
            .iter()
            .filter(|row| !row.larger && row.one_of.is_none())
        {
            let of_row =
                |case: &&Case| case.program == row.program && case.name.starts_with(&row.name);
            let each_mpi = row.every.iter().any(|name| name == "mpi");
            let wanted = if each_mpi { row.mpi.len() } else { 1 };
            assert!(
                sample.iter().filter(of_row).count() >= wanted,
                "{}",
                row.name
            );
        }
    }
}

#[test]
fn a_sample_has_every_value_that_its_row_wants() {
    let list = LIST.replace("vary", "every = ['FERRORAIL_ALGORITHM', 'ranks']\nvary");
    let cases = expand(&parse(&list).unwrap(), Extent::Sample, 7).unwrap();
    // Two rank counts and algorithms; one MPI and size of nodes.
    assert_eq!(cases.len(), 2 * 2);
    let list = LIST.replace("vary", "each_of = 3\neach");
    let cases = expand(&parse(&list).unwrap(), Extent::Sample, 7).unwrap();
    assert_eq!(cases.len(), 1);
    assert!(cases[0].rounds.len() == 3 || cases[0].ranks == 1);
    let other = &LIST[LIST.find("[[row]]").unwrap()..].replace("'a'", "'b'");
    let rows = format!("{LIST}{other}").replace("vary", "one_of = 'two'\nvary");
    let of = |seed| expand(&parse(&rows).unwrap(), Extent::Sample, seed).unwrap();
    assert!((0..20).all(|seed| of(seed).len() == 1));
    let names: BTreeSet<_> = (0..20)
        .map(|seed| of(seed)[0].name[..1].to_owned())
        .collect();
    assert_eq!(names.len(), 2);
}
