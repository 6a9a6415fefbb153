//! Records of holders: to which key they belong, and what they take.

use super::*;

const NOW: NodeTime = NodeTime::from_nanos(5);

#[test]
fn a_record_is_about_the_key_of_one_slot_and_the_newer_key_has_it() {
    let mut holders = Holders::default();
    holders.note_taken(3, NOW, 7);
    let far = 3 + RECORDS_MAX;
    assert!(holders.of(far).is_none() && holders.of(4).is_none());
    assert_eq!(holders.of(3).map(|holder| holder.client_id), Some(7));
    holders.note_extended(far, NOW);
    assert_eq!(holders.of(3).and_then(Holder::last_extension), None);
    holders.note_taken(far, NOW, 8);
    assert!(holders.of(3).is_none());
    holders.forget(3);
    assert_eq!(holders.of(far).map(|holder| holder.client_id), Some(8));
    holders.follow(far, 9);
    assert!(holders.of(far).is_none());
    assert_eq!(holders.of(9).map(|holder| holder.client_id), Some(8));
}

#[test]
fn what_owners_say_is_counted_whatever_becomes_of_their_locks() {
    let mut holders = Holders::default();
    let each = bytes_of("owner");
    for slot in 0..5 {
        holders.note_taken(slot, NOW, 7);
        assert!(holders.note_owner(slot, "owner"));
    }
    assert!(holders.note_owner(4, "again"));
    assert_eq!(holders.owner_bytes, 5 * each);
    holders.end(0);
    let (holder, owner) = holders.take(1);
    assert_eq!(holders.owner_bytes, 3 * each);
    holders.put(holder.expect("it is known"));
    holders.put_owner(1, owner.expect("it has said so"));
    holders.follow(3, 4);
    assert_eq!(holders.owner(4), Some("owner"));
    assert_eq!(holders.owner_bytes, 3 * each);
    assert!(!holders.note_owner(9, "nobody"));
    (0..5).for_each(|slot| holders.end(slot));
    assert_eq!(holders.owner_bytes, 0);
    let text = "x".repeat(256);
    let kept = (0..RECORDS_MAX).filter(|slot| {
        holders.note_taken(*slot, NOW, 9);
        holders.note_owner(*slot, &text)
    });
    assert_eq!(kept.count(), OWNER_BYTES_MAX / bytes_of(&text));
    assert!(holders.owner_bytes <= OWNER_BYTES_MAX);
    for slot in 0..4 * RECORDS_MAX {
        holders.end(slot);
        holders.note_taken(slot, NOW, 10);
    }
    assert_eq!(holders.owner_bytes, 0);
    let records: usize = holders.chunks.iter().map(Vec::capacity).sum();
    assert_eq!(records, RECORDS_MAX as usize);
    let chunks = (RECORDS_MAX / CHUNK_RECORDS) as usize;
    assert_eq!(holders.take_all().len(), chunks);
    assert!(holders.of(1).is_none());
}
