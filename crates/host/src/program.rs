//! A compiled guest.

use crate::guest::state::GuestState;
use crate::{Error, Result};
use std::fmt;
use wasmtime::{ExternType, InstancePre, Linker, Module, ResourcesRequired, ValType};

/// A compiled and linked guest, ready to be started any number of times. Cheap to clone.
#[derive(Clone)]
pub struct Program {
    instance_pre: InstancePre<GuestState>,
    entry_point: EntryPoint,
    has_initialize: bool,
    #[cfg(feature = "wasi")]
    imports_wasi: bool,
}

/// How a guest is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryPoint {
    /// `_start()`.
    Start,
    /// `main(request, response)`.
    Main,
    /// `main(request, response) -> code`.
    MainWithCode,
}

impl Program {
    pub(crate) fn new(linker: &Linker<GuestState>, module: &Module) -> Result<Program> {
        // The engine knows more than one because components need that where they meet; the host's
        // calls know one.
        if module.resources_required().num_memories > 1 {
            return Err(Error::Link(wasmtime::Error::msg("it has more than one memory")));
        }
        let entry_point = entry_point(module)?;
        let instance_pre = linker.instantiate_pre(module).map_err(Error::Link)?;
        // Modules with `_start` initialise themselves.
        let has_initialize = entry_point != EntryPoint::Start && has_type(module, "_initialize", &[], &[]);
        Ok(Program {
            instance_pre,
            entry_point,
            has_initialize,
            #[cfg(feature = "wasi")]
            imports_wasi: module.imports().any(|import| import.module() == crate::wasi::PREVIEW1),
        })
    }

    /// The compiled module.
    pub fn module(&self) -> &Module {
        self.instance_pre.module()
    }

    /// Whether the module imports anything from the module `name`, such as
    /// `wasi_snapshot_preview1`.
    pub fn imports_from(&self, name: &str) -> bool {
        self.module().imports().any(|import| import.module() == name)
    }

    /// The compiled code, to be kept and given to [`Host::load`](crate::Host::load) by this very
    /// program on this very machine.
    ///
    /// # Errors
    /// [`Error::Compile`].
    pub fn serialize(&self) -> Result<Vec<u8>> {
        self.module().serialize().map_err(Error::Compile)
    }

    /// What its largest memory begins with, in bytes. With more than its limit, it would end before
    /// its first instruction.
    #[must_use]
    pub fn memory_bytes_min(&self) -> u64 {
        memory_bytes_min(&self.module().resources_required())
    }

    pub(crate) fn instance_pre(&self) -> &InstancePre<GuestState> {
        &self.instance_pre
    }

    pub(crate) fn entry_point(&self) -> EntryPoint {
        self.entry_point
    }

    pub(crate) fn has_initialize(&self) -> bool {
        self.has_initialize
    }

    /// Whether it needs WASI's state and runtime.
    #[cfg(feature = "wasi")]
    pub(crate) fn imports_wasi(&self) -> bool {
        self.imports_wasi
    }
}

/// What the largest memory begins with.
pub(crate) fn memory_bytes_min(resources: &ResourcesRequired) -> u64 {
    const PAGE_BYTES: u64 = 64 << 10;
    resources.max_initial_memory_size.unwrap_or(0).saturating_mul(PAGE_BYTES)
}

fn entry_point(module: &Module) -> Result<EntryPoint> {
    use ValType::I32;
    if module.get_export("_start").is_some() {
        return match has_type(module, "_start", &[], &[]) {
            true => Ok(EntryPoint::Start),
            false => Err(Error::EntryPointType { name: "_start" }),
        };
    }
    if module.get_export("main").is_none() {
        return Err(Error::NoEntryPoint);
    }
    if has_type(module, "main", &[I32, I32], &[I32]) {
        Ok(EntryPoint::MainWithCode)
    } else if has_type(module, "main", &[I32, I32], &[]) {
        Ok(EntryPoint::Main)
    } else {
        Err(Error::EntryPointType { name: "main" })
    }
}

fn has_type(module: &Module, name: &str, params: &[ValType], results: &[ValType]) -> bool {
    let same = |found: &mut dyn Iterator<Item = ValType>, wanted: &[ValType]| {
        let found: Vec<ValType> = found.collect();
        found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| ValType::eq(a, b))
    };
    match module.get_export(name) {
        Some(ExternType::Func(func)) => {
            same(&mut func.params(), params) && same(&mut func.results(), results)
        }
        _ => false,
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("entry_point", &self.entry_point).finish_non_exhaustive()
    }
}
