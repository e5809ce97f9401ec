//! Generates carts, and the orders that some of them become.

use jiff::civil::{Date, date};
use rusqlite::{Connection, Statement, params};

use super::campaigns::CAMPAIGNS;
use super::catalogue::{self, ABANDONED, CATEGORIES, PAIRS, PRICE_RISE};
use super::prices::Prices;
use super::random::Random;
use crate::calendar::{FIRST_DAY, LAST_DAY, days, iso};

/// Carts per ordinary day.
const CARTS_A_DAY: i64 = 55;

/// Activity of each month in percent, from January.
const MONTHS: [i64; 12] = [85, 80, 90, 95, 100, 105, 95, 95, 105, 90, 122, 150];

/// The last day on which lapsed customers were active.
const LAPSED: Date = date(2026, 3, 15);

/// Attempts to draw a customer who exists on the day.
const DRAWS: usize = 40;

/// A customer.
pub(crate) struct Customer {
    pub(crate) id: i64,
    pub(crate) segment: &'static str,
    pub(crate) region: &'static str,
    pub(crate) joined: Date,
}

/// Cumulative weights of the products, by id.
struct Shelf(Vec<i64>);

impl Shelf {
    fn new(weights: impl Iterator<Item = i64>) -> Self {
        let sums = weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self(sums.collect())
    }

    /// Draws a product's id.
    fn draw(&self, random: &mut Random) -> i64 {
        let point = random.below(self.0.last().copied().unwrap_or(1));
        let place = self.0.partition_point(|sum| *sum <= point);
        i64::try_from(place + 1).unwrap_or(1)
    }
}

/// Weights for orders before and after the price rise, and for abandoned carts.
struct Shelves {
    ordered: Shelf,
    ordered_later: Shelf,
    abandoned: Shelf,
}

impl Shelves {
    fn new(random: &mut Random) -> Self {
        // A few products are popular, most are not.
        let popular: Vec<i64> = catalogue::names()
            .map(|_| 10 + random.within(0, 30) * random.within(0, 30) / 10)
            .collect();
        let categories = || {
            let all = CATEGORIES.iter();
            all.flat_map(|category| category.products.iter().map(|_| category.name))
        };
        let left_behind = popular.iter().zip(catalogue::names());
        Self {
            ordered: Shelf::new(popular.iter().copied()),
            ordered_later: Shelf::new(popular.iter().zip(categories()).map(
                |(weight, category)| {
                    if category == PRICE_RISE.0 {
                        weight * 70 / 100
                    } else {
                        *weight
                    }
                },
            )),
            abandoned: Shelf::new(left_behind.map(|(weight, name)| {
                if ABANDONED.contains(&name) {
                    weight + 300
                } else {
                    *weight
                }
            })),
        }
    }
}

/// Prepared statements for writing.
struct Writer<'c> {
    cart: Statement<'c>,
    cart_item: Statement<'c>,
    order: Statement<'c>,
    order_item: Statement<'c>,
}

impl<'c> Writer<'c> {
    fn new(connection: &'c Connection) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            cart: connection.prepare(
                "INSERT INTO carts (id, customer, day, channel, state) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?,
            cart_item: connection
                .prepare("INSERT INTO cart_items (cart, product, quantity) VALUES (?1, ?2, ?3)")?,
            order: connection.prepare(
                "INSERT INTO orders (id, cart, customer, day, region, channel, campaign)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?,
            order_item: connection.prepare(
                "INSERT INTO order_items (order_id, product, quantity, unit_cents)
                 VALUES (?1, ?2, ?3, ?4)",
            )?,
        })
    }
}

