//! The files of each skeleton. `{{name}}` and `{{Type}}` stand for the capability's name and for what its types begin with.

use crate::cli::project::new::Language;

/// A skeleton.
pub(in crate::cli::project::new) struct Template {
    pub(in crate::cli::project::new) files: &'static [File],
    /// What to type in its folder before it can run.
    pub(in crate::cli::project::new) build: Option<&'static str>,
    /// What to type in its folder to have it tested.
    pub(in crate::cli::project::new) test: &'static str,
}

/// A file of a skeleton.
pub(in crate::cli::project::new) struct File {
    pub(in crate::cli::project::new) name: &'static str,
    pub(in crate::cli::project::new) text: &'static str,
    pub(in crate::cli::project::new) mode: u32,
}

const PLAIN: u32 = 0o644;

macro_rules! file {
    ($name:literal, $source:literal) => {
        File { name: $name, text: include_str!($source), mode: PLAIN }
    };
}

impl Template {
    pub(in crate::cli::project::new) fn of(language: Language) -> &'static Template {
        match language {
            Language::Python => &Template {
                files: &[
                    file!("capability.toml", "python/capability.toml"),
                    file!("main.py", "python/main.py"),
                    file!("test_main.py", "python/test_main.py"),
                ],
                build: None,
                test: "python3 -m unittest",
            },
            Language::Javascript => &Template {
                files: &[
                    file!("capability.toml", "javascript/capability.toml"),
                    file!("main.js", "javascript/main.js"),
                    file!("main.test.js", "javascript/main.test.js"),
                ],
                build: None,
                test: "node --test",
            },
            Language::Shell => &Template {
                files: &[
                    file!("capability.toml", "shell/capability.toml"),
                    file!("main.sh", "shell/main.sh"),
                    file!("test.sh", "shell/test.sh"),
                ],
                build: None,
                test: "sh test.sh",
            },
            Language::C => &Template {
                files: &[
                    file!("capability.toml", "c/capability.toml"),
                    file!("main.c", "c/main.c"),
                    file!("test.sh", "c/test.sh"),
                ],
                build: Some("cc -O2 -Wall -o main main.c"),
                test: "sh test.sh",
            },
            Language::Rust => &Template {
                files: &[
                    file!("capability.toml", "rust/capability.toml"),
                    file!("Cargo.toml", "rust/Cargo.toml.template"),
                    file!("src/main.rs", "rust/main.rs.template"),
                    file!("tests/greeting.rs", "rust/test.rs.template"),
                    file!(".gitignore", "rust/gitignore"),
                ],
                build: Some("cargo build --release"),
                test: "cargo test",
            },
        }
    }
}
