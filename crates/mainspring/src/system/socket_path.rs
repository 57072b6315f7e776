//! Where the daemon's socket is when nobody says otherwise: the daemon and the commands must agree
//! on it.

use std::path::{Path, PathBuf};

/// The variable that names the socket, for the daemon and for the commands. A flag comes before it,
/// a file after it.
pub const SOCKET_VARIABLE: &str = "MAINSPRING_SOCKET";

/// The longest path that a Unix socket can have, in bytes.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The path that a flag (or else the environment) chooses.
#[must_use]
pub fn chosen_socket_path(flag: Option<&Path>) -> Option<PathBuf> {
    let variable = || std::env::var_os(SOCKET_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    flag.map(Path::to_path_buf).or_else(variable)
}

/// The path of last resort: `$XDG_RUNTIME_DIR/mainspring/mainspring.sock`, or else
/// `mainspring-UID/mainspring.sock` below the folder for temporary files. Whoever binds it makes
/// the folder, for its user alone.
#[must_use]
pub fn default_socket_path() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match runtime {
        Some(runtime) => runtime.join("mainspring"),
        None => std::env::temp_dir().join(format!("mainspring-{}", rustix::process::getuid().as_raw())),
    };
    folder.join("mainspring.sock")
}

/// Whether two paths lead to the same place, however they are written.
pub(crate) fn is_same_socket(one: &Path, other: &Path) -> bool {
    // A bare name has an empty parent, which nothing can be found by.
    let folder = |path: &Path| Path::new(".").join(path.parent()?).canonicalize().ok();
    one.components().eq(other.components())
        || (one.file_name() == other.file_name() && folder(one).is_some() && folder(one) == folder(other))
}
