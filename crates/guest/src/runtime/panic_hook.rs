//! Panics say why on standard error, also where Rust's own library has no standard error.

/// Installs the hook once, on bare WebAssembly only: with WASI, and natively, `std` does it.
pub(crate) fn install() {
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            std::panic::set_hook(Box::new(|information| {
                // Best effort: a guest that panics cannot wait.
                let _ = crate::zi::write(2, format!("{information}\n").as_bytes());
            }));
        });
    }
}
