//! Kernels against references written apart from them, over unaligned vectors of every length.

use crate::{Group, Kernel, Number, Operator, kernel};
use proptest::prelude::*;

/// What an operator must do with the bytes of one element, the left operand first.
type Reference = fn(Operator, Number, &[u8], &[u8]) -> Vec<u8>;

fn of(operator: Operator, number: Number) -> Kernel {
    kernel(operator, number).unwrap_or_else(|| panic!("{operator:?} of {number:?}"))
}

/// Runs the kernel on vectors at odd addresses, into operand `place` or a third vector, and compares each element with
/// the reference, and the bytes around with what they were.
fn check(operator: Operator, number: Number, data: &[u8], place: usize, reference: Reference) {
    let bytes = number.bytes();
    let elements = data.len() / (2 * bytes);
    let (left, right) = data[..2 * elements * bytes].split_at(elements * bytes);
    let padded = |vector: &[u8]| [&[0xa5], vector, &[0x5a; 9]].concat();
    let mut vectors = [left, right, right].map(padded);
    let [a, b, c] = vectors.each_mut().map(|vector| &raw mut vector[1]);
    let into = [a, b, c][place];
    // SAFETY: all vectors hold so many elements from their second byte on.
    unsafe { of(operator, number).run(a, b, into, elements) };
    let result = &vectors[place];
    assert_eq!(
        (result[0], &result[result.len() - 9..]),
        (0xa5, &[0x5a; 9][..])
    );
    for (i, (a, b)) in left.chunks(bytes).zip(right.chunks(bytes)).enumerate() {
        let expected = reference(operator, number, a, b);
        let found = &result[1 + i * bytes..][..bytes];
        assert_eq!(
            found, expected,
            "{operator:?} of {number:?}: {a:?} and {b:?}"
        );
    }
}

fn is_signed(number: Number) -> bool {
    matches!(number, Number::I8 | Number::I16 | Number::I32 | Number::I64)
}

