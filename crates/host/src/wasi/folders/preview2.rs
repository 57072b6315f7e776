//! Calls of `wasi:filesystem` that change what is in a folder, and the streams of files.

use super::Account;
use super::account::{ENTRY_BYTES, OpenStream};
use crate::guest::confined::Confined;
use crate::guest::state::GuestState;
use crate::wasi::HasWasi;
use bytes::Bytes;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, FsResult, InputStream, OutputStream, Pollable, StreamError, StreamResult,
};

/// The interface's full name.
const TYPES: &str = "wasi:filesystem/types@0.2.12";

/// The result of a call: an error that the guest gets, or one that ends it.
type Outcome<T> = wasmtime::Result<(Result<T, ErrorCode>,)>;

fn outcome<T>(result: FsResult<T>) -> Outcome<T> {
    match result {
        Ok(value) => Ok((Ok(value),)),
        Err(error) => error.downcast().map(|code| (Err(code),)),
    }
}

/// Replaces the calls.
pub(in crate::wasi) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(TYPES)?;
    /// A call with its arguments, carried out by a method of [`Files`].
    macro_rules! replaced {
        ($($name:literal => $method:ident($($argument:ident: $type:ty),*);)*) => {$(
            types.func_wrap_async(
                concat!("[method]descriptor.", $name),
                |mut store: StoreContextMut<'_, GuestState>, ($($argument,)*): ($($type,)*)| {
                    Box::new(Confined::new(async move {
                        outcome(Files::new(store.data_mut()).$method($($argument),*).await)
                    }))
                },
            )?;
        )*};
    }
    replaced! {
        "read-via-stream" => read_via_stream(file: Resource<Descriptor>, offset: u64);
        "write-via-stream" => write_via_stream(file: Resource<Descriptor>, offset: u64);
        "append-via-stream" => append_via_stream(file: Resource<Descriptor>);
        "write" => write(file: Resource<Descriptor>, bytes: Vec<u8>, offset: u64);
        "set-size" => set_size(file: Resource<Descriptor>, size: u64);
        "open-at" => open_at(
            folder: Resource<Descriptor>, lookup: PathFlags, path: String, how: OpenFlags, flags: DescriptorFlags
        );
        "create-directory-at" => create_directory_at(folder: Resource<Descriptor>, path: String);
        "symlink-at" => symlink_at(folder: Resource<Descriptor>, target: String, path: String);
        "link-at" => link_at(
            from: Resource<Descriptor>, lookup: PathFlags, from_path: String, to: Resource<Descriptor>, to_path: String
        );
        "rename-at" => rename_at(
            from: Resource<Descriptor>, from_path: String, to: Resource<Descriptor>, to_path: String
        );
        "unlink-file-at" => unlink_file_at(folder: Resource<Descriptor>, path: String);
        "remove-directory-at" => remove_directory_at(folder: Resource<Descriptor>, path: String);
    }
    linker.allow_shadowing(false);
    Ok(())
}

/// wasmtime-wasi's view of a guest's files, and the guest's account.
struct Files<'a> {
    files: WasiFilesystemCtxView<'a>,
    account: Account,
}

/// The same descriptor, once more.
fn again(descriptor: &Resource<Descriptor>) -> Resource<Descriptor> {
    Resource::new_borrow(descriptor.rep())
}

/// An entry of a folder.
struct Entry {
    stat: DescriptorStat,
    file: u64,
}

impl Entry {
    /// What its content counts for when this name of it goes.
    fn content(&self) -> u64 {
        let is_last = self.stat.type_ == DescriptorType::RegularFile && self.stat.link_count <= 1;
        if is_last { self.stat.size } else { 0 }
    }
}

