//! What a key promises, shown with a drawer that holds one thing.

use serde_json::json;

use super::*;
use crate::database;
use crate::failure::example::Refusal;

const MIGRATIONS: &[&str] = &[
    "CREATE TABLE things (name TEXT NOT NULL) STRICT;",
    ANSWERS_TABLE,
];

struct Drawer {
    connection: Connection,
    folder: tempfile::TempDir,
}

impl Drawer {
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

    /// Puts a thing in first and refuses afterwards, to see whether the refusal takes it out again.
    fn put(&mut self, owner: &str, key: &str, name: &str) -> Result<Answer, Failure<Refusal>> {
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
    let mut drawer = Drawer::new();
    let first = drawer.put("anna", "k", "lamp").unwrap();
    assert_eq!(first, Answer::done(json!({"put": "lamp"})));
    let mut drawer = drawer.reopened();
    assert_eq!(drawer.put("anna", "k", "lamp").unwrap(), first);
    assert_eq!(things(&drawer.connection), ["lamp"]);
}

#[test]
fn a_refused_change_is_undone_and_its_refusal_kept() {
    let mut drawer = Drawer::new();
    drawer.put("anna", "k", "lamp").unwrap();
    let refused = drawer.put("anna", "l", "vase").unwrap();
    assert_eq!(refused, Answer::refused(&Refusal::Full));
    assert_eq!(things(&drawer.connection), ["lamp"]);
    drawer.connection.execute("DELETE FROM things", []).unwrap();
    assert_eq!(drawer.put("anna", "l", "vase").unwrap(), refused);
    assert!(things(&drawer.connection).is_empty());
}

#[test]
fn a_key_stands_for_one_call_of_one_owner() {
    let mut drawer = Drawer::new();
    drawer.put("anna", "k", "lamp").unwrap();
    let reused = drawer.put("anna", "k", "vase").unwrap_err();
    assert_eq!(reused.code(), "drawer.idempotency_key_reused");
    let bens = drawer.put("ben", "k", "vase").unwrap();
    assert_eq!(bens, Answer::refused(&Refusal::Full));
    for wrong in ["", &"k".repeat(MAX_KEY_LENGTH + 1)] {
        let error = drawer.put("anna", wrong, "vase").unwrap_err();
        assert_eq!(error.code(), "drawer.idempotency_key");
    }
}
