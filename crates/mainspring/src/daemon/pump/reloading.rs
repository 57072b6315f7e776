//! Reading the settings of a running daemon again.

use crate::daemon::operator::reload::{self, SettingsReader, Stamped};
use crate::daemon::pump::Pump;
use crate::daemon::pump::fixed::changed_keys;
use crate::settings::Settings;
use std::cell::Cell;
use std::rc::Rc;

/// How the settings are read again, and whether that is being done.
pub(super) struct Reloading {
    reader: Option<SettingsReader>,
    /// What the daemon was started with.
    started_with: Settings,
    stage: Cell<ReloadStage>,
}

impl Reloading {
    pub(super) fn new(reader: Option<SettingsReader>, started_with: Settings) -> Reloading {
        Reloading { reader, started_with, stage: Cell::new(ReloadStage::No) }
    }
}

/// Whether the settings are being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReloadStage {
    No,
    Yes,
    /// They were asked for again in the meantime.
    Again,
}

impl Pump {
    /// Reads the settings again and changes what has changed in the capabilities. The reading is
    /// done on another thread.
    pub(crate) fn reload(this: &Rc<Pump>) {
        let Some(reader) = this.reloading.reader.clone() else { return };
        if this.reloading.stage.get() != ReloadStage::No {
            return this.reloading.stage.set(ReloadStage::Again);
        }
        tracing::info!("reloading the configuration");
        let read = move || {
            reader().map(|mut settings| {
                let capabilities = reload::stamp(std::mem::take(&mut settings.capabilities));
                (settings, capabilities)
            })
        };
        let pump = Rc::clone(this);
        let begun = this.reactor.blocking(read).and_then(|reading| {
            this.reactor.spawn(async move {
                match reading.await {
                    Ok((settings, capabilities)) => pump.adopt(&settings, &capabilities),
                    Err(reason) => tracing::error!("the configuration was not reloaded: {reason}"),
                }
                pump.notifier.ready();
                if pump.reloading.stage.replace(ReloadStage::No) == ReloadStage::Again {
                    Pump::reload(&pump);
                }
            })
        });
        match begun {
            Ok(_) => {
                this.reloading.stage.set(ReloadStage::Yes);
                this.notifier.reloading();
            }
            Err(error) => tracing::error!("cannot reload the configuration: {error}"),
        }
    }

    /// Takes over the capabilities of new settings.
    fn adopt(&self, settings: &Settings, capabilities: &[Stamped]) {
        let keys = changed_keys(&self.reloading.started_with, settings);
        if !keys.is_empty() {
            tracing::warn!(
                "these keys have changed and take effect when the daemon is restarted: {}",
                keys.join(", ")
            );
        }
        let mut actors = self.actors.borrow_mut();
        let (changes, programs): (Vec<_>, Vec<_>) =
            reload::changes(&actors.capabilities(), capabilities).into_iter().unzip();
        if changes.is_empty() {
            return tracing::info!("no capability has changed");
        }
        // A refusal is logged by the kernel, and told as an event.
        if let Ok(changed) = self.kernel_cell.feed(|kernel, now| kernel.reload(changes, now)) {
            for (capability, program) in changed.into_iter().zip(programs) {
                actors.change(capability, program);
            }
        }
    }
}
