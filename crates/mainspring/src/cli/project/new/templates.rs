//! The files of each skeleton. `{{name}}`, `{{Type}}` and `{{program}}` stand for the capability's name, for what its types begin with, and for the
//! table of its program.

use crate::cli::project::new::{GuestLanguage, Language};

/// A skeleton.
pub(in crate::cli::project::new) struct Template {
    pub(in crate::cli::project::new) files: &'static [File],
    /// What its manifest says about its program.
    pub(in crate::cli::project::new) program: &'static str,
    /// What to type in its folder before it can run.
    pub(in crate::cli::project::new) build: Option<&'static str>,
    /// What to type in its folder to have it tested.
    pub(in crate::cli::project::new) test: &'static str,
}

/// A file of a skeleton.
pub(in crate::cli::project::new) struct File {
    pub(in crate::cli::project::new) name: &'static str,
    pub(in crate::cli::project::new) text: &'static str,
}

macro_rules! file {
    ($name:literal, $source:literal) => {
        File { name: $name, text: include_str!($source) }
    };
}

const RUST_FILES: &[File] = &[
    file!("capability.toml", "shared/capability.toml"),
    file!("Cargo.toml", "rust/Cargo.toml.template"),
    file!("src/main.rs", "rust/main.rs.template"),
    file!("tests/greeting.rs", "rust/test.rs.template"),
    file!(".gitignore", "rust/gitignore"),
];

impl Template {
    pub(in crate::cli::project::new) fn of(language: Language) -> &'static Template {
        match language {
            Language::Python => &Template {
                files: &[
                    file!("capability.toml", "shared/capability.toml"),
                    file!("main.py", "python/main.py"),
                    file!("test_main.py", "python/test_main.py"),
                ],
                program: "process = [\"python3\", \"main.py\"]",
                build: None,
                test: "python3 -m unittest",
            },
            Language::Javascript => &Template {
                files: &[
                    file!("capability.toml", "shared/capability.toml"),
                    file!("main.js", "javascript/main.js"),
                    file!("main.test.js", "javascript/main.test.js"),
                ],
                program: "process = [\"node\", \"main.js\"]",
                build: None,
                test: "node --test",
            },
            Language::Typescript => &Template {
                files: &[
                    file!("capability.toml", "shared/capability.toml"),
                    file!("package.json", "typescript/package.json"),
                    file!("tsconfig.json", "typescript/tsconfig.json"),
                    file!("src/main.ts", "typescript/main.ts"),
                    file!("src/main.test.ts", "typescript/main.test.ts"),
                    file!(".gitignore", "typescript/gitignore"),
                ],
                program: "process = [\"node\", \"dist/main.js\"]",
                build: Some("npm install && npm run build"),
                test: "npm test",
            },
            Language::Go => &Template {
                files: &[
                    file!("capability.toml", "shared/capability.toml"),
                    file!("go.mod", "go/go.mod"),
                    file!("main.go", "go/main.go"),
                    file!("main_test.go", "go/main_test.go"),
                    file!(".gitignore", "go/gitignore"),
                ],
                program: "process = [\"./main\"]",
                build: Some("go build -o main"),
                test: "go test",
            },
            Language::Shell => &Template {
                files: &[
                    file!("capability.toml", "shared/capability.toml"),
                    file!("main.sh", "shell/main.sh"),
                    file!("test.sh", "shell/test.sh"),
                ],
                program: "process = [\"sh\", \"main.sh\"]",
                build: None,
                test: "sh test.sh",
            },
            Language::C => &Template {
                files: &[
                    file!("capability.toml", "shared/capability.toml"),
                    file!("main.c", "c/main.c"),
                    file!("test.sh", "c/test.sh"),
                ],
                program: "process = [\"./main\"]",
                build: Some("cc -O2 -Wall -o main main.c"),
                test: "sh test.sh",
            },
            Language::Rust => &Template {
                files: RUST_FILES,
                program: "process = [\"target/release/{{name}}\"]",
                build: Some("cargo build --release"),
                test: "cargo test",
            },
        }
    }

    /// The same in a sandbox.
    pub(in crate::cli::project::new) fn of_guest(language: GuestLanguage) -> &'static Template {
        match language {
            GuestLanguage::Rust => &Template {
                files: RUST_FILES,
                program: "wasm = \"target/wasm32-wasip1/release/{{name}}.wasm\"",
                build: Some("cargo build --release --target wasm32-wasip1"),
                test: "cargo test",
            },
            GuestLanguage::C => &Template {
                files: &[
                    file!("capability.toml", "shared/capability.toml"),
                    file!("main.c", "c/main.c"),
                    file!("build.sh", "guest-c/build.sh"),
                    file!("test.sh", "guest-c/test.sh"),
                    file!(".gitignore", "guest-c/gitignore"),
                ],
                program: "wasm = \"main.wasm\"",
                build: Some("sh build.sh"),
                test: "sh test.sh",
            },
        }
    }
}
