//! The operators on two values, the left one first.

/// An operator on values of type `T`.
pub(crate) trait Apply<T> {
    /// `left ∘ right`.
    fn apply(left: T, right: T) -> T;
}

pub(crate) struct Max;
pub(crate) struct Min;
pub(crate) struct Sum;
pub(crate) struct Prod;
pub(crate) struct Land;
pub(crate) struct Band;
pub(crate) struct Lor;
pub(crate) struct Bor;
pub(crate) struct Lxor;
pub(crate) struct Bxor;
pub(crate) struct Maxloc;
pub(crate) struct Minloc;

/// C's complex numbers (C11, 6.2.5): real part, then imaginary.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Complex<T> {
    re: T,
    im: T,
}

/// A Fortran logical in an integer of its size.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Logical<T>(T);

/// A value and its index as they are packed, without the gaps of C structures.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub(crate) struct Pair<V, I> {
    value: V,
    index: I,
}

macro_rules! apply {
    ($operator:ident on $($ty:ty)*: |$left:ident, $right:ident| $value:expr) => {$(
        impl Apply<$ty> for $operator {
            #[inline(always)]
            fn apply($left: $ty, $right: $ty) -> $ty {
                $value
            }
        }
    )*};
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        apply!(Sum on $ty: |left, right| left.wrapping_add(right));
        apply!(Prod on $ty: |left, right| left.wrapping_mul(right));
        apply!(Land on $ty: |left, right| $ty::from(left != 0) & $ty::from(right != 0));
        apply!(Lor on $ty: |left, right| $ty::from(left != 0) | $ty::from(right != 0));
        apply!(Lxor on $ty: |left, right| $ty::from(left != 0) ^ $ty::from(right != 0));
        apply!(Band on $ty: |left, right| left & right);
        apply!(Bor on $ty: |left, right| left | right);
        apply!(Bxor on $ty: |left, right| left ^ right);
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }

// Written as comparisons: one instruction each on vectors, and equal ones keep the left operand.
apply!(Max on i8 i16 i32 i64 u8 u16 u32 u64 f32 f64: |left, right| if right > left {
    right
} else {
    left
});
apply!(Min on i8 i16 i32 i64 u8 u16 u32 u64 f32 f64: |left, right| if right < left {
    right
} else {
    left
});
apply!(Sum on f32 f64: |left, right| left + right);
apply!(Prod on f32 f64: |left, right| left * right);
apply!(Sum on Complex<f32> Complex<f64>: |left, right| Complex {
    re: left.re + right.re,
    im: left.im + right.im,
});
// Without the recovery of infinities that C11, annex G, recommends.
apply!(Prod on Complex<f32> Complex<f64>: |left, right| Complex {
    re: left.re * right.re - left.im * right.im,
    im: left.re * right.im + left.im * right.re,
});

macro_rules! logicals {
    ($($ty:ident)*) => {$(
        apply!(Land on Logical<$ty>: |left, right| if left.0 != 0 { right } else { left });
        apply!(Lor on Logical<$ty>: |left, right| if left.0 != 0 { left } else { right });
        apply!(Lxor on Logical<$ty>: |left, right| match (left.0, right.0) {
            (0, _) => right,
            (_, 0) => left,
            _ => Logical(0),
        });
    )*};
}

logicals! { u8 u16 u32 u64 }

macro_rules! locations {
    ($operator:ident, $better:tt) => {
        impl<V: PartialOrd + Copy, I: PartialOrd + Copy> Apply<Pair<V, I>> for $operator {
            #[inline(always)]
            fn apply(left: Pair<V, I>, right: Pair<V, I>) -> Pair<V, I> {
                let (a, b) = ({ left.value }, { right.value });
                let (i, j) = ({ left.index }, { right.index });
                if b $better a || (b == a && j < i) {
                    right
                } else {
                    left
                }
            }
        }
    };
}

locations!(Maxloc, >);
locations!(Minloc, <);
