//! The little of a file system that a journal needs, so that tests can stand in for it.

use std::io;

/// A folder that holds nothing but one journal. Names are plain file names.
pub trait Folder {
    /// An open file of it.
    type File: File;

    /// The names of all files.
    ///
    /// # Errors
    /// Whatever the system says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes a file that is not there yet.
    ///
    /// # Errors
    /// `AlreadyExists` if it is there, and whatever the system says.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Opens a file that is there, to be read and written.
    ///
    /// # Errors
    /// `NotFound` if it is not there, and whatever the system says.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Gives a file another name; a file of that name is replaced. Durable after [`Folder::sync`].
    ///
    /// # Errors
    /// Whatever the system says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Deletes a file. Durable after [`Folder::sync`].
    ///
    /// # Errors
    /// Whatever the system says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes names durable: what was created, renamed and removed.
    ///
    /// # Errors
    /// Whatever the system says.
    fn sync(&self) -> io::Result<()>;
}

/// The same folder for several owners: the thread that writes, and one that makes a snapshot.
impl<T: Folder> Folder for std::sync::Arc<T> {
    type File = T::File;

    fn list(&self) -> io::Result<Vec<String>> {
        (**self).list()
    }

    fn create(&self, name: &str) -> io::Result<T::File> {
        (**self).create(name)
    }

    fn open(&self, name: &str) -> io::Result<T::File> {
        (**self).open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        (**self).rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        (**self).remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        (**self).sync()
    }
}

/// An open file.
pub trait File {
    /// Its length in bytes.
    ///
    /// # Errors
    /// Whatever the system says.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has no bytes.
    ///
    /// # Errors
    /// Whatever the system says.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills the buffer from an offset.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before that, and whatever the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes at an offset; the file grows if need be. Durable after [`File::sync`].
    ///
    /// # Errors
    /// Whatever the system says. Some of the bytes may have been written then.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes content and length durable.
    ///
    /// # Errors
    /// Whatever the system says. What had been written before may be lost then, though it can still
    /// be read.
    fn sync(&self) -> io::Result<()>;

    /// Makes content durable, then lets go of whatever only memory holds, so that what is read next
    /// is what the disk has. After a failed flush a system may go on showing bytes that never
    /// reached the disk.
    ///
    /// # Errors
    /// Whatever the system says.
    fn settle(&self) -> io::Result<()>;
}
