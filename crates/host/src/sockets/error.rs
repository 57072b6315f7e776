//! Failures, as the guest's interface has them.

use super::bindings::{BackoffClass, ErrorCategory, ErrorScope, PluginError};
use mainspring_zcl::abi::ErrorCode;
use std::fmt::Display;

/// How much of a host is shown that may be of any length.
const SHOWN_CHARS_MAX: usize = 64;

fn failure(category: ErrorCategory, code: &str, message: &dyn Display) -> PluginError {
    let retryable = category == ErrorCategory::TransientNetwork;
    PluginError {
        category,
        scope: ErrorScope::PerStream,
        code: code.into(),
        message: message.to_string(),
        retryable,
        retry_after_ms: None,
        backoff_class: BackoffClass::Normal,
        safe_to_retry: retryable,
        commit_state: None,
        details_json: None,
    }
}

fn transient(code: &str, message: &dyn Display) -> PluginError {
    failure(ErrorCategory::TransientNetwork, code, message)
}

pub(super) fn invalid_socket(handle: u64) -> PluginError {
    failure(ErrorCategory::Internal, "INVALID_SOCKET", &format_args!("there is no open socket {handle}"))
}

pub(super) fn socket_config(message: &dyn Display) -> PluginError {
    failure(ErrorCategory::Internal, "SOCKET_CONFIG", message)
}

pub(super) fn connect_failed(message: &dyn Display) -> PluginError {
    transient("TCP_CONNECT_FAILED", message)
}

pub(super) fn read_failed(message: &dyn Display) -> PluginError {
    transient("SOCKET_READ_FAILED", message)
}

pub(super) fn write_failed(message: &dyn Display) -> PluginError {
    transient("SOCKET_WRITE_FAILED", message)
}

/// Why nothing was even tried.
pub(super) fn not_tried(code: ErrorCode, host: &str, port: u16) -> PluginError {
    match code {
        ErrorCode::Denied => failure(
            ErrorCategory::Permission,
            "NETWORK_DENIED",
            &format_args!("the allow-list does not admit {host}:{port}"),
        ),
        ErrorCode::NoEntry => {
            transient("DNS_RESOLUTION_FAILED", &format_args!("the name {host} does not resolve"))
        }
        ErrorCode::Invalid => {
            let shown: String = host.chars().take(SHOWN_CHARS_MAX).collect();
            connect_failed(&format_args!("{shown:?}:{port} is not an address"))
        }
        ErrorCode::OutOfMemory => socket_config(&"too many lookups under way, or too many open sockets"),
        code => connect_failed(&code),
    }
}
