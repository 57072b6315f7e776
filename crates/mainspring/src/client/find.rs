//! Where the daemon is.

use crate::config::{CONFIG_FILE, socket_of_file};
use crate::socket_path::{chosen_socket_path, default_socket_path};
use std::path::{Path, PathBuf};

/// The socket of the daemon: by flag, by `MAINSPRING_SOCKET`, by `mainspring.toml` in this folder, or where it is by default.
#[must_use]
pub fn find_socket(flag: Option<&Path>) -> PathBuf {
    chosen_socket_path(flag)
        .or_else(|| socket_of_file(Path::new(CONFIG_FILE)))
        .unwrap_or_else(default_socket_path)
}
