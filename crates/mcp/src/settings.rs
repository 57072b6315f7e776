//! What `mainspring mcp` tells this program: one JSON object in a file.

use crate::bridge::{Bridge, Document};
use crate::error::McpError;
use crate::http::HttpListener;
use mainspring_client::Address;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What the bridge is to do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    socket: Option<PathBuf>,
    tcp: Option<Tcp>,
    http: Option<Http>,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    operator: bool,
    #[serde(default)]
    all: bool,
    #[serde(default)]
    names: BTreeMap<String, String>,
    #[serde(default)]
    documents: Vec<DocumentSettings>,
    version: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tcp {
    place: String,
    token: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Http {
    address: SocketAddr,
    token: String,
    hosts: Vec<String>,
}

/// Without the tokens: these may end up in a log.
impl std::fmt::Debug for Tcp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Tcp({})", self.place)
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Http({})", self.address)
    }
}

/// A document, by its text or by its file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentSettings {
    uri: String,
    title: String,
    media_type: String,
    text: Option<String>,
    file: Option<PathBuf>,
}

/// What the manifest of an MCP server as a capability is made of.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestSettings {
    /// The id of the capability.
    pub id: String,
    /// What its types begin with.
    pub prefix: String,
    /// The command of the server.
    pub command: Vec<String>,
}

/// Reads settings from a file.
///
/// # Errors
/// It cannot be read, or holds something else.
pub(crate) fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, McpError> {
    let fault = |reason: String| McpError::File { path: path.display().to_string(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    serde_json::from_str(&text)
        .map_err(|error| fault(format!("is not what `mainspring mcp` of the same version writes: {error}")))
}

impl Settings {
    /// Reads them from a file.
    ///
    /// # Errors
    /// It cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<Settings, McpError> {
        read(path)
    }

    /// The bridge that they mean.
    ///
    /// # Errors
    /// They name no daemon, or a document cannot be read.
    pub fn bridge(self) -> Result<Bridge, McpError> {
        let address = match (self.socket, self.tcp) {
            (Some(path), None) => Address::Unix(path),
            (None, Some(tcp)) => Address::Tcp { place: tcp.place, token: tcp.token },
            _ => return Err(McpError::Stream("the settings name no daemon, or two".to_owned())),
        };
        let http = self.http.map(|http| HttpListener {
            address: http.address,
            token: http.token,
            hosts: http.hosts,
        });
        let documents = self.documents.into_iter().map(document).collect::<Result<_, _>>()?;
        Ok(Bridge {
            address,
            http,
            allow: self.allow,
            is_operator: self.operator,
            lists_all: self.all,
            names: self.names,
            documents,
            version: self.version,
        })
    }
}

impl ManifestSettings {
    /// Reads them from a file.
    ///
    /// # Errors
    /// It cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<ManifestSettings, McpError> {
        read(path)
    }
}

fn document(settings: DocumentSettings) -> Result<Document, McpError> {
    let contents = match (settings.text, settings.file) {
        (Some(text), _) => text.into_bytes(),
        (None, Some(path)) => std::fs::read(&path).map_err(|error| McpError::File {
            path: path.display().to_string(),
            reason: error.to_string(),
        })?,
        (None, None) => Vec::new(),
    };
    Ok(Document { uri: settings.uri, title: settings.title, media_type: settings.media_type, contents })
}
