//! Names that are nearly right.

/// The one of `valid` that `word` most likely means, if one is near.
pub fn nearest<'a>(word: &str, valid: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let nearest = valid
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .min()
        .filter(|&(distance, _)| distance <= 2 + word.len() / 4);
    nearest.map(|(_, candidate)| candidate)
}
