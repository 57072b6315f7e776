//! Files, and in words what goes wrong with them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The secret that a file holds, without the end of its line. Others may not be able to read the file; `Err` says what is wrong.
pub(crate) fn read_secret(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let cannot = |error: std::io::Error| format!("{shown}: {}", reason(&error));
    let metadata = std::fs::metadata(path).map_err(cannot)?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(format!("{shown} may be read by others; `chmod 600 {shown}`"));
    }
    let text = std::fs::read_to_string(path).map_err(cannot)?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// What went wrong, without the number of the operating system.
pub(crate) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied => "it may not be read".into(),
        _ => error.to_string(),
    }
}
