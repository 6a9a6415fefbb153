//! The Unix socket that clients of this machine may use.
//!
//! Invariant: nothing but a socket on which nobody answers is ever removed to make room for it, and nothing but
//! itself when the node stops.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use socket2::{Domain, SockAddr, Socket, Type};

/// A socket that is listened on. Its name goes when this is dropped.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    listener: UnixListener,
    name: SocketName,
}

/// The name of a socket in the file system, as long as it is that socket's.
#[derive(Debug)]
pub(crate) struct SocketName {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl UnixSocket {
    /// Makes the socket with these permissions, or what the umask leaves of all; it never has wider ones.
    /// A socket on which nobody answers is what an ended process has left, and is replaced.
    ///
    /// # Errors
    /// When something else has this name, somebody answers there, or the system refuses.
    pub(crate) fn bind(path: &Path, permissions: u32, backlog: u32) -> io::Result<Self> {
        remove_stale(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        if permissions != 0 {
            // The system gives the file the mode of the socket, less the umask.
            fchmod(&socket, Mode::from_raw_mode(permissions))?;
        }
        socket.bind(&SockAddr::unix(path)?)?;
        let about = std::fs::symlink_metadata(path)?;
        let name = SocketName {
            path: path.to_owned(),
            device: about.dev(),
            inode: about.ino(),
        };
        if permissions != 0 {
            // What the umask took away was asked for.
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(permissions))?;
        }
        socket.listen(i32::try_from(backlog).expect("the configuration keeps it below 2^31"))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            listener: socket.into(),
            name,
        })
    }

    /// The socket, and its name to be kept for as long as it is listened on.
    pub(crate) fn into_parts(self) -> (UnixListener, SocketName) {
        (self.listener, self.name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.name.path
    }
}

impl Drop for SocketName {
    fn drop(&mut self) {
        let is_this = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|about| (about.dev(), about.ino()) == (self.device, self.inode));
        if is_this && let Err(error) = std::fs::remove_file(&self.path) {
            let path = self.path.display();
            tracing::warn!("the socket {path} could not be removed: {error}");
        }
    }
}

fn remove_stale(path: &Path) -> io::Result<()> {
    let about = match std::fs::symlink_metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !about.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "something that is no socket has this name, and stays",
        ));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process answers there",
        )),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}
