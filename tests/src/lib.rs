//! What several test targets share: the binary under test.
//!
//! It holds no tests itself.

pub mod binary;
