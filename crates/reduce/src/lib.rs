//! Reduction operators: the predefined operations of MPI on the types they allow (MPI 4.1, section
//! 6.9.2), as kernels over raw memory.
//!
//! * [`Operator`]: what is computed; [`Group::permits`] says on which types;
//! * [`Number`]: how an element lies in memory; [`Group`]: what the standard calls it;
//! * [`kernel`]: the code for one operator and one number.
//!
//! Each operator is written once, on two values. [`Kernel`] runs it over vectors, which the compiler
//! turns into SIMD code, for AVX2 too where the processor has it. Operands may be memory of a node's
//! segment, which other processes map: a kernel reads and writes through raw pointers and never
//! makes a reference. The memory needs no alignment, and the result may take the place of an operand.
//!
//! Results do not depend on the processor: no fused multiply-add, no reassociation. Which operand
//! stands on the left is the caller's choice, because maxima of floating-point numbers tell the
//! difference (both zeros, NaN).
//!
//! ```
//! use ferrorail_reduce::{Number, Operator, kernel};
//! let sum = kernel(Operator::Sum, Number::I32).expect("sums of integers");
//! let (left, right, mut result) = ([1i32, 2], [10i32, 20], [0i32; 2]);
//! let (a, b) = (left.as_ptr().cast(), right.as_ptr().cast());
//! // SAFETY: two elements in each, apart.
//! unsafe { sum.run(a, b, result.as_mut_ptr().cast(), 2) };
//! assert_eq!(result, [11, 22]);
//! ```

mod apply;
mod kernel;
mod number;
mod operator;
#[cfg(test)]
mod tests;

pub use kernel::Kernel;
pub use number::{Number, kernel};
pub use operator::{Group, Operator};
