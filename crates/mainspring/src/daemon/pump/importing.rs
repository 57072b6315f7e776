//! The pump's side of the uplink: imported capabilities come and go.

use super::Pump;
use crate::daemon::kernel_cell::KernelCell;
use crate::daemon::operator::reload::Stamped;
use crate::daemon::uplink::{Bridge, Kept};
use crate::settings::{Capability, Program, Settings};
use mainspring_kernel::{Change, Manifest};
use mainspring_reactor::Handle;
use mainspring_uplink::{IMPORT_PREFIX, ImportChange};
use std::rc::Rc;

/// An imported capability.
fn capability(manifest: Manifest) -> Capability {
    let id = manifest.id.strip_prefix(IMPORT_PREFIX).unwrap_or(&manifest.id).to_owned();
    Capability { manifest, program: Program::Uplink(id), file: None }
}

/// Takes what is the uplink's out of what the journal keeps.
pub(super) fn take_kept(values: &mut Kept) -> Kept {
    let own: Vec<Box<str>> = values.keys().filter(|store| store.starts_with("uplink.")).cloned().collect();
    own.into_iter().filter_map(|store| values.remove_entry(&store)).collect()
}

/// Makes the uplink that the settings ask for, if they do. What an earlier run imported is among
/// the capabilities then.
pub(super) fn begin(
    mut settings: Settings,
    kept: &Kept,
    nonce: u64,
    kernel_cell: &Rc<KernelCell>,
    reactor: &Handle,
) -> Result<(Option<Rc<Bridge>>, Settings), String> {
    let Some((bridge, imported)) = Bridge::start(&settings, kept, nonce, kernel_cell, reactor)? else {
        return Ok((None, settings));
    };
    settings.capabilities.extend(imported.into_iter().map(capability));
    Ok((Some(bridge), settings))
}

impl Pump {
    /// Takes over what came from other nodes, and what that changes in the imports.
    pub(super) fn tend_uplink(&self) {
        let Some(uplink) = &self.uplink else { return };
        uplink.tend();
        self.adopt_imports(uplink);
    }

    fn adopt_imports(&self, uplink: &Bridge) {
        for change in uplink.take_changes() {
            let mut actors = self.actors.borrow_mut();
            let (id, change, stamped) = match change {
                ImportChange::Set(manifest) => {
                    let id = manifest.id.clone();
                    let change = match actors.contains(&id) {
                        true => Change::Replace((*manifest).clone()),
                        false => Change::Add((*manifest).clone()),
                    };
                    (id, change, Some((capability(*manifest), Vec::new())))
                }
                ImportChange::Remove(id) => (id.clone(), Change::Remove(id), None),
            };
            let changed = self.kernel_cell.feed(|kernel, now| kernel.reload(vec![change], now));
            let result = changed.map_err(|refused| refused.reason);
            if let Ok(numbers) = &result
                && let Some(number) = numbers.first()
            {
                actors.change(*number, stamped);
            }
            drop(actors);
            uplink.adopted(&id, result.map(drop));
        }
    }

    /// The capabilities of this node are about to be these.
    pub(super) fn serve_here(&self, capabilities: &[Stamped]) {
        let Some(uplink) = &self.uplink else { return };
        let manifests: Vec<&Manifest> =
            capabilities.iter().map(|(capability, _)| &capability.manifest).collect();
        uplink.set_capabilities(&manifests);
        self.adopt_imports(uplink);
    }
}
