//! A value of many parts: the one place that knows all types of them.

use std::sync::Arc;

use crate::keyspace::fields::Fields;
use crate::keyspace::list::{End, List};
use crate::keyspace::members::Members;
use crate::keyspace::shared_holders::SharedHolders;
use crate::keyspace::sorted_set::SortedSet;

/// A value of many parts. A new type of value is one more variant here.
#[derive(Clone, Debug)]
pub enum Collection {
    /// Fields with values.
    Hash(Box<Fields>),
    /// Elements in their order.
    List(Box<List>),
    /// Members, each of them once.
    Set(Box<Members>),
    /// Members with scores.
    SortedSet(Box<SortedSet>),
    /// Those who hold a lock shared, each with an end.
    SharedLock(Box<SharedHolders>),
}

/// A type of collection, which a [`Collection`] may be.
pub(crate) trait Kind: Sized {
    /// The collection, if it is of this type.
    fn of(collection: &Collection) -> Option<&Self>;
    /// How many parts it has.
    fn length(&self) -> usize;
}

/// Which variant is of which type.
macro_rules! kinds {
    ($($kind:ty => $variant:ident,)*) => {$(
        impl Kind for $kind {
            fn of(collection: &Collection) -> Option<&Self> {
                match collection {
                    Collection::$variant(it) => Some(it),
                    _ => None,
                }
            }

            fn length(&self) -> usize {
                self.len()
            }
        }

        impl From<$kind> for Collection {
            fn from(it: $kind) -> Self {
                Collection::$variant(Box::new(it))
            }
        }
    )*};
}

kinds! {
    Fields => Hash,
    List => List,
    Members => Set,
    SortedSet => SortedSet,
    SharedHolders => SharedLock,
}

/// What each of them has a method of the same name for.
macro_rules! each {
    ($collection:expr, $it:ident => $answer:expr) => {
        match $collection {
            Collection::Hash($it) => $answer,
            Collection::List($it) => $answer,
            Collection::Set($it) => $answer,
            Collection::SortedSet($it) => $answer,
            Collection::SharedLock($it) => $answer,
        }
    };
}

impl Collection {
    /// The name TYPE answers.
    pub fn type_name(&self) -> &'static str {
        match self {
            Collection::Hash(_) => "hash",
            Collection::List(_) => "list",
            Collection::Set(_) => "set",
            Collection::SortedSet(_) => "zset",
            Collection::SharedLock(_) => "quorlock-shared-lock",
        }
    }

    /// How it is kept, in the words of OBJECT ENCODING that come closest.
    pub(crate) fn encoding(&self) -> &'static str {
        match self {
            Collection::Hash(fields) if fields.is_small() => "listpack",
            Collection::List(list) if list.is_small() => "listpack",
            Collection::List(_) => "quicklist",
            Collection::Set(members) if members.is_small() && members.is_of_integers() => "intset",
            Collection::Set(members) if members.is_small() => "listpack",
            Collection::SortedSet(set) if set.is_small() => "listpack",
            Collection::SortedSet(_) => "skiplist",
            Collection::Hash(_) | Collection::Set(_) => "hashtable",
            // As Redis answers for the types of its modules.
            Collection::SharedLock(_) => "raw",
        }
    }

    /// How many parts it has.
    pub fn len(&self) -> usize {
        each!(self, it => it.len())
    }

    /// Whether nothing is left in it; then there is no key any more.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of all parts, with what their encoding adds at most.
    pub(crate) fn bytes(&self) -> usize {
        each!(self, it => it.bytes())
    }

    /// The bytes of the part at an offset below its length, with what its encoding adds at most. Offsets are as
    /// [`Partial`](crate::keyspace::partial::Partial) has them.
    pub(crate) fn bytes_at(&self, offset: usize) -> usize {
        each!(self, it => it.bytes_at(offset))
    }

    /// Adds what another one of the same type holds, before the first element where there is an order. False if it
    /// is of another type.
    pub(crate) fn put_before(&mut self, other: Collection, seed: u64) -> bool {
        match (self, other) {
            (Collection::Hash(fields), Collection::Hash(others)) => {
                for (field, value) in others.iter() {
                    fields.set(field, Arc::clone(value), seed);
                }
            }
            (Collection::List(list), Collection::List(others)) => {
                for element in others.iter().rev() {
                    list.push(End::Left, Arc::clone(element));
                }
            }
            (Collection::Set(members), Collection::Set(others)) => {
                for member in others.iter() {
                    members.add(Arc::clone(member), seed);
                }
            }
            (Collection::SortedSet(set), Collection::SortedSet(others)) => {
                for (member, score) in others.iter() {
                    set.set(member, score, seed);
                }
            }
            (Collection::SharedLock(holders), Collection::SharedLock(others)) => {
                for (token, end) in others.iter() {
                    holders.set(token, end, seed);
                }
            }
            _ => return false,
        }
        true
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        each!(self, it => it.memory().saturating_add(size_of_val(&**it)))
    }
}
