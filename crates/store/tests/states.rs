//! How the states of a task are written: in full, or as what changed since the one before.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use convoke_store::{StateText, StateWriter};

/// A state of so many pieces, long enough to be written as what changed.
fn state(pieces: usize) -> Vec<String> {
    (0..pieces)
        .map(|piece| format!("\"piece number {piece}\""))
        .collect()
}

fn text(pieces: &[String]) -> String {
    format!("[{}]", pieces.join(","))
}

/// How a state is written after another.
fn written(before: &[String], after: &[String]) -> String {
    StateWriter::after(&StateText::from(text(before))).write_text(text(after))
}

#[test]
fn what_stays_at_the_very_end_is_not_written_again() {
    let before = state(1_000);
    // So much is left out that the end stands elsewhere, and only its last piece has stayed.
    let mut after = before[..900].to_vec();
    after.push(before[999].clone());
    let stored = written(&before, &after);
    assert!(!stored.contains("piece number"), "{stored}");
    assert!(stored.len() < 100, "{stored}");
}

#[test]
fn what_moves_is_found_where_it_was_nearest_after() {
    let before = state(1_000);
    let after: Vec<String> = before[500..]
        .iter()
        .chain(&before[..500])
        .cloned()
        .collect();
    let stored = written(&before, &after);
    assert!(stored.len() < 200, "{stored}");
}

#[test]
fn a_state_is_written_in_full_again_once_the_changes_come_to_its_size() {
    let mut writer = StateWriter::after(&StateText::from(text(&state(300))));
    let full = text(&state(300)).len();
    let (mut changes, mut written) = (0, 0);
    for step in 0..100 {
        let mut next = state(300);
        // A third of the state is new each time.
        for piece in &mut next[..100] {
            *piece = format!("\"changed in step {step}\"");
        }
        let stored = writer.write_text(text(&next));
        if stored == text(&next) {
            assert!(changes >= full, "after {changes} of {full} bytes");
            written += 1;
            break;
        }
        assert!(
            changes < full,
            "{changes} of {full} bytes and no full state"
        );
        assert!(stored.len() < text(&next).len() / 2, "{stored}");
        changes += stored.len();
    }
    assert_eq!(written, 1);
}

#[test]
fn a_state_after_a_short_one_is_written_in_full() {
    let mut writer = StateWriter::default();
    let long = text(&state(300));
    assert_eq!(
        writer.write_text(long.clone()),
        long,
        "there is none before it"
    );
    assert_ne!(writer.write_text(long.clone()), long);
    let short = text(&state(3));
    assert_eq!(writer.write_text(short.clone()), short);
    assert_eq!(writer.write_text(long.clone()), long);
}

#[test]
fn a_short_state_after_a_long_one_is_written_in_full_though_it_is_a_part_of_it() {
    let long = state(300);
    let short = long[..50].to_vec();
    assert!(text(&short).len() < 4 * 1_024);
    assert_eq!(written(&long, &short), text(&short));
}

#[test]
fn a_state_of_which_half_has_changed_is_written_in_full() {
    let before = state(300);
    for changed in 1..300 {
        let mut after = before.clone();
        for piece in &mut after[300 - changed..] {
            *piece = format!("{piece:?}");
        }
        let (full, stored) = (text(&after), written(&before, &after));
        assert!(
            stored == full || stored.len() < full.len() / 2,
            "{} of {} bytes",
            stored.len(),
            full.len()
        );
    }
}

#[test]
fn what_changes_by_exactly_half_is_written_in_full() {
    // The last piece is new, and as long as makes the change half of the whole.
    let before = state(300);
    let kept = before[..299].to_vec();
    let change = |last: &str| format!("~[[0,{}],\"{last}]\"]", text(&kept).len());
    let last = |length: usize| "9".repeat(length);
    let after = |length: usize| {
        let mut after = kept.clone();
        after.push(last(length));
        after
    };
    let is_half = |length: usize| change(&last(length)).len() == text(&after(length)).len() / 2;
    let half = (1..10_000).find(|length| is_half(*length)).unwrap();
    let less = (1..half).rev().find(|length| !is_half(*length)).unwrap();
    assert_eq!(written(&before, &after(less)), change(&last(less)));
    assert_eq!(written(&before, &after(half)), text(&after(half)));
}

#[test]
fn of_many_places_where_a_piece_stands_the_nearest_after_is_looked_at() {
    // More of them than are looked at stand before the one that fits.
    let mut before: Vec<String> = Vec::new();
    for piece in state(300) {
        before.extend(["\"same\"".to_owned(), piece]);
    }
    let mut after = before.clone();
    // What stood before it is left out, so that it is looked for.
    after.remove(399);
    let stored = written(&before, &after);
    let place = |pieces: &[String]| text(pieces).len() - 1;
    let (left, goes_on) = (place(&before[..399]) + 1, place(&before[..400]) + 1);
    let end = text(&before).len() - goes_on;
    assert_eq!(stored, format!("~[[0,{left}],[{goes_on},{end}]]"));
}

#[test]
fn a_state_that_is_no_json_is_the_text_that_it_is() {
    let state = StateText::from("no json".to_owned());
    assert_eq!(state.value(), "no json");
    assert_eq!(format!("{state:?}"), "no json");
    assert!(state.read::<Vec<u8>>().is_err());
    assert_eq!(
        StateText::from("[1]".to_owned()).read::<Vec<u8>>().unwrap(),
        [1]
    );
}
