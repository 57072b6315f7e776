//! `cargo xtask example`: starts an application of `examples/` from nothing.

use crate::command::{cargo, root, run, show};
use crate::parts::guests;
use crate::parts::mcp;
use crate::suites::sdk;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

/// Each example, with what it needs.
const EXAMPLES: &[Example] = &[
    Example { name: "shop", guests: &[("orders", "orders")], prepare: None },
    Example { name: "agent", guests: &[("fetch", "pages")], prepare: Some(prepare_agent) },
];

struct Example {
    name: &'static str,
    /// Guests, and the capabilities beside whose manifests they go.
    guests: &'static [(&'static str, &'static str)],
    /// What else it needs, given its folder and the program; prints how to use it, and returns what
    /// `PATH` is to begin with.
    prepare: Option<fn(&Path, &Path) -> Result<PathBuf>>,
}

#[derive(clap::Args)]
pub(crate) struct ExampleArguments {
    /// Which one: shop, agent.
    name: String,
}

pub(crate) fn run_example(arguments: &ExampleArguments) -> Result<()> {
    let Some(example) = EXAMPLES.iter().find(|example| example.name == arguments.name) else {
        let names: Vec<&str> = EXAMPLES.iter().map(|example| example.name).collect();
        bail!("there is no example `{}`; there are {}", arguments.name, names.join(", "));
    };
    let folder = root().join("examples").join(example.name);
    guests::ensure()?;
    for (guest, capability) in example.guests {
        let module = guests::folder().join(format!("{guest}.wasm"));
        let place = folder.join("capabilities").join(capability).join(format!("{guest}.wasm"));
        fs::copy(&module, &place)
            .with_context(|| format!("cannot copy {} to {}", module.display(), place.display()))?;
    }
    run(cargo().args(["build", "--release", "--package", "mainspring"]))?;
    // The daemon takes this process's place, so that signals reach it.
    let program = root().join(crate::command::target_dir()).join("release/mainspring");
    let mut daemon = std::process::Command::new(&program);
    if let Some(prepare) = example.prepare {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(prepare(&folder, &program)?).chain(std::env::split_paths(&path));
        daemon.env("PATH", std::env::join_paths(folders)?);
    }
    daemon.arg("up").current_dir(&folder);
    let shown = show(&daemon);
    println!("in {}: {shown}", folder.display());
    Err(daemon.exec()).with_context(|| format!("cannot start `{shown}`"))
}

/// Links the SDK where Node looks for it, installs a Node that runs TypeScript, and tells how a
/// model is connected.
fn prepare_agent(folder: &Path, program: &Path) -> Result<PathBuf> {
    mcp::build(true)?;
    let node = sdk::node22()?;
    let modules = folder.join("capabilities/calendar/node_modules/@mainspring");
    fs::create_dir_all(&modules).with_context(|| format!("cannot create {}", modules.display()))?;
    let link = modules.join("sdk");
    if !link.exists() {
        symlink(root().join("sdk/typescript"), &link)
            .with_context(|| format!("cannot link {}", link.display()))?;
    }
    let (program, folder) = (program.display(), folder.display());
    println!(
        "Connect a model, in another terminal:\n  cd {folder} && {program} mcp install claude    # or cursor, vscode, codex, --print\n\
         then start the client in that folder and ask it to \"note what I have to buy, and book an hour tomorrow at ten\"."
    );
    Ok(node.parent().map(Path::to_owned).unwrap_or_default())
}
