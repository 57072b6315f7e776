//! `componentize MODULE COMPONENT`: makes a component of a module for WASI preview 1, with the
//! adapter that translates between the two.

use std::error::Error;
use std::process::ExitCode;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
};
use wit_component::ComponentEncoder;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [module, component] = words.as_slice() else {
        eprintln!("usage: componentize MODULE COMPONENT");
        return ExitCode::from(2);
    };
    match componentize(module, component) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("componentize: {module}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn componentize(module: &str, component: &str) -> Result<(), Box<dyn Error>> {
    let module = std::fs::read(module)?;
    let bytes = ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER)?
        .encode()?;
    Ok(std::fs::write(component, bytes)?)
}
