//! The Unix socket that clients of this machine may use.
//!
//! Invariant: nothing but a socket on which nobody answers is ever removed to make room for it, and nothing but
//! itself when the node stops. No link is followed, so that nothing else gets the socket's permissions.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, chmod, fchmod, fstat, openat};
use rustix::process::geteuid;
use socket2::{Domain, SockAddr, Socket, Type};

/// A socket that is listened on. Its name goes when this is dropped, if it was made here.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    name: Option<SocketName>,
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
        let socket = bound(path, permissions)?;
        let about = std::fs::symlink_metadata(path)?;
        let name = SocketName {
            path: path.to_owned(),
            device: about.dev(),
            inode: about.ino(),
        };
        if permissions != 0 {
            // What the umask took away was asked for.
            set_permissions(path, Mode::from_raw_mode(permissions))?;
        }
        socket.listen(i32::try_from(backlog).expect("the configuration keeps it below 2^31"))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            listener: socket.into(),
            path: path.to_owned(),
            name: Some(name),
        })
    }

    /// A socket that whoever started the process has made, and whose name is theirs.
    ///
    /// # Errors
    /// When it has no name in the file system.
    pub(crate) fn opened(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let path = address.as_pathname().map(Path::to_owned);
        Ok(Self {
            listener,
            path: path.ok_or_else(|| io::Error::other("it has no name in the file system"))?,
            name: None,
        })
    }

    /// The socket, and its name to be kept for as long as it is listened on.
    pub(crate) fn into_parts(self) -> (UnixListener, Option<SocketName>) {
        (self.listener, self.name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Binds a socket whose file has no wider permissions than these from the first moment on; with 0, those that the umask leaves.
fn bound(path: &Path, permissions: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    if permissions != 0 {
        // The system gives the file the mode of the socket, less the umask.
        fchmod(&socket, Mode::from_raw_mode(permissions))?;
    }
    socket.bind(&SockAddr::unix(path)?)?;
    Ok(socket)
}

/// Sets the mode of a socket of this user. The name may have been given to something else since it was made, so that
/// what it means now is opened, without following links, looked at, and changed by its descriptor.
fn set_permissions(path: &Path, mode: Mode) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let named = openat(CWD, path, flags, Mode::empty())?;
    let about = fstat(&named)?;
    let is_socket = FileType::from_raw_mode(about.st_mode) == FileType::Socket;
    if is_socket && Mode::from_raw_mode(about.st_mode) == mode {
        return Ok(());
    }
    if !is_socket || about.st_uid != geteuid().as_raw() || about.st_nlink != 1 {
        return Err(io::Error::other(
            "something else was given this name while the socket was made, and stays as it is",
        ));
    }
    chmod(format!("/proc/self/fd/{}", named.as_raw_fd()), mode)?;
    Ok(())
}

/// Whether users besides its owner and group may replace what is in a directory. A sticky one protects what is in it.
pub(crate) fn is_replaceable_in(directory: &Path) -> bool {
    std::fs::metadata(directory).is_ok_and(|about| about.mode() & 0o1002 == 0o002)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_socket_gets_its_permissions() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let mode = |name: &str| fs::symlink_metadata(at(name)).unwrap().mode() & 0o777;
        let wide = Mode::from_raw_mode(0o777);
        fs::write(at("secret"), "").unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        for name in ["secret", "socket"] {
            fs::set_permissions(at(name), Permissions::from_mode(0o600)).unwrap();
        }
        symlink(at("secret"), at("link")).unwrap();
        symlink(at("socket"), at("socket link")).unwrap();
        fs::hard_link(at("socket"), at("second name")).unwrap();
        for name in ["secret", "link", "socket link", "socket"] {
            set_permissions(&at(name), wide).unwrap_err();
        }
        fs::remove_file(at("second name")).unwrap();
        assert_eq!((mode("secret"), mode("socket")), (0o600, 0o600));
        set_permissions(&at("socket"), wide).unwrap();
        assert_eq!((mode("secret"), mode("socket")), (0o600, 0o777));
    }

    #[test]
    fn a_socket_has_no_wider_permissions_at_any_moment() {
        let home = tempfile::tempdir().unwrap();
        for permissions in [0o700, 0o770, 0o600] {
            let path = home.path().join(format!("{permissions:o}"));
            let _socket = bound(&path, permissions).unwrap();
            let mode = fs::symlink_metadata(&path).unwrap().mode() & 0o777;
            assert_eq!(mode & !permissions, 0, "{mode:o} for {permissions:o}");
        }
    }

    #[test]
    fn a_directory_that_all_may_write_is_told_from_a_sticky_one() {
        let home = tempfile::tempdir().unwrap();
        for (mode, is_replaceable) in [
            (0o755, false),
            (0o775, false),
            (0o1777, false),
            (0o777, true),
        ] {
            fs::set_permissions(home.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_replaceable_in(home.path()), is_replaceable, "{mode:o}");
        }
    }
}
