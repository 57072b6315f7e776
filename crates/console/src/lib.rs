//! The page of Mainspring's console, built: whoever serves HTTP looks a path up and sends what is
//! there.
//!
//! The sources are in `web/` (TypeScript, Preact); `cargo xtask console --build` makes `assets/` of
//! them, and the tests prove that they fit. So building this crate needs neither Node nor the
//! network.
//!
//! ```
//! let page = mainspring_console::asset("/").unwrap();
//! assert!(page.media_type.starts_with("text/html"));
//! assert!(mainspring_console::asset("/etc/passwd").is_none());
//! ```

/// One file of the page.
#[derive(Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its media type, for `Content-Type`.
    pub media_type: &'static str,
    /// The file as it is.
    pub plain: &'static [u8],
    /// The same, compressed with gzip.
    pub gzip: &'static [u8],
    /// An entity tag with its quotes, which changes when the file does.
    pub tag: &'static str,
}

/// The policy that every file is to be served with: scripts and styles of the page alone, requests
/// to its own origin alone, no frames, and no text that becomes markup.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

macro_rules! file {
    ($name:literal, $media_type:literal, $tag:literal) => {
        Asset {
            media_type: $media_type,
            plain: include_bytes!(concat!("../assets/", $name)),
            gzip: include_bytes!(concat!("../assets/", $name, ".gz")),
            tag: concat!("\"", env!($tag), "\""),
        }
    };
}

static PAGE: Asset = file!("index.html", "text/html; charset=utf-8", "TAG_index_html");
static SCRIPT: Asset = file!("console.js", "text/javascript; charset=utf-8", "TAG_console_js");
static STYLE: Asset = file!("console.css", "text/css; charset=utf-8", "TAG_console_css");
static ICON: Asset = file!("icon.svg", "image/svg+xml", "TAG_icon_svg");

/// The file at a path of the server. `None`: the console has none there.
#[must_use]
pub fn asset(path: &str) -> Option<&'static Asset> {
    match path {
        "/" => Some(&PAGE),
        "/console.js" => Some(&SCRIPT),
        "/console.css" => Some(&STYLE),
        "/icon.svg" => Some(&ICON),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the page may weigh on the wire, all of it.
    const COMPRESSED_BYTES_MAX: usize = 120_000;

    fn all() -> [&'static Asset; 4] {
        [&PAGE, &SCRIPT, &STYLE, &ICON]
    }

    #[test]
    fn the_page_weighs_little() {
        let bytes: usize = all().iter().map(|asset| asset.gzip.len()).sum();
        assert!(bytes < COMPRESSED_BYTES_MAX, "{bytes} bytes");
        assert!(all().iter().all(|asset| asset.gzip.starts_with(&[0x1f, 0x8b])), "this is not gzip");
    }

    #[test]
    fn what_the_page_names_is_there() {
        let page = std::str::from_utf8(PAGE.plain).unwrap();
        let named = page.split('"').filter(|text| text.starts_with('/'));
        let mut count = 0;
        for path in named {
            assert!(asset(path).is_some(), "{path}");
            count += 1;
        }
        assert_eq!(count, 3);
    }

    #[test]
    fn the_page_has_no_script_or_style_of_its_own_so_the_policy_can_be_strict() {
        let page = std::str::from_utf8(PAGE.plain).unwrap();
        assert!(!page.contains("<style") && !page.contains("style=") && !page.contains("onload="));
        assert_eq!(page.matches("<script").count(), page.matches("src=\"/console.js\"").count());
        assert!(!CONTENT_SECURITY_POLICY.contains("unsafe"));
    }

    #[test]
    fn tags_differ_and_are_quoted() {
        let mut tags: Vec<&str> = all().iter().map(|asset| asset.tag).collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 4);
        assert!(tags.iter().all(|tag| tag.len() == 26 && tag.starts_with('"')));
    }
}