fn to_wide(bytes: &[u8], signed: bool) -> i128 {
    let mut wide = [if signed && bytes[bytes.len() - 1] >> 7 == 1 {
        0xff
    } else {
        0
    }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

/// Integers of any size as wide ones, which cannot overflow but in products, which wrap.
fn integers(operator: Operator, number: Number, a: &[u8], b: &[u8]) -> Vec<u8> {
    use Operator as O;
    let signed = is_signed(number);
    let (a, b) = (to_wide(a, signed), to_wide(b, signed));
    let truth = |value: bool| i128::from(value);
    let result = match operator {
        O::Max => a.max(b),
        O::Min => a.min(b),
        O::Sum => a + b,
        O::Prod => a.wrapping_mul(b),
        O::Land => truth(a != 0 && b != 0),
        O::Lor => truth(a != 0 || b != 0),
        O::Lxor => truth((a != 0) != (b != 0)),
        O::Band => a & b,
        O::Bor => a | b,
        O::Bxor => a ^ b,
        O::Maxloc | O::Minloc => unreachable!("pairs are apart"),
    };
    result.to_le_bytes()[..number.bytes()].to_vec()
}

const INTEGERS: [Number; 8] = [
    Number::I8,
    Number::I16,
    Number::I32,
    Number::I64,
    Number::U8,
    Number::U16,
    Number::U32,
    Number::U64,
];

fn f32_of(bytes: &[u8]) -> f32 {
    f32::from_le_bytes(bytes.try_into().expect("4 bytes"))
}

fn f64_of(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

macro_rules! float_reference {
    ($operator:expr, $a:expr, $b:expr) => {
        match $operator {
            Operator::Max if $b > $a => $b,
            Operator::Min if $b < $a => $b,
            Operator::Max | Operator::Min => $a,
            Operator::Sum => $a + $b,
            Operator::Prod => $a * $b,
            other => unreachable!("{other:?}"),
        }
        .to_le_bytes()
        .to_vec()
    };
}

fn floats(operator: Operator, number: Number, a: &[u8], b: &[u8]) -> Vec<u8> {
    match number {
        Number::F32 => float_reference!(operator, f32_of(a), f32_of(b)),
        _ => float_reference!(operator, f64_of(a), f64_of(b)),
    }
}

fn complexes(operator: Operator, number: Number, a: &[u8], b: &[u8]) -> Vec<u8> {
    macro_rules! reference {
        ($of:ident, $half:expr) => {{
            let (ar, ai) = ($of(&a[..$half]), $of(&a[$half..]));
            let (br, bi) = ($of(&b[..$half]), $of(&b[$half..]));
            let (re, im) = match operator {
                Operator::Sum => (ar + br, ai + bi),
                _ => (ar * br - ai * bi, ar * bi + ai * br),
            };
            [re.to_le_bytes(), im.to_le_bytes()].concat()
        }};
    }
    match number {
        Number::C32 => reference!(f32_of, 4),
        _ => reference!(f64_of, 8),
    }
}

fn logicals(operator: Operator, number: Number, a: &[u8], b: &[u8]) -> Vec<u8> {
    let truth = |bytes: &[u8]| bytes.iter().any(|&byte| byte != 0);
    let (p, q) = (truth(a), truth(b));
    match operator {
        Operator::Land => if p { b } else { a }.to_vec(),
        Operator::Lor => if p { a } else { b }.to_vec(),
        _ if p && q => vec![0; number.bytes()],
        _ => if p { a } else { b }.to_vec(),
    }
}

/// Value and index as `f64`s, which hold all that the tests draw.
fn parts(number: Number, pair: &[u8]) -> (f64, f64) {
    let int = |bytes: &[u8]| to_wide(bytes, true) as f64;
    let single = |bytes: &[u8]| f64::from(f32_of(bytes));
    match number {
        Number::F32I32 => (single(&pair[..4]), int(&pair[4..])),
        Number::F64I32 => (f64_of(&pair[..8]), int(&pair[8..])),
        Number::I64I32 => (int(&pair[..8]), int(&pair[8..])),
        Number::I16I32 => (int(&pair[..2]), int(&pair[2..])),
        Number::I32I32 => (int(&pair[..4]), int(&pair[4..])),
        Number::I64I64 => (int(&pair[..8]), int(&pair[8..])),
        Number::F32F32 => (single(&pair[..4]), single(&pair[4..])),
        _ => (f64_of(&pair[..8]), f64_of(&pair[8..])),
    }
}

/// A pair of small numbers in the bytes of its type.
fn pair(number: Number, value: i8, index: i8) -> Vec<u8> {
    let (v, i) = (i64::from(value), i64::from(index));
    let value = match number {
        Number::F32I32 | Number::F32F32 => (v as f32).to_le_bytes().to_vec(),
        Number::F64I32 | Number::F64F64 => (v as f64).to_le_bytes().to_vec(),
        Number::I16I32 => v.to_le_bytes()[..2].to_vec(),
        Number::I32I32 => v.to_le_bytes()[..4].to_vec(),
        _ => v.to_le_bytes().to_vec(),
    };
    let index = match number {
        Number::F32F32 => (i as f32).to_le_bytes().to_vec(),
        Number::F64F64 => (i as f64).to_le_bytes().to_vec(),
        Number::I64I64 => i.to_le_bytes().to_vec(),
        _ => i.to_le_bytes()[..4].to_vec(),
    };
    [value, index].concat()
}

fn pairs(operator: Operator, number: Number, a: &[u8], b: &[u8]) -> Vec<u8> {
    let ((va, ia), (vb, ib)) = (parts(number, a), parts(number, b));
    let first = match operator {
        Operator::Maxloc => va > vb,
        _ => va < vb,
    };
    if first || (va == vb && ia <= ib) {
        a
    } else {
        b
    }
    .to_vec()
}

fn bytes_of<T: Copy, const N: usize>(values: &[T], to: fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| to(value)).collect()
}

proptest! {
    #[test]
    fn integers_match_wide_ones(
        data in proptest::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(0)], 0..700),
        place in 0..3usize,
    ) {
        for number in INTEGERS {
            for operator in Operator::ALL.into_iter().filter(|&op| kernel(op, number).is_some()) {
                check(operator, number, &data, place, integers);
            }
        }
    }

    #[test]
    fn floats_match_one_by_one(
        data in proptest::collection::vec(any::<f64>(), 0..90),
        place in 0..3usize,
    ) {
        use Operator::{Max, Min, Prod, Sum};
        let single: Vec<f32> = data.iter().map(|&value| value as f32).collect();
        let (single, double) = (bytes_of(&single, f32::to_le_bytes), bytes_of(&data, f64::to_le_bytes));
        for operator in [Max, Min, Sum, Prod] {
            check(operator, Number::F32, &single, place, floats);
            check(operator, Number::F64, &double, place, floats);
        }
    }

    #[test]
    fn complex_numbers_match_their_parts(
        data in proptest::collection::vec(-1e15..1e15f64, 0..90),
        place in 0..3usize,
    ) {
        let single: Vec<f32> = data.iter().map(|&value| value as f32).collect();
        let (single, double) = (bytes_of(&single, f32::to_le_bytes), bytes_of(&data, f64::to_le_bytes));
        for operator in [Operator::Sum, Operator::Prod] {
            check(operator, Number::C32, &single, place, complexes);
            check(operator, Number::C64, &double, place, complexes);
        }
    }

    #[test]
    fn logicals_are_operands_or_false(
        data in proptest::collection::vec(prop_oneof![Just(0u64), Just(1), Just(u64::MAX)], 0..60),
        place in 0..3usize,
    ) {
        for number in [Number::L8, Number::L16, Number::L32, Number::L64] {
            let data: Vec<u8> =
                data.iter().flat_map(|v| v.to_le_bytes()[..number.bytes()].to_vec()).collect();
            for operator in [Operator::Land, Operator::Lor, Operator::Lxor] {
                check(operator, number, &data, place, logicals);
            }
        }
    }

    #[test]
    fn locations_are_those_of_the_extreme_or_the_lower(
        data in proptest::collection::vec((-3i8..3, -3i8..3), 0..60),
        place in 0..3usize,
    ) {
        for number in Number::ALL.into_iter().filter(|&n| kernel(Operator::Maxloc, n).is_some()) {
            let data: Vec<u8> = data.iter().flat_map(|&(v, i)| pair(number, v, i)).collect();
            for operator in [Operator::Maxloc, Operator::Minloc] {
                check(operator, number, &data, place, pairs);
            }
        }
    }
}

