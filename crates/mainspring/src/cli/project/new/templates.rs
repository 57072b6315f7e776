//! The files of each skeleton. `{{name}}`, `{{Type}}` and `{{program}}` stand for the capability's
//! name, for what its types begin with, and for the table of its program.

use crate::cli::project::new::node::NodeNeeded;
use crate::cli::project::new::packages::{
    CarriedFile, GUEST_PACKAGE, GUEST_SKELETON, JAVASCRIPT_SKELETON, NODE_PACKAGE, PYTHON_PACKAGE,
    PYTHON_SKELETON, Package, RUST_PACKAGE, RUST_SKELETON, TYPESCRIPT_SKELETON,
};
use crate::cli::project::new::{GuestLanguage, Language};

/// Node runs TypeScript as it is from this version on.
const NODE_FOR_TYPESCRIPT: NodeNeeded =
    NodeNeeded { oldest: (22, 18), otherwise: ", or begin again with --lang javascript" };
/// As the SDK's `package.json` says.
const NODE_FOR_SDK: NodeNeeded = NodeNeeded { oldest: (20, 4), otherwise: "" };

/// A skeleton.
pub(in crate::cli::project::new) struct Template {
    pub(in crate::cli::project::new) files: &'static [CarriedFile],
    /// What its manifest says about its program.
    pub(in crate::cli::project::new) program: &'static str,
    /// What to type in its folder before it can run.
    pub(in crate::cli::project::new) build: Option<&'static str>,
    /// What to type in its folder to have it tested.
    pub(in crate::cli::project::new) test: &'static str,
    /// The package of an SDK that it uses.
    pub(in crate::cli::project::new) package: Option<Package>,
    /// The Node that it needs, if not any does.
    pub(in crate::cli::project::new) node: Option<NodeNeeded>,
}

impl Template {
    /// The file of its manifest.
    pub(in crate::cli::project::new) fn manifest(&self) -> &'static str {
        self.files
            .iter()
            .map(|file| file.name)
            .find(|name| name.starts_with("capability."))
            .unwrap_or_default()
    }

    /// What to type to see it work: `{{Type}}` stands for what its types begin with.
    pub(in crate::cli::project::new) fn first_message(&self) -> &'static str {
        if self.package.is_some() { "send {{Type}}.Greet name=Ada" } else { "query {{Type}}.Greet name=Ada" }
    }

    /// The skeleton that uses the SDK of a language, where there is one and the binary carries it.
    pub(in crate::cli::project::new) fn with_sdk(language: Language) -> Option<&'static Template> {
        let (template, package): (&Template, _) = match language {
            Language::Python => (
                &Template {
                    files: PYTHON_SKELETON,
                    program: "",
                    build: None,
                    test: "python3 -m unittest",
                    package: Some(Package::Python),
                    node: None,
                },
                PYTHON_PACKAGE,
            ),
            Language::Javascript => (
                &Template {
                    files: JAVASCRIPT_SKELETON,
                    program: "",
                    build: None,
                    test: "node --test main.test.mjs",
                    package: Some(Package::Node),
                    node: Some(NODE_FOR_SDK),
                },
                NODE_PACKAGE,
            ),
            Language::Typescript => (
                &Template {
                    files: TYPESCRIPT_SKELETON,
                    program: "",
                    build: None,
                    test: "node --test main.test.ts",
                    package: Some(Package::Node),
                    node: Some(NODE_FOR_TYPESCRIPT),
                },
                NODE_PACKAGE,
            ),
            Language::Rust => (
                &Template {
                    files: RUST_SKELETON,
                    program: "",
                    build: Some("cargo build --release"),
                    test: "cargo test --release",
                    package: Some(Package::Rust),
                    node: None,
                },
                RUST_PACKAGE,
            ),
            Language::Go | Language::C | Language::Shell => return None,
        };
        (!template.files.is_empty() && !package.is_empty()).then_some(template)
    }

    /// The skeleton of a guest that uses the SDK of a language, likewise.
    pub(in crate::cli::project::new) fn guest_with_sdk(language: GuestLanguage) -> Option<&'static Template> {
        let template = &Template {
            files: GUEST_SKELETON,
            program: "",
            build: Some("cargo build --release --target wasm32-unknown-unknown"),
            test: "cargo test",
            package: Some(Package::Guest),
            node: None,
        };
        let is_carried = !GUEST_SKELETON.is_empty() && !GUEST_PACKAGE.is_empty();
        (language == GuestLanguage::Rust && is_carried).then_some(template)
    }
}

macro_rules! file {
    ($name:literal, $source:literal) => {
        CarriedFile { name: $name, text: include_str!($source) }
    };
}

const RUST_FILES: &[CarriedFile] = &[
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
                package: None,
                node: None,
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
                package: None,
                node: None,
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
                package: None,
                node: None,
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
                package: None,
                node: None,
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
                package: None,
                node: None,
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
                package: None,
                node: None,
            },
            Language::Rust => &Template {
                files: RUST_FILES,
                program: "process = [\"target/release/{{name}}\"]",
                build: Some("cargo build --release"),
                test: "cargo test",
                package: None,
                node: None,
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
                package: None,
                node: None,
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
                package: None,
                node: None,
            },
        }
    }
}
