//! Whether the dynamic linker will honour `LD_PRELOAD` for a program.

use memmap2::Mmap;
use object::Object as _;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Architecture, Endianness, FileKind, elf};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Interpreters of interpreters that are followed.
const SCRIPT_DEPTH_MAX: u32 = 4;

/// Why preloading will have no effect on `program` ("is set-user-ID"), if so. What cannot be read is
/// left to `exec` to complain about.
pub fn obstacle(program: &Path) -> Option<String> {
    obstacle_at(program, SCRIPT_DEPTH_MAX)
}

fn obstacle_at(program: &Path, depth: u32) -> Option<String> {
    let file = File::open(program).ok()?;
    let metadata = file.metadata().ok().filter(|metadata| metadata.is_file())?;
    // SAFETY: the mapping is private and read-only; a program that is truncated while it is about
    // to be run could not be run either.
    let bytes = unsafe { Mmap::map(&file) }.ok()?;
    if let Some(interpreter) = interpreter(&bytes) {
        let reason = obstacle_at(interpreter, depth.checked_sub(1)?)?;
        return Some(format!(
            "is run by {}, which {reason}",
            interpreter.display()
        ));
    }
    privileges(metadata.mode(), metadata.uid(), metadata.gid()).or_else(|| linkage(&bytes))
}

/// The program after `#!`.
fn interpreter(bytes: &[u8]) -> Option<&Path> {
    let line = bytes
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    let program = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    Some(Path::new(OsStr::from_bytes(program)))
}

/// Programs that raise their privileges run in secure mode, without preloads.
fn privileges(mode: u32, owner: u32, group: u32) -> Option<String> {
    const SET_USER_ID: u32 = 0o4000;
    const SET_GROUP_ID: u32 = 0o2010; // without the execute bit it means something else
    let user = nix::unistd::getuid().as_raw();
    if mode & SET_USER_ID != 0 && owner != user {
        return Some("is set-user-ID".into());
    }
    let real = nix::unistd::getgid().as_raw();
    if mode & SET_GROUP_ID == SET_GROUP_ID && group != real {
        return Some("is set-group-ID".into());
    }
    None
}

/// Only a dynamically linked program of this architecture can load the library.
fn linkage(bytes: &[u8]) -> Option<String> {
    match FileKind::parse(bytes) {
        Ok(FileKind::Elf64) => {}
        Ok(FileKind::Elf32) => return Some("is a 32-bit program".into()),
        _ => return None,
    }
    let program = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let here = match std::env::consts::ARCH {
        "x86_64" => Architecture::X86_64,
        "aarch64" => Architecture::Aarch64,
        _ => program.architecture(),
    };
    if program.architecture() != here {
        return Some(format!("is built for {:?}", program.architecture()));
    }
    let endian = program.endian();
    let dynamic = |header: &elf::ProgramHeader64<_>| header.p_type(endian) == elf::PT_INTERP;
    if program.elf_program_headers().iter().any(dynamic) {
        return None;
    }
    Some("is statically linked".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test program, which is dynamically linked.
    fn this_program() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn linkage_is_told_from_the_headers() {
        let mut bytes = this_program();
        assert_eq!(linkage(&bytes), None);
        assert_eq!(linkage(b"not a program"), None);
        // Without its interpreter segment it is static: rename the segment.
        let table = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
        let count = u16::from_le_bytes(bytes[56..58].try_into().unwrap()) as usize;
        let interp = (0..count)
            .map(|index| table + index * 56)
            .find(|&at| bytes[at..at + 4] == elf::PT_INTERP.to_le_bytes())
            .expect("a dynamic program");
        bytes[interp..interp + 4].copy_from_slice(&elf::PT_NULL.to_le_bytes());
        assert_eq!(linkage(&bytes).as_deref(), Some("is statically linked"));
        bytes[18..20].copy_from_slice(&elf::EM_RISCV.to_le_bytes());
        assert_eq!(linkage(&bytes).as_deref(), Some("is built for Riscv64"));
        bytes[4] = elf::ELFCLASS32;
        assert_eq!(linkage(&bytes).as_deref(), Some("is a 32-bit program"));
    }

    #[test]
    fn privileges_are_told_from_the_mode() {
        let user = nix::unistd::getuid().as_raw();
        let group = nix::unistd::getgid().as_raw();
        let reason = |mode, owner, group| privileges(mode, owner, group);
        assert_eq!(reason(0o755, user + 1, group + 1), None);
        assert_eq!(reason(0o4755, user, group), None);
        assert_eq!(
            reason(0o4755, user + 1, group).as_deref(),
            Some("is set-user-ID")
        );
        assert_eq!(
            reason(0o2755, user, group + 1).as_deref(),
            Some("is set-group-ID")
        );
        assert_eq!(reason(0o2745, user, group + 1), None);
    }

    #[test]
    fn scripts_lead_to_their_interpreter() {
        assert_eq!(
            interpreter(b"#! /bin/sh -e\necho"),
            Some(Path::new("/bin/sh"))
        );
        assert_eq!(interpreter(b"\x7fELF"), None);
        assert_eq!(obstacle(Path::new("/bin/sh")), None);
        assert_eq!(obstacle(Path::new("/no/such/file")), None);
    }
}