#[test]
fn equal_zeros_keep_the_left_one() {
    for operator in [Operator::Max, Operator::Min] {
        for (first, second) in [(-0.0f64, 0.0), (0.0, -0.0)] {
            let (left, right, mut into) = ([first; 40], [second; 40], [1.0f64; 40]);
            let (a, b) = (left.as_ptr().cast(), right.as_ptr().cast());
            // SAFETY: forty elements in each.
            unsafe { of(operator, Number::F64).run(a, b, into.as_mut_ptr().cast(), 40) };
            assert!(into.iter().all(|value| value.to_bits() == first.to_bits()));
        }
    }
}

/// An in-place reduce-scatter writes its block to the beginning of the vector, of which it is an operand.
#[test]
fn a_result_may_begin_before_the_operand_that_it_overlaps() {
    for distance in 0..40 {
        let left = [100i32; 100];
        let mut memory: Vec<i32> = (0..140).collect();
        let into = memory.as_mut_ptr();
        // SAFETY: a hundred elements from there on are in the vector.
        let right = unsafe { into.add(distance) };
        // SAFETY: as above, and the result does not begin after its operand.
        unsafe {
            of(Operator::Sum, Number::I32).run(left.as_ptr().cast(), right.cast(), into.cast(), 100)
        };
        let expected: Vec<i32> = (0..100).map(|i| 100 + i + distance as i32).collect();
        assert_eq!(memory[..100], expected, "{distance} elements apart");
    }
}

/// What the standard allows has a kernel, where it has a number: the groups that share numbers do
/// not allow the same.
#[test]
fn what_is_permitted_can_be_computed() {
    use Group as G;
    let numbers = |group: Group| -> Vec<Number> {
        match group {
            G::CInteger | G::FortranInteger | G::MultiLanguage => INTEGERS.to_vec(),
            G::Floating => vec![Number::F32, Number::F64],
            G::Complex => vec![Number::C32, Number::C64],
            G::Logical => vec![
                Number::U8,
                Number::L8,
                Number::L16,
                Number::L32,
                Number::L64,
            ],
            G::Byte => vec![Number::U8],
            G::Pair => Number::ALL[16..].to_vec(),
        }
    };
    let groups = [
        G::CInteger,
        G::FortranInteger,
        G::MultiLanguage,
        G::Floating,
        G::Complex,
        G::Logical,
        G::Byte,
        G::Pair,
    ];
    let mut permitted = 0;
    for group in groups {
        for operator in Operator::ALL.into_iter().filter(|&op| group.permits(op)) {
            for number in numbers(group) {
                of(operator, number);
                permitted += 1;
            }
        }
    }
    assert_eq!(
        permitted,
        8 * (10 + 7 + 7) + 2 * 4 + 2 * 2 + 5 * 3 + 3 + 8 * 2
    );
    assert!(kernel(Operator::Band, Number::F64).is_none());
    assert!(kernel(Operator::Max, Number::C32).is_none());
    assert!(!Group::Floating.permits(Operator::Land));
    assert!(!Group::Byte.permits(Operator::Sum));
}

#[test]
fn kernels_are_found_by_their_codes() {
    let mut codes = Vec::new();
    for operator in Operator::ALL {
        for number in Number::ALL {
            let Some(known) = kernel(operator, number) else {
                continue;
            };
            let found = Kernel::from_code(known.code()).expect("its own code");
            assert_eq!(found.code(), known.code());
            codes.push(known.code());
        }
    }
    let all = codes.len();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), all);
    assert!(Kernel::from_code(u16::MAX).is_none());
}
