//! What tells other programs of the node: its pid file, and the way to systemd (the directives `pidfile` and `supervised`).

use std::env;
use std::ffi::OsStr;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// A pid file, removed at a clean end if it is still the one.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl PidFile {
    /// Writes the file. As in Redis, a node runs without one that cannot be written.
    pub(super) fn create(path: PathBuf) -> Option<Self> {
        match write_pid(&path) {
            Ok(about) => Some(Self {
                path,
                device: about.dev(),
                inode: about.ino(),
            }),
            Err(error) => {
                tracing::warn!("Failed to write PID file {}: {error}", path.display());
                None
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let is_this = fs::symlink_metadata(&self.path)
            .is_ok_and(|about| (about.dev(), about.ino()) == (self.device, self.inode));
        if is_this {
            let _already_gone = fs::remove_file(&self.path);
        }
    }
}

/// Writes the process id to a file of its owner alone that has this name alone: what a link stands for is not this node's to overwrite.
fn write_pid(path: &Path) -> io::Result<Metadata> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    // A pipe without a reader fails at once.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = options.custom_flags(flags.bits() as i32).open(path);
    let mut file = match opened {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(io::Error::other("it is a link, which is not followed"));
        }
        opened => opened?,
    };
    let about = file.metadata()?;
    if !about.is_file() || about.nlink() != 1 {
        let text = "it is no plain file with one name, and stays as it is";
        return Err(io::Error::other(text));
    }
    file.set_len(0)?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes())?;
    Ok(about)
}

/// Whether systemd wants to know of this process.
pub(crate) fn is_notified() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some()
}

/// Tells systemd that the process accepts connections, if systemd has started it.
pub(crate) fn notify_ready() {
    notify("READY=1\n");
}

/// Tells systemd what the process is doing, in words that `systemctl status` shows.
pub(crate) fn notify_status(status: &str) {
    notify(&format!("STATUS={}\n", status.replace('\n', " ")));
}

/// Sends lines in the form of sd_notify(3), if systemd has started the process. That it does not take them is said once.
pub(super) fn notify(text: &str) {
    static IS_LOST: AtomicBool = AtomicBool::new(false);
    let Some(name) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let sent = send(&name, text);
    let was_lost = IS_LOST.swap(sent.is_err(), Ordering::Relaxed);
    if let Err(error) = sent
        && !was_lost
    {
        let text = text.trim_end().replace('\n', " ");
        tracing::warn!("cannot send {text} to systemd: {error}");
    }
}

const SEND_MAX: Duration = Duration::from_millis(250);

fn send(name: &OsStr, text: &str) -> io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // Signals wait behind this: a node stops also where nobody reads.
    socket.set_write_timeout(Some(SEND_MAX))?;
    socket.send_to_addr(text.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc;

    use super::*;

    /// Planted: no time limit, and the node waits for a reader that never comes.
    #[test]
    fn a_socket_of_systemd_that_nobody_reads_holds_up_nobody() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("notify");
        let _unread = UnixDatagram::bind(&path).unwrap();
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            // Linux queues 10 datagrams, or as many as an administrator allows.
            let refused = (0..100_000).find_map(|_| send(path.as_os_str(), "STATUS=on\n").err());
            done.send(refused).unwrap();
        });
        let refused = ended.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::WouldBlock);
        // One of another kind takes nothing at all.
        let path = home.path().join("stream");
        let _other = UnixListener::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1\n").unwrap_err();
    }

    #[test]
    fn a_pid_file_is_written_through_no_link_and_removed_only_as_the_own() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let pid = format!("{}\n", std::process::id());
        fs::write(at("precious"), "precious").unwrap();
        symlink(at("precious"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        fs::hard_link(at("precious"), at("second name")).unwrap();
        for name in ["link", "dangling", "second name", ""] {
            assert!(PidFile::create(at(name)).is_none(), "{name}");
        }
        assert_eq!(fs::read_to_string(at("precious")).unwrap(), "precious");
        assert!(!at("nothing").exists());
        // Of an earlier run, and longer.
        fs::write(at("pid"), "of an earlier run").unwrap();
        let file = PidFile::create(at("pid"));
        assert_eq!(fs::read_to_string(at("pid")).unwrap(), pid);
        drop(file);
        assert!(!at("pid").exists());
        let file = PidFile::create(at("pid"));
        assert_eq!(fs::metadata(at("pid")).unwrap().mode() & 0o777, 0o600);
        fs::rename(at("precious"), at("pid")).unwrap();
        drop(file);
        assert!(at("pid").exists(), "it is another's by now");
    }
}
