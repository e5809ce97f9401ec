//! The data set: one year of a shop, about 100,000 rows, generated from one seed. It is identical on
//! every machine.

mod baskets;
pub(crate) mod campaigns;
pub(crate) mod catalogue;
mod prices;
mod random;

use jiff::civil::{Date, date};
use rusqlite::{Connection, TransactionBehavior, params};

use crate::calendar::days;
use crate::error::Failure;
use baskets::Customer;
use catalogue::{ABANDONED, CATEGORIES, SOLD_OUT};
use prices::Prices;
use random::Random;

/// The seed of the data set.
const SEED: u64 = 0x5EED_2026;

/// Number of customers.
const CUSTOMERS: i64 = 4_000;

const REGIONS: [(&str, i64); 4] = [("north", 36), ("south", 26), ("west", 22), ("east", 16)];

const WAREHOUSES: [&str; 4] = ["Hamburg", "Munich", "Leipzig", "Cologne"];

/// Fills an empty shop. If two processes open a new file at once, only the first one fills it.
pub(crate) fn fill_if_new(connection: &mut Connection) -> Result<(), Failure> {
    if filled(connection)? {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if filled(&transaction)? {
        return Ok(());
    }
    let mut random = Random::new(SEED);
    let prices = products(&transaction, &mut random)?;
    stock(&transaction, &mut random)?;
    campaigns::write(&transaction, &mut random)?;
    let customers = customers(&transaction, &mut random)?;
    baskets::write(&transaction, &mut random, &customers, &prices)?;
    transaction.commit()?;
    Ok(())
}

fn filled(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM products)", [], |row| {
        row.get(0)
    })
}

fn products(connection: &Connection, random: &mut Random) -> Result<Prices, rusqlite::Error> {
    let mut insert = connection.prepare(
        "INSERT INTO products (id, name, category, supplier_cents) VALUES (?1, ?2, ?3, ?4)",
    )?;
    let mut prices = Prices::default();
    let mut id = 0;
    for category in CATEGORIES {
        for name in category.products {
            id += 1;
            let cents = random.within(category.cheapest, category.dearest) / 100 * 100 + 90;
            let supplier_cents = cents * random.within(42, 71) / 100;
            insert.execute(params![id, name, category.name, supplier_cents])?;
            prices.set(category.name, cents, random);
        }
    }
    prices.write(connection)?;
    Ok(prices)
}

/// Abandoned products are hardly in stock, which may be the reason.
fn stock(connection: &Connection, random: &mut Random) -> Result<(), rusqlite::Error> {
    let mut insert = connection.prepare(
        "INSERT INTO stock (product, warehouse, units, reorder_point, lead_days)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (id, name) in (1_i64..).zip(catalogue::names()) {
        let lead_days = random.within(3, 28);
        for warehouse in WAREHOUSES {
            let reorder_point = random.within(10, 45);
            let units = if SOLD_OUT.contains(&name) {
                0
            } else if ABANDONED.contains(&name) {
                random.below(reorder_point / 2)
            } else if random.percent(6) {
                random.below(reorder_point)
            } else {
                reorder_point + random.within(5, 160)
            };
            insert.execute(params![id, warehouse, units, reorder_point, lead_days])?;
        }
    }
    Ok(())
}

fn customers(
    connection: &Connection,
    random: &mut Random,
) -> Result<Vec<Customer>, rusqlite::Error> {
    let mut insert = connection
        .prepare("INSERT INTO customers (id, segment, region, joined) VALUES (?1, ?2, ?3, ?4)")?;
    let old = dates(date(2023, 1, 1), date(2026, 3, 31));
    let recent = dates(date(2026, 4, 1), date(2026, 9, 25));
    let mut customers = Vec::new();
    for id in 1..=CUSTOMERS {
        let (segment, joined) = match random.weighted(&[18, 38, 24, 20]) {
            0 => ("new", pick(&recent, random)),
            1 => ("regular", pick(&old, random)),
            2 => ("loyal", pick(&old, random)),
            // Lapsed customers joined before the year.
            _ => ("lapsed", pick(&old[..900], random)),
        };
        let (region, _) = REGIONS[random.weighted(&REGIONS.map(|(_, weight)| weight))];
        insert.execute(params![id, segment, region, joined.to_string()])?;
        customers.push(Customer {
            id,
            segment,
            region,
            joined,
        });
    }
    Ok(customers)
}

fn dates(first: Date, last: Date) -> Vec<Date> {
    days(first, last).collect()
}

/// A random item. No list in this crate is empty.
fn pick<T: Copy>(all: &[T], random: &mut Random) -> T {
    let place = random.below(i64::try_from(all.len()).unwrap_or(1));
    all[usize::try_from(place).unwrap_or(0)]
}

#[cfg(test)]
mod tests;
