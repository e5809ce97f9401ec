//! What an idempotency key guarantees, shown with a store that holds one thing.

use serde_json::json;

use super::*;
use crate::database;
use crate::failure::example::Refusal;

const MIGRATIONS: &[&str] = &[
    "CREATE TABLE things (name TEXT NOT NULL) STRICT;",
    ANSWERS_TABLE,
];

struct ThingStore {
    connection: Connection,
    folder: tempfile::TempDir,
}

impl ThingStore {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            connection: connect(&folder),
            folder,
        }
    }

    fn reopened(self) -> Self {
        Self {
            connection: connect(&self.folder),
            folder: self.folder,
        }
    }

    /// Inserts a thing and then refuses, to check that the refusal is rolled back.
    fn insert_then_refuse(
        &mut self,
        owner: &str,
        key: &str,
        name: &str,
    ) -> Result<Answer, Failure<Refusal>> {
        let keyed = Keyed::new(owner, key, "put", &json!({"name": name}))?;
        change_once(
            &mut self.connection,
            Sources::real(),
            Some(&keyed),
            |connection| {
                connection.execute("INSERT INTO things (name) VALUES (?1)", [name])?;
                if things(connection).len() > 1 {
                    return Err(Refusal::Full.into());
                }
                Ok(json!({"put": name}))
            },
        )
    }
}

fn connect(folder: &tempfile::TempDir) -> Connection {
    let file = folder.path().join("drawer.db");
    database::open::<Refusal>(&file, MIGRATIONS, Sources::real()).unwrap()
}

fn things(connection: &Connection) -> Vec<String> {
    let mut statement = connection.prepare("SELECT name FROM things").unwrap();
    let names = statement.query_map([], |row| row.get(0)).unwrap();
    names.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_repeated_key_gives_the_first_answer_even_to_a_new_process() {
    let mut drawer = ThingStore::new();
    let first = drawer.insert_then_refuse("anna", "k", "lamp").unwrap();
    assert_eq!(first, Answer::done(json!({"put": "lamp"})));
    let mut drawer = drawer.reopened();
    assert_eq!(
        drawer.insert_then_refuse("anna", "k", "lamp").unwrap(),
        first
    );
    assert_eq!(things(&drawer.connection), ["lamp"]);
}

#[test]
fn a_refused_change_is_rolled_back_and_its_refusal_stored() {
    let mut drawer = ThingStore::new();
    drawer.insert_then_refuse("anna", "k", "lamp").unwrap();
    let refused = drawer.insert_then_refuse("anna", "l", "vase").unwrap();
    assert_eq!(refused, Answer::refused(&Refusal::Full));
    assert_eq!(things(&drawer.connection), ["lamp"]);
    drawer.connection.execute("DELETE FROM things", []).unwrap();
    assert_eq!(
        drawer.insert_then_refuse("anna", "l", "vase").unwrap(),
        refused
    );
    assert!(things(&drawer.connection).is_empty());
}

#[test]
fn a_key_identifies_one_call_of_one_owner() {
    let mut drawer = ThingStore::new();
    drawer.insert_then_refuse("anna", "k", "lamp").unwrap();
    let reused = drawer.insert_then_refuse("anna", "k", "vase").unwrap_err();
    assert_eq!(reused.code(), "drawer.idempotency_key_reused");
    let bens = drawer.insert_then_refuse("ben", "k", "vase").unwrap();
    assert_eq!(bens, Answer::refused(&Refusal::Full));
    for wrong in ["", &"k".repeat(MAX_KEY_LENGTH + 1)] {
        let error = drawer
            .insert_then_refuse("anna", wrong, "vase")
            .unwrap_err();
        assert_eq!(error.code(), "drawer.idempotency_key");
    }
}
