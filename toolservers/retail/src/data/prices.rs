//! The prices of all products on every day of the year.

use rusqlite::{Connection, params};

use super::catalogue::PRICE_RISE;
use super::random::Random;

/// A price and a discount, valid from a day on.
#[derive(Debug, Clone, Copy)]
struct Price {
    from: &'static str,
    cents: i64,
    discount_percent: i64,
}

/// The price history of each product, by id.
#[derive(Debug, Default)]
pub(crate) struct Prices(Vec<Vec<Price>>);

/// A sale of many products.
struct Sale {
    from: &'static str,
    until: &'static str,
    /// Percentage of products that take part.
    part: i64,
    /// Possible discounts in percent.
    cheaper: &'static [i64],
    /// The only category that takes part, if restricted.
    only: Option<&'static str>,
}

const fn sale(
    [from, until]: [&'static str; 2],
    part: i64,
    cheaper: &'static [i64],
    only: Option<&'static str>,
) -> Sale {
    Sale {
        from,
        until,
        part,
        cheaper,
        only,
    }
}

/// The sales of the year. The last one has not ended.
const SALES: &[Sale] = &[
    sale(["2025-11-24", "2025-12-01"], 60, &[15, 20, 25, 30], None),
    sale(["2026-01-05", "2026-01-19"], 40, &[10, 15, 20], None),
    sale(["2026-04-03", "2026-04-08"], 25, &[10], None),
    sale(
        ["2026-06-15", "2026-07-13"],
        70,
        &[10, 15, 20],
        Some("outdoor"),
    ),
    sale(
        ["2026-06-15", "2026-07-13"],
        55,
        &[15, 25],
        Some("clothing"),
    ),
    sale(["2026-08-17", "2026-08-31"], 30, &[10, 15], Some("home")),
    sale(["2026-09-21", "2026-10-05"], 22, &[10, 15, 20, 30], None),
];

impl Prices {
    /// Adds the next product's history: a list price, occasional changes, and sales.
    pub(crate) fn set(&mut self, category: &str, cents: i64, random: &mut Random) {
        let mut history = vec![Price {
            from: "2025-10-01",
            cents,
            discount_percent: 0,
        }];
        for sale in SALES {
            if sale.only.is_some_and(|only| only != category) || !random.percent(sale.part) {
                continue;
            }
            history.push(Price {
                from: sale.from,
                cents,
                discount_percent: super::pick(sale.cheaper, random),
            });
            history.push(Price {
                from: sale.until,
                cents,
                discount_percent: 0,
            });
        }
        let (risen, percent, day) = PRICE_RISE;
        if category == risen {
            // The rises differ, so that "which rose most" has an answer.
            raise(&mut history, day, 100 + percent + random.within(-3, 3));
        }
        if random.percent(45) {
            raise(&mut history, "2026-03-02", random.within(97, 105));
        }
        if random.percent(12) {
            raise(&mut history, "2026-05-04", random.within(88, 96));
        }
        history.sort_by_key(|price| price.from);
        // A period that ends when another one starts is empty, and some end after the year.
        history.dedup_by(|later, earlier| {
            let same = later.from == earlier.from;
            if same && later.discount_percent > 0 {
                earlier.discount_percent = later.discount_percent;
            }
            same
        });
        history.retain(|price| price.from <= "2026-09-30");
        self.0.push(history);
    }

    pub(crate) fn write(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let mut insert = connection.prepare(
            "INSERT INTO prices (product, valid_from, cents, discount_percent)
             VALUES (?1, ?2, ?3, ?4)",
        )?;
        for (product, history) in (1_i64..).zip(&self.0) {
            for price in history {
                insert.execute(params![
                    product,
                    price.from,
                    price.cents,
                    price.discount_percent
                ])?;
            }
        }
        Ok(())
    }

    /// The price of a product on a day, after the discount.
    pub(crate) fn paid(&self, product: i64, day: &str) -> i64 {
        let place = usize::try_from(product - 1).unwrap_or(0);
        let history = self.0.get(place).map(Vec::as_slice).unwrap_or_default();
        let now = history.iter().rev().find(|price| price.from <= day);
        now.map_or(0, |price| {
            price.cents * (100 - price.discount_percent) / 100
        })
    }
}

/// Changes the list price to this percentage, from this day on.
fn raise(history: &mut Vec<Price>, day: &'static str, percent: i64) {
    let raised = |cents: i64| cents * percent / 100 / 10 * 10;
    let before = history
        .iter()
        .filter(|price| price.from <= day)
        .max_by_key(|price| price.from)
        .copied();
    for price in history.iter_mut().filter(|price| price.from >= day) {
        price.cents = raised(price.cents);
    }
    if let Some(before) = before
        && before.from < day
    {
        history.push(Price {
            from: day,
            cents: raised(before.cents),
            discount_percent: before.discount_percent,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_holds_until_the_next_one() {
        let price = |from, cents, discount_percent| Price {
            from,
            cents,
            discount_percent,
        };
        let mut history = vec![price("2025-10-01", 1000, 0), price("2026-06-15", 1000, 20)];
        raise(&mut history, "2026-07-01", 110);
        let prices = Prices(vec![history]);
        assert_eq!(prices.paid(1, "2026-06-14"), 1000);
        assert_eq!(prices.paid(1, "2026-06-15"), 800);
        assert_eq!(prices.paid(1, "2026-07-01"), 880);
    }
}