impl<'a> Files<'a> {
    fn new(state: &'a mut GuestState) -> Files<'a> {
        let wasi = state.wasi();
        Files { account: wasi.account.clone(), files: wasi.preview1.filesystem() }
    }

    /// Takes room. Descriptors are closed without a word, so those that are gone are looked for
    /// before it is refused.
    fn take(&mut self, bytes: u64) -> FsResult<()> {
        if self.account.try_take(bytes) {
            return Ok(());
        }
        let table = &self.files.table;
        self.account.close_unless(|number| table.get(&Resource::<Descriptor>::new_borrow(number)).is_ok());
        self.account.take(bytes).map_err(|_| ErrorCode::InsufficientSpace.into())
    }

    async fn size(&mut self, file: &Resource<Descriptor>) -> u64 {
        let stat = if self.account.is_limited() { self.files.stat(again(file)).await.ok() } else { None };
        stat.map_or(0, |stat| stat.size)
    }

    async fn entry(&mut self, folder: &Resource<Descriptor>, lookup: PathFlags, path: &str) -> Option<Entry> {
        if !self.account.is_limited() {
            return None;
        }
        let stat = self.files.stat_at(again(folder), lookup, path.to_owned()).await.ok()?;
        let hash = self.files.metadata_hash_at(again(folder), lookup, path.to_owned()).await.ok()?;
        Some(Entry { stat, file: hash.lower })
    }

    /// Does something that makes an entry.
    async fn making<T>(&mut self, make: impl AsyncFnOnce(&mut Self) -> FsResult<T>) -> FsResult<T> {
        self.take(ENTRY_BYTES)?;
        let made = make(self).await;
        if made.is_err() {
            self.account.give_back(ENTRY_BYTES);
        }
        made
    }

    async fn read_via_stream(
        &mut self,
        file: Resource<Descriptor>,
        offset: u64,
    ) -> FsResult<Resource<DynInputStream>> {
        let number = file.rep();
        let stream = self.files.read_via_stream(file, offset)?;
        if self.account.is_limited() {
            let kept = self.account.stream_of(number);
            let slot = self.files.table.get_mut(&stream)?;
            let inner = std::mem::replace(slot, Box::new(Gone));
            *slot = Box::new(FileReader { inner, _kept: kept });
        }
        Ok(stream)
    }

    async fn write_via_stream(
        &mut self,
        file: Resource<Descriptor>,
        offset: u64,
    ) -> FsResult<Resource<DynOutputStream>> {
        let (number, size) = (file.rep(), self.size(&file).await);
        let stream = self.files.write_via_stream(file, offset)?;
        self.count_stream(&stream, number, Some(offset), size)?;
        Ok(stream)
    }

    async fn append_via_stream(&mut self, file: Resource<Descriptor>) -> FsResult<Resource<DynOutputStream>> {
        let (number, size) = (file.rep(), self.size(&file).await);
        let stream = self.files.append_via_stream(file)?;
        self.count_stream(&stream, number, None, size)?;
        Ok(stream)
    }

    /// Puts the account between the guest and a stream that writes.
    fn count_stream(
        &mut self,
        stream: &Resource<DynOutputStream>,
        number: u32,
        position: Option<u64>,
        size: u64,
    ) -> FsResult<()> {
        if self.account.is_limited() {
            let kept = self.account.stream_of(number);
            let times_shortened = self.account.times_shortened();
            let slot = self.files.table.get_mut(stream)?;
            let inner = std::mem::replace(slot, Box::new(Gone));
            *slot = Box::new(FileWriter { inner, kept, position, size, times_shortened });
        }
        Ok(())
    }

    async fn write(&mut self, file: Resource<Descriptor>, bytes: Vec<u8>, offset: u64) -> FsResult<u64> {
        let size = self.size(&file).await;
        let growth = offset.saturating_add(bytes.len() as u64).saturating_sub(size);
        self.take(growth)?;
        let written = self.files.write(file, bytes, offset).await;
        let end = written.as_ref().map_or(0, |written| offset.saturating_add(*written));
        self.account.give_back(growth.saturating_sub(end.saturating_sub(size)));
        written
    }

    async fn set_size(&mut self, file: Resource<Descriptor>, size: u64) -> FsResult<()> {
        let before = self.size(&file).await;
        let growth = if self.account.is_limited() { size.saturating_sub(before) } else { 0 };
        self.take(growth)?;
        let set = self.files.set_size(file, size).await;
        match &set {
            Ok(()) => self.account.shortened(before.saturating_sub(size)),
            Err(_) => self.account.give_back(growth),
        }
        set
    }

    async fn open_at(
        &mut self,
        folder: Resource<Descriptor>,
        lookup: PathFlags,
        path: String,
        how: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let changes = how.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE);
        let before = if changes { self.entry(&folder, lookup, &path).await } else { None };
        let open = async |this: &mut Self| this.files.open_at(folder, lookup, path, how, flags).await;
        let opened = if how.contains(OpenFlags::CREATE) && before.is_none() {
            self.making(open).await?
        } else {
            open(self).await?
        };
        if how.contains(OpenFlags::TRUNCATE) {
            let regular = before.filter(|entry| entry.stat.type_ == DescriptorType::RegularFile);
            self.account.shortened(regular.map_or(0, |entry| entry.stat.size));
        }
        if self.account.is_limited()
            && matches!(self.files.table.get(&opened)?, Descriptor::File(_))
            && let Ok(hash) = self.files.metadata_hash(again(&opened)).await
        {
            self.account.opened(opened.rep(), hash.lower);
        }
        Ok(opened)
    }

