//! Rules of the store: isolation, order and idempotency.

use std::thread;

use convoke_serving::MAX_KEY_LENGTH;
use jiff::{Timestamp, ToSpan};
use tempfile::TempDir;

use super::*;

const ANNA: Uuid = Uuid::from_u128(0xa);
const BEN: Uuid = Uuid::from_u128(0xb);

struct File(TempDir);

impl File {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self) -> Store {
        self.open_at(Sources::real().now)
    }

    fn open_at(&self, now: fn() -> Timestamp) -> Store {
        let sources = Sources {
            now,
            ..Sources::real()
        };
        Store::open(&self.0.path().join("todo.db"), sources).unwrap()
    }
}

fn add(title: &str) -> Change {
    Change::Add {
        title: title.to_owned(),
    }
}

fn added(store: &mut Store, user: Uuid, title: &str) -> Uuid {
    id_of(&store.change(user, &add(title), None).unwrap())
}

fn id_of(answer: &Answer) -> Uuid {
    assert!(!answer.is_error, "{answer:?}");
    serde_json::from_value(answer.content["id"].clone()).unwrap()
}

fn titles(store: &Store, user: Uuid, status: Status) -> Vec<String> {
    store
        .list(user, status)
        .unwrap()
        .into_iter()
        .map(|task| task.title)
        .collect()
}

#[test]
fn tasks_are_listed_by_status_oldest_first() {
    let file = File::new();
    let mut store = file.open();
    let ids: Vec<Uuid> = ["one", "two", "three"]
        .map(|title| added(&mut store, ANNA, title))
        .to_vec();
    store
        .change(ANNA, &Change::Complete { task: ids[1] }, None)
        .unwrap();
    assert_eq!(titles(&store, ANNA, Status::Pending), ["one", "three"]);
    assert_eq!(titles(&store, ANNA, Status::Completed), ["two"]);
    assert_eq!(titles(&store, ANNA, Status::All), ["one", "two", "three"]);
    assert_eq!(ids[0].get_version_num(), 7);
}

#[test]
fn completing_twice_succeeds_and_says_so() {
    let file = File::new();
    let mut store = file.open();
    let task = added(&mut store, ANNA, "one");
    let first = store
        .change(ANNA, &Change::Complete { task }, None)
        .unwrap();
    let second = store
        .change(ANNA, &Change::Complete { task }, None)
        .unwrap();
    assert_eq!(first.content.get("already"), None);
    assert_eq!(second.content["already"], true);
    assert_eq!(
        first.content["completed_at"],
        second.content["completed_at"]
    );
    assert_eq!(second.content["is_completed"], true);
}

#[test]
fn another_users_task_is_not_found_with_the_same_message() {
    let file = File::new();
    let mut store = file.open();
    let task = added(&mut store, ANNA, "private");
    let missing = Uuid::from_u128(0xdead);
    let changes: [fn(Uuid) -> Change; 3] = [
        |task| Change::Complete { task },
        |task| Change::Delete { task },
        |task| Change::Update {
            task,
            title: "mine now".to_owned(),
        },
    ];
    for make in changes {
        let theirs = store.change(BEN, &make(task), None).unwrap();
        let nobodys = store.change(BEN, &make(missing), None).unwrap();
        assert!(theirs.is_error);
        let words =
            |answer: &Answer, id: Uuid| answer.content.to_string().replace(&id.to_string(), "ID");
        assert_eq!(words(&theirs, task), words(&nobodys, missing));
    }
    assert!(store.list(BEN, Status::All).unwrap().is_empty());
    assert_eq!(titles(&store, ANNA, Status::Pending), ["private"]);
}

#[test]
fn a_repeated_key_gives_the_first_answer_and_no_second_effect() {
    let file = File::new();
    let mut store = file.open();
    let first = store.change(ANNA, &add("milk"), Some("k")).unwrap();
    // A new process, as after a crash, returns it too.
    drop(store);
    let mut store = file.open();
    assert_eq!(store.change(ANNA, &add("milk"), Some("k")).unwrap(), first);
    assert_eq!(titles(&store, ANNA, Status::All), ["milk"]);

    let delete = Change::Delete {
        task: id_of(&first),
    };
    let deleted = store.change(ANNA, &delete, Some("d")).unwrap();
    assert_eq!(store.change(ANNA, &delete, Some("d")).unwrap(), deleted);
    assert!(store.change(ANNA, &delete, None).unwrap().is_error);
}

#[test]
fn a_refusal_is_repeated_for_its_key() {
    let file = File::new();
    let mut store = file.open();
    let delete = Change::Delete {
        task: Uuid::from_u128(1),
    };
    let first = store.change(ANNA, &delete, Some("k")).unwrap();
    assert!(first.is_error);
    assert_eq!(store.change(ANNA, &delete, Some("k")).unwrap(), first);
}

#[test]
fn a_key_identifies_one_call_of_one_user() {
    let file = File::new();
    let mut store = file.open();
    let task = id_of(&store.change(ANNA, &add("milk"), Some("k")).unwrap());
    for other in [add("bread"), Change::Complete { task }] {
        let error = store.change(ANNA, &other, Some("k")).unwrap_err();
        assert_eq!(error.code(), "todo.idempotency_key_reused");
    }
    let bens = store.change(BEN, &add("milk"), Some("k")).unwrap();
    assert_ne!(id_of(&bens), task);
    for wrong in ["", &"k".repeat(MAX_KEY_LENGTH + 1)] {
        let error = store.change(ANNA, &add("milk"), Some(wrong)).unwrap_err();
        assert_eq!(error.code(), "todo.idempotency_key");
    }
}

#[test]
fn concurrent_calls_with_one_key_take_effect_once() {
    let file = File::new();
    drop(file.open());
    let answers: Vec<Answer> = thread::scope(|scope| {
        let calls: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| file.open().change(ANNA, &add("milk"), Some("k")).unwrap()))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    assert_eq!(titles(&file.open(), ANNA, Status::All), ["milk"]);
}

#[test]
fn connections_that_open_a_new_file_at_once_all_succeed() {
    for _ in 0..10 {
        let file = File::new();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| added(&mut file.open(), ANNA, "milk"));
            }
        });
        assert_eq!(titles(&file.open(), ANNA, Status::All).len(), 4);
    }
}

#[test]
fn keys_expire_and_tasks_do_not() {
    let file = File::new();
    let first = file.open().change(ANNA, &add("milk"), Some("k")).unwrap();
    let kept = file.open_at(|| (Sources::real().now)() + (6 * 24).hours());
    drop(kept);
    assert_eq!(
        file.open().change(ANNA, &add("milk"), Some("k")).unwrap(),
        first
    );
    let mut swept = file.open_at(|| (Sources::real().now)() + (8 * 24).hours());
    assert_ne!(swept.change(ANNA, &add("milk"), Some("k")).unwrap(), first);
    assert_eq!(titles(&swept, ANNA, Status::All), ["milk", "milk"]);
}

#[test]
fn the_number_of_tasks_per_user_is_limited() {
    let file = File::new();
    let mut store = file.open();
    store
        .connection
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
             INSERT INTO tasks (id, user_id, title, created_at) SELECT i, ?2, i, '' FROM n",
            params![MAX_TASKS_PER_USER, ANNA.to_string()],
        )
        .unwrap();
    let refused = store.change(ANNA, &add("one more"), None).unwrap();
    assert_eq!(refused.content["code"], "todo.too_many_tasks");
    added(&mut store, BEN, "others may");
}
