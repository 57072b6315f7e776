//! Names of nodes and buses: each is one token of a subject.

/// Bytes of the name of a node or bus.
const NAME_BYTES_MAX: usize = 32;

/// Whether a node or bus may be called this.
///
/// # Errors
/// What the name must be.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
        return Err("must be 1 to 32 letters, digits, `-` or `_`");
    }
    Ok(())
}

/// Whether a type fits one of these patterns: exact types, `Prefix.*` or `*`.
pub(crate) fn fits(patterns: &[String], type_name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => type_name.len() > prefix.len() && type_name.starts_with(prefix),
        None => pattern == type_name,
    })
}

/// Types that only the kernel itself may speak or serve.
pub(crate) fn is_reserved(type_name: &str) -> bool {
    ["Sys.", "Syscall.", "Timer.", "Kernel."].iter().any(|prefix| type_name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_token_of_a_subject() {
        for good in ["a", "shop-1", "A_b", &"x".repeat(32)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "a.b", "a b", "*", ">", "ä", "a/b", &"x".repeat(33)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn patterns_fit_whole_types() {
        let patterns = ["Order.*".to_owned(), "Pay.Now".to_owned()];
        assert!(fits(&patterns, "Order.Place") && fits(&patterns, "Pay.Now"));
        assert!(
            !fits(&patterns, "Order.") && !fits(&patterns, "Orders.Place") && !fits(&patterns, "Pay.Nowhere")
        );
    }
}