    async fn create_directory_at(&mut self, folder: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.making(async |this| this.files.create_directory_at(folder, path).await).await
    }

    async fn symlink_at(
        &mut self,
        folder: Resource<Descriptor>,
        target: String,
        path: String,
    ) -> FsResult<()> {
        self.making(async |this| this.files.symlink_at(folder, target, path).await).await
    }

    async fn link_at(
        &mut self,
        from: Resource<Descriptor>,
        lookup: PathFlags,
        from_path: String,
        to: Resource<Descriptor>,
        to_path: String,
    ) -> FsResult<()> {
        self.making(async |this| this.files.link_at(from, lookup, from_path, to, to_path).await).await
    }

    async fn rename_at(
        &mut self,
        from: Resource<Descriptor>,
        from_path: String,
        to: Resource<Descriptor>,
        to_path: String,
    ) -> FsResult<()> {
        let moved = self.entry(&from, PathFlags::empty(), &from_path).await;
        let replaced = self.entry(&to, PathFlags::empty(), &to_path).await;
        self.files.rename_at(from, from_path, to, to_path).await?;
        if let (Some(moved), Some(replaced)) = (moved, replaced) {
            // Two names of one file stay as they are.
            if moved.file != replaced.file {
                self.account.removed(replaced.file, replaced.content());
            }
        }
        Ok(())
    }

    async fn unlink_file_at(&mut self, folder: Resource<Descriptor>, path: String) -> FsResult<()> {
        let entry = self.entry(&folder, PathFlags::empty(), &path).await;
        self.files.unlink_file_at(folder, path).await?;
        if let Some(entry) = entry {
            self.account.removed(entry.file, entry.content());
        }
        Ok(())
    }

    async fn remove_directory_at(&mut self, folder: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.files.remove_directory_at(folder, path).await?;
        self.account.give_back(ENTRY_BYTES);
        Ok(())
    }
}

/// Stands in for a stream while it is wrapped.
struct Gone;

#[async_trait::async_trait]
impl Pollable for Gone {
    async fn ready(&mut self) {}
}

impl InputStream for Gone {
    fn read(&mut self, _size: usize) -> StreamResult<Bytes> {
        Err(StreamError::Closed)
    }
}

impl OutputStream for Gone {
    fn write(&mut self, _bytes: Bytes) -> StreamResult<()> {
        Err(StreamError::Closed)
    }

    fn flush(&mut self) -> StreamResult<()> {
        Err(StreamError::Closed)
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Err(StreamError::Closed)
    }
}

/// A stream that reads a file, and keeps it open in the account.
struct FileReader {
    inner: DynInputStream,
    _kept: OpenStream,
}

#[async_trait::async_trait]
impl Pollable for FileReader {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}

#[async_trait::async_trait]
impl InputStream for FileReader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.inner.read(size)
    }

    fn skip(&mut self, count: usize) -> StreamResult<usize> {
        self.inner.skip(count)
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

/// A stream that writes a file, as far as the account goes.
struct FileWriter {
    inner: DynOutputStream,
    kept: OpenStream,
    /// Where it writes next; `None` if it appends.
    position: Option<u64>,
    /// The file's size, as far as it is known.
    size: u64,
    /// How often files had been made shorter when that was known.
    times_shortened: u64,
}

impl FileWriter {
    /// How much longer the file becomes by so many bytes.
    fn growth(&self, bytes: u64) -> u64 {
        match self.position {
            // A file that was made shorter meanwhile may be this one.
            Some(position) if self.kept.account.times_shortened() == self.times_shortened => {
                position.saturating_add(bytes).saturating_sub(self.size)
            }
            _ => bytes,
        }
    }
}

#[async_trait::async_trait]
impl Pollable for FileWriter {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}

#[async_trait::async_trait]
impl OutputStream for FileWriter {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let count = bytes.len() as u64;
        let growth = self.growth(count);
        if self.kept.account.take(growth).is_err() {
            let full = std::io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
            return Err(StreamError::LastOperationFailed(full.into()));
        }
        let written = self.inner.write(bytes);
        if written.is_err() {
            self.kept.account.give_back(growth);
            return written;
        }
        self.position = self.position.map(|position| position.saturating_add(count));
        self.size = self.size.max(self.position.unwrap_or(0));
        written
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.inner.check_write()
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}
