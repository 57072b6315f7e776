//! Reading the settings of a running daemon again.

use crate::daemon::operator::reload::{self, SettingsReader, Stamped};
use crate::daemon::pump::Pump;
use crate::daemon::pump::fixed::changed_keys;
use crate::settings::Settings;
use mainspring_kernel::{Change, SettingsRefused};
use mainspring_message::Json;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// How the settings are read again, and whether that is being done.
pub(super) struct Reloading {
    reader: Option<SettingsReader>,
    /// What the daemon was started with.
    started_with: Settings,
    stage: Cell<ReloadStage>,
    /// Capabilities that are to be started anew though nothing that their settings name has
    /// changed.
    touched: RefCell<BTreeSet<String>>,
    /// Who asked for it by message, and waits for what has changed.
    asked: Cell<Option<u64>>,
}

impl Reloading {
    pub(super) fn new(reader: Option<SettingsReader>, started_with: Settings) -> Reloading {
        Reloading {
            reader,
            started_with,
            stage: Cell::new(ReloadStage::No),
            touched: RefCell::default(),
            asked: Cell::new(None),
        }
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
                let adopted = match reading.await {
                    Ok((settings, capabilities)) => pump.adopt(&settings, &capabilities),
                    Err(reason) => {
                        tracing::error!("the configuration was not reloaded: {reason}");
                        Err(reason)
                    }
                };
                if let Some(ticket) = pump.reloading.asked.take() {
                    let result = adopted.map(Json::from).map_err(SettingsRefused::Faulty);
                    pump.kernel_cell.feed(|kernel, now| kernel.settings_read(ticket, result, now));
                }
                if let Some(watch) = &*pump.file_watch.borrow() {
                    watch.follow(&pump);
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

    /// The same, and starts these capabilities anew whatever has changed.
    pub(crate) fn reload_touched(this: &Rc<Pump>, capabilities: BTreeSet<String>) {
        this.reloading.touched.borrow_mut().extend(capabilities);
        Pump::reload(this);
    }

    /// Lets somebody look at the capabilities there are.
    pub(crate) fn with_capabilities<R>(&self, look: impl FnOnce(&[&Stamped]) -> R) -> R {
        look(&self.actors.borrow().capabilities())
    }

    /// Takes over the capabilities of new settings.
    fn adopt(&self, settings: &Settings, capabilities: &[Stamped]) -> Result<Value, String> {
        let keys = changed_keys(&self.reloading.started_with, settings);
        if !keys.is_empty() {
            tracing::warn!(
                "these keys have changed and take effect when the daemon is restarted: {}",
                keys.join(", ")
            );
        }
        // What is served here from now on is not sent to others any more.
        self.serve_here(capabilities);
        let mut actors = self.actors.borrow_mut();
        let touched = self.reloading.touched.take();
        let (changes, programs): (Vec<_>, Vec<_>) =
            reload::changes(&actors.capabilities(), capabilities, &touched).into_iter().unzip();
        let told = told(&changes, &keys);
        if changes.is_empty() {
            tracing::info!("no capability has changed");
            return Ok(told);
        }
        // A refusal is logged by the kernel, and told as an event.
        let changed = self.kernel_cell.feed(|kernel, now| kernel.reload(changes, now));
        let changed = changed.map_err(|refused| refused.reason)?;
        for (capability, program) in changed.into_iter().zip(programs) {
            actors.change(capability, program);
        }
        Ok(told)
    }

    /// Reads the settings again for somebody who asked by message.
    pub(crate) fn reload_for(this: &Rc<Pump>, ticket: u64) {
        let refused = if this.reloading.reader.is_none() {
            SettingsRefused::Nothing
        } else if this.reloading.stage.get() != ReloadStage::No {
            SettingsRefused::Busy
        } else {
            this.reloading.asked.set(Some(ticket));
            return Pump::reload(this);
        };
        this.kernel_cell.feed(|kernel, now| kernel.settings_read(ticket, Err(refused), now));
    }
}

/// What a reload changes, for whoever asked for it.
fn told(changes: &[Change], keys: &[String]) -> Value {
    let of = |wanted: fn(&Change) -> bool| -> Vec<&str> {
        changes.iter().filter(|change| wanted(change)).map(Change::id).collect()
    };
    let notes =
        keys.iter().map(|key| format!("{key} has changed, and takes effect when the daemon is restarted"));
    json!({
        "added": of(|change| matches!(change, Change::Add(_))),
        "changed": of(|change| matches!(change, Change::Replace(_) | Change::Restart(_))),
        "removed": of(|change| matches!(change, Change::Remove(_))),
        "notes": notes.collect::<Vec<_>>(),
    })
}
