//! Certificates for tests of TLS, as files: of a node, of a client, expired ones, and those of another authority.
//!
//! They are in the sources, made by `testkit/certificates/make.sh`: packages that test without a C compiler have none that
//! could make any.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A folder of certificates, which is not removed.
#[derive(Clone, Debug)]
pub struct Certificates(PathBuf);

impl Certificates {
    /// Writes all of them into this folder.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn write_to(folder: &Path) -> Self {
        for (name, text) in FILES {
            let path = folder.join(name);
            fs::write(&path, text).expect("the folder of a test can be written");
            let owner = fs::Permissions::from_mode(0o600);
            fs::set_permissions(&path, owner).expect("the file is ours");
        }
        Self(folder.to_owned())
    }

    /// The path of one of them, such as `node.pem` and its `node.key`.
    ///
    /// # Panics
    ///
    /// If there is none of this name.
    pub fn path(&self, name: &str) -> String {
        assert!(FILES.iter().any(|(known, _)| *known == name), "{name}");
        self.0.join(name).display().to_string()
    }
}

/// The text of one of them.
///
/// # Panics
///
/// If there is none of this name.
pub fn certificate(name: &str) -> &'static str {
    let found = FILES.iter().find(|(known, _)| *known == name);
    found.expect("there is such a certificate").1
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../certificates/", $name)))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "authority.pem",
    "other-authority.pem",
    "node.pem",
    "node.key",
    "second-node.pem",
    "second-node.key",
    "expired-node.pem",
    "expired-node.key",
    "elsewhere-node.pem",
    "elsewhere-node.key",
    "other-node.pem",
    "other-node.key",
    "client.pem",
    "client.key",
    "expired-client.pem",
    "expired-client.key",
    "other-client.pem",
    "other-client.key",
];
