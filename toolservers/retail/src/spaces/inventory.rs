//! Stock today, low stock and reorders.

use crate::space::{CertifiedQuery, Products, Sentence, Space};

pub(crate) const SPACE: Space = Space {
    id: "inventory",
    about: "What is in stock today, in which warehouse, what runs low, what to reorder.",
    query_tool: "query_space_inventory",
    poll_tool: "poll_response_inventory",
    channels: &[],
    queries: QUERIES,
    out_of_scope: &[
        "where is my parcel",
        "order 500 units of this product now",
        "who works in the warehouse",
        "how large is the warehouse in square metres",
        "what was the stock last year on this day",
        "which supplier delivers this product",
        "move ten units to another warehouse",
        "what does storage cost us",
        "how is the stock market doing",
        "when does the warehouse open",
        "how many trucks do we have",
        "set the stock of everything to zero",
    ],
};

const QUERIES: &[CertifiedQuery] = &[
    CertifiedQuery {
        id: "stock_of_products",
        description: "How many units of the named products are in stock, and whether that is enough.",
        sql: "SELECT products.name AS product, sum(units) AS units,
       sum(reorder_point) AS reorder_point,
       CASE WHEN sum(units) = 0 THEN 'out of stock'
            WHEN sum(units) <= sum(reorder_point) THEN 'low'
            ELSE 'in stock' END AS state
FROM stock
JOIN products ON products.id = stock.product
WHERE products.name IN (SELECT value FROM json_each(:products))
  AND (:warehouse IS NULL OR warehouse = :warehouse)
GROUP BY products.id
ORDER BY units DESC, product
LIMIT 50",
        products: Products::Needed,
        examples: &[
            "What is the stock of Trail Running Shoes and Merino Socks?",
            "Do we have them in stock: Trail Running Shoes, Merino Socks?",
            "Are these products in stock: Desk Lamp, Linen Shirt, Smart Watch?",
            "How many Merino Socks do we have?",
            "Is the Espresso Machine in stock?",
            "How many units of Puffer Jacket are left?",
            "Stock level of Robot Vacuum",
            "Are Trail Running Shoes available?",
            "Are there any Boat Shoes left?",
            "Do we have any more of the Yoga Mat?",
            "Do we still have the Desk Lamp in the Hamburg warehouse?",
            "Check the inventory for Smart Watch and Power Bank.",
            "What are the stock levels of these products?",
            "Are they in stock?",
            "Is it available?",
            "Do we have them?",
            "Availability of Silk Blouse",
            "Is there enough Linen Shirt on hand?",
            "Current inventory levels for these products: Merino Socks, Boat Shoes",
        ],
        sentences: &[
            "(what is|what's|show [me]|check) the (stock|stock level|stock levels|inventory|availability) (of|for) these products",
            "(are|is) these products (in stock|available)",
            "are these products in stock these products",
            "(do|have) we [still] have (them|these|those|it) in stock [these products]",
            "do we [still] have these products [in stock]",
            "how many [units of] these products (do we have|are left|are in stock) [in stock|left]",
        ],
        answer: Sentence {
            lead: "In stock{filters} on {today}",
            each: "{product} {units} units ({state})",
            none: "None of these products is kept{filters}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "low_stock_products",
        description: "Products whose stock is at or below the point at which to reorder.",
        sql: "SELECT products.name AS product, category, sum(units) AS units,
       sum(reorder_point) AS reorder_point
FROM stock
JOIN products ON products.id = stock.product
WHERE (:category IS NULL OR category = :category)
  AND (:warehouse IS NULL OR warehouse = :warehouse)
GROUP BY products.id
HAVING sum(units) <= sum(reorder_point)
ORDER BY 1.0 * sum(units) / sum(reorder_point), product
LIMIT :limit",
        examples: &[
            "Which products are low in stock?",
            "What is running low?",
            "Which items are below the reorder point?",
            "Show products with low inventory.",
            "Which products have little stock left in Munich?",
            "What do we have too little of?",
            "Low stock products in footwear",
            "Which stocks are critically low?",
            "Where is our inventory nearly empty?",
            "Which articles are almost gone?",
            "List items with a low stock level.",
            "Any stock shortages?",
            "Which products have fallen under the reorder level?",
        ],
        sentences: &[
            "(which|what) (products|items) (are|run|are running) low [in stock|on stock]",
            "[show|list] [me] [the] low stock (products|items)",
        ],
        answer: Sentence {
            lead: "Low in stock{filters} on {today}",
            each: "{product} ({units} units, reorder point {reorder_point})",
            none: "Nothing is low in stock{filters}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "out_of_stock_products",
        description: "Products of which nothing is left.",
        sql: "SELECT products.name AS product, category, max(lead_days) AS lead_days
FROM stock
JOIN products ON products.id = stock.product
WHERE (:category IS NULL OR category = :category)
  AND (:warehouse IS NULL OR warehouse = :warehouse)
GROUP BY products.id
HAVING sum(units) = 0
ORDER BY product
LIMIT :limit",
        examples: &[
            "Which products are out of stock?",
            "What is sold out?",
            "Which items have zero units left?",
            "Show everything that is out of stock in Hamburg.",
            "What can we not deliver because nothing is left?",
            "Sold out products",
            "Which products are unavailable?",
            "Are there products with no stock at all?",
            "List out of stock electronics.",
            "What has run out completely?",
        ],
        sentences: &[
            "(which|what) (products|items|is|are) [are] (out of stock|sold out)",
            "[show|list] [me] [the] (out of stock|sold out) (products|items)",
        ],
        answer: Sentence {
            lead: "Out of stock{filters} on {today}",
            each: "{product} ({lead_days} days to get it)",
            none: "Nothing is out of stock{filters}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "stock_of_best_sellers",
        description: "Whether the products that sell best are in stock.",
        sql: "WITH sold AS (
  SELECT order_items.product, sum(quantity) AS units_sold
  FROM orders JOIN order_items ON order_id = orders.id
  WHERE day BETWEEN :from AND :to
  GROUP BY order_items.product
)
SELECT products.name AS product, category, units_sold, sum(units) AS units,
       sum(reorder_point) AS reorder_point,
       CASE WHEN sum(units) = 0 THEN 'out of stock'
            WHEN sum(units) <= sum(reorder_point) THEN 'low'
            ELSE 'in stock' END AS state
FROM sold
JOIN products ON products.id = sold.product
JOIN stock ON stock.product = sold.product
WHERE (:category IS NULL OR category = :category)
  AND (:warehouse IS NULL OR warehouse = :warehouse)
GROUP BY products.id
ORDER BY units_sold DESC, product
LIMIT :limit",
        examples: &[
            "Are our best sellers in stock?",
            "Why are customers not buying our top products?",
            "Do we have enough of our top products?",
            "Stock of our bestsellers",
            "Are our most popular products available?",
            "How many units of our top sellers are left?",
            "Is stock the reason why our best sellers are not bought?",
            "Which of our best selling products are running out?",
            "Are the top products sold out?",
            "Why can customers not buy our best sellers?",
        ],
        sentences: &[
            "(are|is) (our|the) (best sellers|bestsellers|top sellers|top products|best selling products) [still] (in stock|available|sold out)",
        ],
        answer: Sentence {
            lead: "Stock of what sold most{filters}{during}",
            each: "{product} {units} units ({state}; {units_sold} sold)",
            none: "Nothing was sold{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "stock_by_warehouse",
        description: "How much each warehouse holds, and how much of it is low.",
        sql: "SELECT warehouse, sum(units) AS units, count(*) AS products,
       count(*) FILTER (WHERE units <= reorder_point) AS low_products
FROM stock
JOIN products ON products.id = stock.product
WHERE (:category IS NULL OR category = :category)
  AND (:warehouse IS NULL OR warehouse = :warehouse)
  AND (:products IS NULL OR products.name IN (SELECT value FROM json_each(:products)))
GROUP BY warehouse
ORDER BY units DESC",
        examples: &[
            "How much stock is in each warehouse?",
            "Stock by warehouse",
            "Which warehouse holds the most units?",
            "Compare the warehouses.",
            "How is the inventory spread over the warehouses?",
            "Inventory per warehouse",
            "How full are our warehouses?",
            "Units in every warehouse",
            "In which warehouse are the Merino Socks?",
            "Where are Trail Running Shoes stored?",
            "How many units are in the Leipzig warehouse?",
        ],
        sentences: &["(stock|inventory|units) (by|per|in each|for each) warehouse"],
        answer: Sentence {
            lead: "Stock by warehouse{filters} on {today}",
            each: "{warehouse} {units} units ({low_products} of {products} products low)",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "stock_value",
        description: "How many units are in stock in each category, and what they are worth at the supplier's price.",
        sql: "SELECT category, sum(units) AS units,
       round(sum(units * supplier_cents) / 100.0, 2) AS value_eur
FROM stock
JOIN products ON products.id = stock.product
WHERE (:category IS NULL OR category = :category)
  AND (:warehouse IS NULL OR warehouse = :warehouse)
GROUP BY category
ORDER BY value_eur DESC",
        examples: &[
            "What is our inventory worth?",
            "How much money is tied up in stock?",
            "Stock by category",
            "Value of the stock in Cologne",
            "How many units do we hold in each category?",
            "Inventory value per category",
            "How much capital sits in the warehouses?",
            "Which category has the most stock?",
            "Total value of all inventory",
            "How much stock do we have in electronics?",
            "What are the goods in the warehouses worth?",
        ],
        sentences: &["(stock|inventory) (value|by category|value by category|per category)"],
        answer: Sentence {
            lead: "Stock and its value at supplier prices{filters} on {today}",
            each: "{category} {units} units worth {value_eur:money}",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "longest_lead_times",
        description: "Products that take the longest from order to delivery.",
        sql: "SELECT products.name AS product, category, max(lead_days) AS lead_days,
       sum(units) AS units
FROM stock
JOIN products ON products.id = stock.product
WHERE (:category IS NULL OR category = :category)
  AND (:warehouse IS NULL OR warehouse = :warehouse)
  AND (:products IS NULL OR products.name IN (SELECT value FROM json_each(:products)))
GROUP BY products.id
ORDER BY max(lead_days) DESC, product
LIMIT :limit",
        examples: &[
            "Which products have the longest lead times?",
            "What takes longest to be delivered by suppliers?",
            "Longest delivery times",
            "How long does it take to restock Trail Running Shoes?",
            "Lead time of Merino Socks",
            "Which items take the most days to arrive after ordering?",
            "How many days until a reorder of the Desk Lamp arrives?",
            "Slowest products to replenish",
            "Replenishment times for electronics",
            "What are the lead days of these products?",
        ],
        sentences: &[
            "(which|what) (products|items) have the longest (lead|delivery) (time|times)",
            "[what is the] lead (time|times|days) (of|for) these products",
        ],
        answer: Sentence {
            lead: "Days from order to delivery{filters}, the longest first",
            each: "{product} {lead_days} days",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "reorder_suggestions",
        description: "What to order from suppliers now, and how much of it.",
        sql: "SELECT products.name AS product, sum(2 * reorder_point - units) AS order_units,
       round(sum((2 * reorder_point - units) * supplier_cents) / 100.0, 2) AS cost_eur,
       max(lead_days) AS lead_days
FROM stock
JOIN products ON products.id = stock.product
WHERE units <= reorder_point
  AND (:category IS NULL OR category = :category)
  AND (:warehouse IS NULL OR warehouse = :warehouse)
GROUP BY products.id
ORDER BY order_units DESC, product
LIMIT :limit",
        examples: &[
            "What should we reorder?",
            "Which products need to be ordered from suppliers?",
            "What do we have to replenish now?",
            "Give me a purchase proposal.",
            "How much should we order of what?",
            "Which items should purchasing buy next?",
            "Reorder suggestions for the Munich warehouse",
            "What needs restocking?",
            "Recommend what to restock.",
            "Which goods must we buy in again?",
            "Replenishment list",
        ],
        sentences: &[
            "what (should|must) we (reorder|restock|replenish) [now]",
            "(which|what) (products|items) (should|must) we (reorder|restock|replenish)",
        ],
        answer: Sentence {
            lead: "To be reordered{filters}, filling up to twice the reorder point",
            each: "{product} {order_units} units for {cost_eur:money} ({lead_days} days)",
            none: "Nothing has to be reordered{filters}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "days_of_stock_left",
        description: "Which products run out first, if they sell as they did in the period.",
        sql: "WITH sold AS (
  SELECT product, sum(quantity) AS units
  FROM order_items
  JOIN orders ON orders.id = order_id
  WHERE day BETWEEN :from AND :to
  GROUP BY product
), held AS (
  SELECT product, sum(units) AS units FROM stock GROUP BY product
)
SELECT products.name AS product, held.units AS units,
       round(1.0 * sold.units / (julianday(:to) - julianday(:from) + 1), 2) AS sold_a_day,
       CAST(held.units * (julianday(:to) - julianday(:from) + 1) / sold.units AS INTEGER) AS days_left
FROM held
JOIN sold ON sold.product = held.product
JOIN products ON products.id = held.product
WHERE held.units > 0
  AND (:category IS NULL OR category = :category)
  AND (:products IS NULL OR products.name IN (SELECT value FROM json_each(:products)))
ORDER BY 1.0 * held.units / sold.units, product
LIMIT :limit",
        examples: &[
            "Which products will run out first?",
            "How many days of stock are left?",
            "How long will the stock last?",
            "When will Trail Running Shoes run out?",
            "How long do the Merino Socks last at the current rate of sale?",
            "Days of inventory remaining",
            "Which items will be gone soonest?",
            "Stock coverage in days",
            "What is going to be sold out next?",
            "How many weeks does our inventory of these products last?",
            "Products with the shortest stock range",
        ],
        sentences: &[
            "(which|what) (products|items) will run out (first|soonest|next)",
            "when will these products run out",
            "how long will (the stock|the inventory|these products) last",
        ],
        answer: Sentence {
            lead: "Running out first{filters}, if they sell as{during}",
            each: "{product} in {days_left} days ({units} units, {sold_a_day} sold a day)",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "safety_stock",
        description: "How much safety stock each product needs, from its daily demand over the period and its lead time.",
        sql: "WITH RECURSIVE calendar (day) AS (
  SELECT :from
  UNION ALL
  SELECT date(day, '+1 day') FROM calendar WHERE day < :to
), demand AS (
  SELECT products.id AS product, calendar.day,
         coalesce((SELECT sum(quantity)
                   FROM orders JOIN order_items ON order_id = orders.id
                   WHERE orders.day = calendar.day AND order_items.product = products.id), 0) AS units
  FROM calendar
  CROSS JOIN products
  WHERE (:category IS NULL OR category = :category)
    AND (:products IS NULL OR products.name IN (SELECT value FROM json_each(:products)))
), spread AS (
  SELECT product, avg(units) AS defaults, max(units) AS peak FROM demand GROUP BY product
), held AS (
  SELECT product, sum(units) AS units, max(lead_days) AS longest, avg(lead_days) AS defaults
  FROM stock GROUP BY product
)
SELECT products.name AS product,
       CAST(round(spread.peak * held.longest - spread.defaults * held.defaults) AS INTEGER) AS safety_units,
       held.units AS units,
       round(spread.defaults, 2) AS sold_a_day, spread.peak AS most_sold_a_day
FROM spread
JOIN held ON held.product = spread.product
JOIN products ON products.id = spread.product
ORDER BY safety_units DESC, product
LIMIT :limit",
        period: "last 3 months",
        examples: &[
            "How much safety stock do we need?",
            "Calculate the safety stock.",
            "Which products need the largest buffer?",
            "What buffer stock should we keep for Trail Running Shoes?",
            "Safety stock by product",
            "How large should our reserve be to cover peaks in demand?",
            "Recommended safety stock for electronics",
            "How much reserve do we need in the warehouses?",
            "Which products have the most unsteady demand and need a reserve?",
            "What minimum stock should we hold against peaks?",
        ],
        sentences: &[
            "how much (safety|buffer|reserve) stock do we need [for these products]",
            "[what is the] (safety|buffer) stock (of|for) these products",
        ],
        answer: Sentence {
            lead: "Safety stock{filters}, from the demand{during}",
            each: "{product} {safety_units} units (now {units})",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
];