/// Writes every cart and order of the year.
pub(crate) fn write(
    connection: &Connection,
    random: &mut Random,
    customers: &[Customer],
    prices: &Prices,
) -> Result<(), rusqlite::Error> {
    let shelves = Shelves::new(random);
    let mut writer = Writer::new(connection)?;
    let (mut cart, mut order) = (0_i64, 0_i64);
    for day in days(FIRST_DAY, LAST_DAY) {
        let text = day.to_string();
        for _ in 0..carts_on(day, random) {
            let customer = draw_customer(customers, day, random);
            let channel = ["web", "app", "store"][random.weighted(&[50, 32, 18])];
            let ordered = !random.percent(abandonment(channel, customer.segment));
            let shelf = match (ordered, day < iso(PRICE_RISE.2)) {
                (false, _) => &shelves.abandoned,
                (true, true) => &shelves.ordered,
                (true, false) => &shelves.ordered_later,
            };
            let items = items(shelf, random);
            cart += 1;
            let state = if ordered { "ordered" } else { "abandoned" };
            writer
                .cart
                .execute(params![cart, customer.id, text, channel, state])?;
            for (product, quantity) in &items {
                writer.cart_item.execute(params![cart, product, quantity])?;
            }
            if !ordered {
                continue;
            }
            order += 1;
            let campaign = brought_by(day, channel, random);
            writer.order.execute(params![
                order,
                cart,
                customer.id,
                text,
                customer.region,
                channel,
                campaign
            ])?;
            for (product, quantity) in &items {
                let cents = prices.paid(*product, &text);
                writer
                    .order_item
                    .execute(params![order, product, quantity, cents])?;
            }
        }
    }
    Ok(())
}

fn carts_on(day: Date, random: &mut Random) -> i64 {
    let month = usize::try_from(day.month() - 1).unwrap_or(0);
    let weekend = day.weekday().to_monday_zero_offset() >= 5;
    let busy = MONTHS[month] * if weekend { 118 } else { 93 } / 100;
    CARTS_A_DAY * busy * random.within(88, 112) / 10_000
}

/// A customer who exists on that day. Loyal customers come more often than others.
fn draw_customer<'c>(customers: &'c [Customer], day: Date, random: &mut Random) -> &'c Customer {
    let mut found = &customers[0];
    for _ in 0..DRAWS {
        let place = random.below(i64::try_from(customers.len()).unwrap_or(1));
        found = &customers[usize::try_from(place).unwrap_or(0)];
        let has_left = found.segment == "lapsed" && day > LAPSED;
        let comes = match found.segment {
            "loyal" => 100,
            "regular" => 50,
            _ => 35,
        };
        if !has_left && found.joined <= day && random.percent(comes) {
            break;
        }
    }
    found
}

/// Percentage of such carts that are abandoned.
fn abandonment(channel: &str, segment: &str) -> i64 {
    let channel = match channel {
        "web" => 62,
        "app" => 55,
        _ => 14,
    };
    channel
        + match segment {
            "new" => 9,
            "lapsed" => 12,
            "loyal" => -12,
            _ => 0,
        }
}

/// The items of a cart with quantities.
fn items(shelf: &Shelf, random: &mut Random) -> Vec<(i64, i64)> {
    let count = 1 + random.weighted(&[41, 30, 18, 8, 3]);
    let mut items: Vec<(i64, i64)> = Vec::new();
    for _ in 0..count {
        let product = shelf.draw(random);
        add(&mut items, product, random);
        for (one, other, percent) in PAIRS {
            if catalogue::id(one) == product && random.percent(*percent) {
                add(&mut items, catalogue::id(other), random);
            }
        }
    }
    items
}

fn add(items: &mut Vec<(i64, i64)>, product: i64, random: &mut Random) {
    let quantity = 1 + random.weighted(&[76, 18, 6]);
    if items.iter().all(|(known, _)| *known != product) {
        items.push((product, i64::try_from(quantity).unwrap_or(1)));
    }
}

/// The campaign that led to an order, if any. Orders in a shop have none.
fn brought_by(day: Date, channel: &str, random: &mut Random) -> Option<i64> {
    if channel == "store" {
        return None;
    }
    let running = (1_i64..).zip(CAMPAIGNS);
    let mut running = running.filter(|(_, campaign)| campaign.runs_on(day));
    running.find_map(|(id, campaign)| random.percent(campaign.pull).then_some(id))
}
