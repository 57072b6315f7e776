//! Files, and in words what goes wrong with them.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The longest secret that is read, with the end of its line. No token is longer than the first
/// line of a client.
const SECRET_BYTES_MAX: u64 = 4096;

/// The secret that a file holds, without the end of its line. Others may not be able to read the
/// file; `Err` says what is wrong.
pub(crate) fn read_secret(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let cannot = |error: std::io::Error| format!("{shown}: {}", reason(&error));
    // Whatever is no file may have no end, or wait for a writer.
    if !std::fs::metadata(path).map_err(cannot)?.is_file() {
        return Err(format!("{shown}: it is not a regular file"));
    }
    let file = std::fs::File::open(path).map_err(cannot)?;
    // Of what was opened, whatever is there by now.
    let about = file.metadata().map_err(cannot)?;
    if about.permissions().mode() & 0o077 != 0 {
        return Err(format!("{shown} may be read by others; `chmod 600 {shown}`"));
    }
    let mut text = String::new();
    file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > SECRET_BYTES_MAX {
        return Err(format!("{shown}: it is longer than {SECRET_BYTES_MAX} bytes"));
    }
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// A path from the root, without detours in its folder; a link at its end stays one.
pub(crate) fn whole_path(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
    }
}

/// What went wrong, without the number of the operating system.
pub(crate) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied => "it may not be read".into(),
        _ => error.to_string(),
    }
}
