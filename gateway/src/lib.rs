//! Locks on other systems, for the client of Quorlock: a connection in memory that answers a client's requests as a node does, and
//! carries each of them out on another system.
//!
//! Invariants: a request is a grant only once the other system has said so. What a system cannot do is refused, with the
//! name of the system. A client's scripts are known by their text, and any other is refused.
//!
//! The client's rules do not change: one such address is a cluster of one node, whose one vote is the majority.

#[cfg(any(feature = "etcd", feature = "postgresql", feature = "redis-cluster"))]
mod connection;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(any(feature = "etcd", feature = "postgresql", feature = "redis-cluster"))]
mod listing;
#[cfg(feature = "postgresql")]
pub mod postgresql;
#[cfg(feature = "redis-cluster")]
pub mod redis_cluster;
#[cfg(any(feature = "etcd", feature = "postgresql", feature = "redis-cluster"))]
mod reply;
#[cfg(any(feature = "etcd", feature = "postgresql", feature = "redis-cluster"))]
mod request;
#[cfg(any(feature = "etcd", feature = "postgresql", feature = "redis-cluster"))]
mod request_bytes;
#[cfg(any(feature = "etcd", feature = "postgresql", feature = "redis-cluster"))]
mod system;

#[cfg(any(feature = "etcd", feature = "postgresql", feature = "redis-cluster"))]
pub use connection::Gateway;
