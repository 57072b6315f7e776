//! Folders as the command line names them: `HOST[::GUEST][:ro]`.

use mainspring_host::Folder;
use std::path::PathBuf;

/// Reads a folder. Without a name for the guest it has its own; `:ro` at the end makes it
/// read-only.
pub(crate) fn folder(text: &str) -> Result<Folder, String> {
    let (text, writable) = text.strip_suffix(":ro").map_or((text, true), |text| (text, false));
    let (path, guest_path) = text.split_once("::").unwrap_or((text, text));
    if path.is_empty() || guest_path.is_empty() {
        return Err("a folder is HOST, HOST::GUEST or HOST::GUEST:ro".into());
    }
    Ok(Folder { path: PathBuf::from(path), guest_path: guest_path.into(), writable })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_may_have_another_name_and_be_read_only() {
        let plain = folder("data").unwrap();
        assert_eq!((plain.path, plain.guest_path.as_str(), plain.writable), ("data".into(), "data", true));
        let renamed = folder("/srv/x::/data:ro").unwrap();
        assert_eq!(
            (renamed.path, renamed.guest_path.as_str(), renamed.writable),
            ("/srv/x".into(), "/data", false)
        );
        assert!(folder("").is_err() && folder("x::").is_err() && folder(":ro").is_err());
    }
}
