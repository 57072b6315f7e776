//! Whether the Node that is here can run a skeleton.

use std::process::{Command, Stdio};

/// The oldest Node that runs a skeleton, and what to do with an older one.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::project::new) struct NodeNeeded {
    /// The first two numbers of its version.
    pub(in crate::cli::project::new) oldest: (u32, u32),
    /// What else can be done than to install it; ends a sentence.
    pub(in crate::cli::project::new) otherwise: &'static str,
}

impl NodeNeeded {
    /// A sentence for whoever has no such Node, as the first of what is to be done.
    pub(in crate::cli::project::new) fn advice(self) -> Option<String> {
        let here = match Command::new("node").arg("--version").stdin(Stdio::null()).output() {
            Err(_) => "there is no `node` here".to_owned(),
            Ok(output) => {
                let version = String::from_utf8_lossy(&output.stdout);
                // What says nothing of its version may be good enough.
                if !is_older(version.trim(), self.oldest) {
                    return None;
                }
                format!("this is {}", version.trim())
            }
        };
        let (major, minor) = self.oldest;
        Some(format!(
            "  # it needs Node {major}.{minor} or later, and {here}: install one{}\n",
            self.otherwise
        ))
    }
}

/// Whether a version, such as `v20.20.2`, is known to come before another.
fn is_older(version: &str, oldest: (u32, u32)) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map_while(|part| part.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) < oldest,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for old in ["v20.20.2", "v22.9.0", "v22.17.1", "8.0.0"] {
            assert!(is_older(old, (22, 18)), "{old}");
        }
        for new in ["v22.18.0", "v24.1.0", "v100.0.0", "", "deno", "v22"] {
            assert!(!is_older(new, (22, 18)), "{new}");
        }
    }
}
