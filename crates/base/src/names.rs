//! Names that are nearly right.

/// The one of `valid` that `word` most likely means, if one is near.
pub fn nearest<'a>(word: &str, valid: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let nearest = valid
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .min()
        .filter(|&(distance, _)| distance <= 2 + word.len() / 4);
    nearest.map(|(_, candidate)| candidate)
}

/// What to say of a `word` that is none of `valid`: the nearest of them, or all where none is near.
pub fn hint<'a>(word: &str, valid: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(word, valid.clone()) {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => format!("there are {}", valid.collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_far_from_all_is_not_said_to_mean_one() {
        let of = |word| hint(word, ["bcast", "bruck"].into_iter());
        assert_eq!(of("bruk"), "did you mean \"bruck\"?");
        assert_eq!(of("windw"), "there are bcast, bruck");
    }
}
