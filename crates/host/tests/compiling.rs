//! What is refused before it is compiled.

mod support;

use mainspring_host::{CompileLimits, Error};
use support::host;

/// A module whose one function has so many instructions, of two bytes each.
fn module_with_a_function_of(instructions: usize) -> Vec<u8> {
    let body = "(drop (i32.const 0))".repeat(instructions.div_ceil(2));
    wat::parse_str(format!(r#"(module (func (export "_start") {body}))"#)).unwrap()
}

#[test]
fn p5_1_a_guest_or_function_that_is_too_large_is_refused_in_words() {
    let module = module_with_a_function_of(1000);
    let limits = CompileLimits { bytes: 100, ..CompileLimits::default() };
    let refused = host().compile_within(&module, &limits).unwrap_err();
    let words = format!("the guest has {} bytes; the limit is 100", module.len());
    assert_eq!(refused.to_string(), words);
    let limits = CompileLimits { function_bytes: 100, ..CompileLimits::default() };
    let refused = host().compile_within(&module, &limits).unwrap_err();
    assert!(matches!(refused, Error::FunctionTooLarge { limit: 100, .. }), "{refused}");
    assert!(refused.to_string().starts_with("a function of the guest has "), "{refused}");
    assert!(host().compile(&module).is_ok());
    // 7 MB in one function took 15 s and 2.2 GB to compile.
    let refused = host().compile(&module_with_a_function_of(4_700_000)).unwrap_err();
    assert!(matches!(refused, Error::FunctionTooLarge { .. }), "{refused}");
}
