//! The data set has the documented size and patterns, and is reproducible.

use std::path::Path;

use convoke_serving::Sources;
use sha2::{Digest, Sha256};

use super::*;
use crate::calendar::{FIRST_DAY, LAST_DAY};
use crate::schema::MIGRATIONS;

const TABLES: [&str; 10] = [
    "products",
    "customers",
    "carts",
    "cart_items",
    "campaigns",
    "campaign_days",
    "orders",
    "order_items",
    "stock",
    "prices",
];

fn shop(file: &Path) -> Connection {
    let mut connection = convoke_serving::open(file, MIGRATIONS, Sources::real())
        .map_err(|error: Failure| error)
        .unwrap();
    fill_if_new(&mut connection).unwrap();
    connection
}

/// The number of all rows, and a hash of their contents.
fn fingerprint(connection: &Connection) -> (i64, String) {
    let mut digest = Sha256::new();
    let mut count = 0;
    for table in TABLES {
        let mut statement = connection
            .prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2"))
            .unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            count += 1;
            for column in 0..columns {
                digest.update(format!("{:?}|", row.get_ref(column).unwrap()));
            }
            digest.update("\n");
        }
    }
    (count, format!("{:x?}", digest.finalize()))
}

fn number(connection: &Connection, sql: &str) -> f64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn two_new_files_contain_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let one = fingerprint(&shop(&folder.path().join("one.db")));
    let other = fingerprint(&shop(&folder.path().join("other.db")));
    assert_eq!(one, other);
    assert!((99_000..=105_000).contains(&one.0), "{} rows", one.0);
}

#[test]
fn a_file_is_filled_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("retail.db");
    let first = fingerprint(&shop(&file));
    assert_eq!(fingerprint(&shop(&file)), first);
}

#[test]
fn the_year_contains_the_documented_patterns() {
    let folder = tempfile::tempdir().unwrap();
    let connection = shop(&folder.path().join("retail.db"));
    let days: (String, String) = connection
        .query_row("SELECT min(day), max(day) FROM carts", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(days, (FIRST_DAY.to_string(), LAST_DAY.to_string()));
    let most: Vec<String> = connection
        .prepare(
            "SELECT products.name FROM cart_items JOIN carts ON carts.id = cart
             JOIN products ON products.id = product
             WHERE state = 'abandoned' GROUP BY product ORDER BY count(*) DESC LIMIT 8",
        )
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    for name in ABANDONED {
        assert!(most.contains(&(*name).to_owned()), "{name}: {most:?}");
    }
    let best: String = connection
        .query_row(
            "SELECT campaigns.name FROM campaigns JOIN orders ON campaign = campaigns.id
             GROUP BY campaigns.id ORDER BY count(*) * 1.0
               / (SELECT sum(spend_cents) FROM campaign_days WHERE campaign = campaigns.id)
             DESC LIMIT 1",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(best, "Autumn Trail Launch");
    let risen = number(
        &connection,
        "SELECT avg(later.cents * 1.0 / earlier.cents) FROM prices AS later
         JOIN prices AS earlier ON earlier.product = later.product
         JOIN products ON products.id = later.product
         WHERE category = 'electronics' AND later.valid_from = '2026-07-01'
           AND earlier.valid_from = (SELECT max(valid_from) FROM prices
             WHERE product = later.product AND valid_from < '2026-07-01')",
    );
    assert!((1.08..=1.16).contains(&risen), "{risen}");
    let early = "SELECT count(*) * 1.0 FROM carts JOIN customers ON customers.id = customer
                 WHERE joined > day";
    assert!(number(&connection, early).abs() < f64::EPSILON);
}
