//! What may be compiled, and a look at a guest before it is.
//!
//! A compiler's time and memory grow with what it is given, functions above all, and it cannot be
//! interrupted. So sizes are checked beforehand, by reading the sections of a guest without its
//! code. Whoever needs time and memory bounded whatever the code looks like compiles in a process
//! of its own, as the daemon does.

use crate::{Error, Result};
use std::time::Duration;
use wasmparser::{Parser, Payload};

/// What compiling one guest may cost at most.
///
/// # Examples
/// ```
/// use mainspring_host::{CompileLimits, Error, Host};
///
/// let host = Host::new()?;
/// let limits = CompileLimits { bytes: 4, ..CompileLimits::default() };
/// let refused = host.compile_within(b"\0asm\x01\0\0\0", &limits).unwrap_err();
/// assert!(matches!(refused, Error::GuestTooLarge { .. }));
/// # Ok::<(), mainspring_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// The size of a module or component. 64 MiB.
    pub bytes: u64,
    /// The size of its largest function. 1 MiB.
    pub function_bytes: u64,
    /// CPU time. The host itself cannot hold it: it is for whoever compiles in another process. 60
    /// s.
    pub cpu_time: Duration,
    /// Memory, as [`cpu_time`](CompileLimits::cpu_time). 1 GiB.
    pub memory_bytes: u64,
}

impl Default for CompileLimits {
    fn default() -> CompileLimits {
        CompileLimits {
            bytes: 64 << 20,
            function_bytes: 1 << 20,
            cpu_time: Duration::from_secs(60),
            memory_bytes: 1 << 30,
        }
    }
}

impl CompileLimits {
    /// Refuses a guest that is too large, or has a function that is. What cannot be read is left to
    /// the compiler, which says why.
    ///
    /// # Errors
    /// [`Error::GuestTooLarge`], [`Error::FunctionTooLarge`].
    pub fn check(&self, bytes: &[u8]) -> Result<()> {
        let found = bytes.len() as u64;
        if found > self.bytes {
            return Err(Error::GuestTooLarge { found, limit: self.bytes });
        }
        let mut functions = Parser::new(0).parse_all(bytes).map_while(|payload| payload.ok());
        let too_large = functions.find_map(|payload| match payload {
            Payload::CodeSectionEntry(body) => {
                let found = body.range().len() as u64;
                (found > self.function_bytes).then_some(found)
            }
            _ => None,
        });
        too_large.map_or(Ok(()), |found| Err(Error::FunctionTooLarge { found, limit: self.function_bytes }))
    }
}

/// Whether a component is valid only with the component model's async features.
#[cfg(feature = "wasi")]
pub(crate) fn needs_async(bytes: &[u8]) -> bool {
    use wasmparser::{Validator, WasmFeatures};
    let with = WasmFeatures::default() | WasmFeatures::CM_ASYNC | WasmFeatures::CM_MORE_ASYNC_BUILTINS;
    let without = with - WasmFeatures::CM_ASYNC - WasmFeatures::CM_MORE_ASYNC_BUILTINS;
    // Function bodies have no part in this, and are not looked at.
    let is_valid = |features| {
        let mut validator = Validator::new_with_features(features);
        let mut payloads = Parser::new(0).parse_all(bytes);
        payloads.all(|payload| payload.is_ok_and(|payload| validator.payload(&payload).is_ok()))
    };
    !is_valid(without) && is_valid(with)
}
