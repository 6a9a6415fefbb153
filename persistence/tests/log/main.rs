//! The log as its users see it, on disks that break in every way. One program, so that it links once.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod breaks;
mod changed;
mod checkpoints;
mod direct;
mod directories;
mod failures;
mod full_disk;
mod inspections;
mod looks;
mod names;
mod power_loss;
mod repairs;
mod resuming;
mod round_trip;
mod small_log;
