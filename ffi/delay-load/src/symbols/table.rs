//! Tables of addresses and the jumps through them.

use crate::DelayLoadError;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::cell::UnsafeCell;
use std::sync::OnceLock;

/// A function of unknown signature.
pub type Function = unsafe extern "C" fn();

/// Whether a library without the symbol can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It cannot.
    Required,
    /// It can: a linked crate mentions the symbol, but we never call it.
    Optional,
}

/// Where each of `N` functions is; the jumps read it without synchronisation.
#[repr(transparent)]
pub struct Slots<const N: usize>(UnsafeCell<[Function; N]>);

// SAFETY: written only inside a `OnceLock`'s initialisation (`load`), and read by the jumps only
// after a caller saw that initialisation succeed.
unsafe impl<const N: usize> Sync for Slots<N> {}

impl<const N: usize> Slots<N> {
    /// Every function ends the process with a message until [`load`] has run.
    pub const fn new() -> Self {
        Self(UnsafeCell::new([not_loaded; N]))
    }
}

/// What lies behind a jump that nobody may take.
unsafe extern "C" fn not_loaded() {
    eprintln!(
        "ferrorail: a function of a delay-loaded library was called although the library is not \
         loaded or lacks it; this is a bug in ferrorail"
    );
    std::process::abort();
}

/// A library, and what it must have.
pub struct Description<const N: usize> {
    /// Name given to the dynamic linker.
    pub library: &'static str,
    /// First version known to have every required symbol.
    pub version_min: &'static str,
    /// Symbol `i` goes to slot `i`.
    pub symbols: [(&'static str, Presence); N],
}

/// Fills `slots` on the first call that comes with `once`.
pub fn load<const N: usize>(
    once: &OnceLock<Result<(), DelayLoadError>>,
    slots: &'static Slots<N>,
    description: &Description<N>,
) -> Result<(), DelayLoadError> {
    once.get_or_init(|| {
        let found = resolve(description)?;
        // SAFETY: initialisation runs once, and no jump is taken before it has succeeded.
        unsafe { *slots.0.get() = found };
        Ok(())
    })
    .clone()
}

fn resolve<const N: usize>(description: &Description<N>) -> Result<[Function; N], DelayLoadError> {
    let library = description.library;
    // SAFETY: these libraries' initialisers are made to run in any process at any time.
    let opened = unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) };
    let opened = opened.map_err(|error| DelayLoadError::Open {
        library,
        reason: error.to_string(),
    })?;
    let mut found: [Function; N] = [not_loaded; N];
    for (slot, &(symbol, presence)) in found.iter_mut().zip(&description.symbols) {
        // SAFETY: the symbol is a function; its signature is the caller's concern.
        match unsafe { opened.get::<Function>(symbol.as_bytes()) } {
            Ok(function) => *slot = *function,
            Err(_) if presence == Presence::Optional => {}
            Err(_) => {
                return Err(DelayLoadError::Symbol {
                    library,
                    symbol,
                    version_min: description.version_min,
                });
            }
        }
    }
    // The addresses are used until the process ends.
    std::mem::forget(opened);
    Ok(found)
}

/// One jump through slot number `ferrorail_slot / 8` of `{slots}`. It may use only the registers that
/// the linker itself may change between a call and its target.
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp qword ptr [rip + {slots} + .Lferrorail_slot]"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "adrp x16, {slots} + .Lferrorail_slot
         ldr x16, [x16, :lo12:{slots} + .Lferrorail_slot]
         br x16"
    };
}
pub(crate) use jump;

/// Defines `load()` for one library, and a hidden jump named after each of its symbols.
macro_rules! delay_load {
    ($library:literal since $version_min:literal; $($presence:ident { $($symbol:ident)* })*) => {
        use crate::DelayLoadError;
        use crate::symbols::table::{Description, Presence, Slots, jump};

        const SYMBOLS: &[(&str, Presence)] =
            &[$($((stringify!($symbol), Presence::$presence),)*)*];
        const COUNT: usize = SYMBOLS.len();

        static SLOTS: Slots<COUNT> = Slots::new();
        static ONCE: std::sync::OnceLock<Result<(), DelayLoadError>> = std::sync::OnceLock::new();

        /// Opens the library and fills the table, once.
        pub fn load() -> Result<(), DelayLoadError> {
            let mut symbols = [("", Presence::Required); COUNT];
            symbols.copy_from_slice(SYMBOLS);
            let description = Description {
                library: $library,
                version_min: $version_min,
                symbols,
            };
            crate::symbols::table::load(&ONCE, &SLOTS, &description)
        }

        // The assembler counts: `.Lferrorail_slot` is the current symbol's offset in the table.
        core::arch::global_asm!(
            ".pushsection .text.ferrorail_delay_load, \"ax\", %progbits",
            ".set .Lferrorail_slot, 0",
            $($(
                ".p2align 4",
                concat!(".globl ", stringify!($symbol)),
                concat!(".hidden ", stringify!($symbol)),
                concat!(".type ", stringify!($symbol), ", %function"),
                concat!(stringify!($symbol), ":"),
                jump!(),
                concat!(".size ", stringify!($symbol), ", . - ", stringify!($symbol)),
                ".set .Lferrorail_slot, .Lferrorail_slot + 8",
            )*)*
            ".popsection",
            slots = sym SLOTS,
        );
    };
}
pub(crate) use delay_load;
