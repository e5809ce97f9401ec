//! Current and earlier prices, and margins.

use crate::space::{CertifiedQuery, Products, Sentence, Space};

pub(crate) const SPACE: Space = Space {
    id: "pricing",
    about: "What products cost today and before, discounts, margins, and how demand followed prices.",
    query_tool: "query_space_pricing",
    poll_tool: "poll_response_pricing",
    channels: &[],
    queries: QUERIES,
    out_of_scope: &[
        "what do our competitors charge",
        "set the price of everything to one euro",
        "raise all prices by ten percent",
        "what price should we ask next year",
        "what does shipping cost",
        "how much do we pay our staff",
        "what is the price of gold",
        "how much is the rent of the store",
        "which voucher codes are valid",
        "give me a discount",
        "what taxes are in the price",
        "how much does an advertisement cost",
    ],
};

const QUERIES: &[CertifiedQuery] = &[
    CertifiedQuery {
        id: "price_of_products",
        description: "What the named products cost today.",
        sql: "SELECT products.name AS product, round(cents / 100.0, 2) AS list_price_eur,
       discount_percent, round(cents * (100 - discount_percent) / 10000.0, 2) AS price_eur
FROM prices
JOIN products ON products.id = prices.product
WHERE valid_from = (SELECT max(valid_from) FROM prices AS latest
                    WHERE latest.product = prices.product)
  AND products.name IN (SELECT value FROM json_each(:products))
ORDER BY product
LIMIT 50",
        products: Products::Needed,
        examples: &[
            "What is the price of Trail Running Shoes?",
            "How much do Merino Socks cost?",
            "How much is the Desk Lamp?",
            "What do these products cost: Linen Shirt, Smart Watch?",
            "Current prices of Trail Running Shoes and Puffer Jacket",
            "What do we charge for the Espresso Machine?",
            "Tell me the price of them.",
            "Price of Silk Blouse today",
            "How expensive is the Robot Vacuum?",
            "What are the prices of these products?",
            "How much do they cost?",
            "What does a customer pay for Boat Shoes?",
        ],
        sentences: &[
            "(what is|what's|what are|show [me]|tell me) the [current] (price|prices) (of|for) (these products|them|those)",
            "(what|how much) (do|does) (these products|they|it) cost",
            "how (much|expensive) (is|are) [the] (these products|they|it)",
        ],
        answer: Sentence {
            lead: "Prices on {today}",
            each: "{product} {price_eur:money} (list price {list_price_eur:money}, {discount_percent} % off)",
            none: "None of these products has a price.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "price_history_of_products",
        description: "Every price that the named products had.",
        sql: "SELECT products.name AS product, valid_from, round(cents / 100.0, 2) AS list_price_eur,
       discount_percent, round(cents * (100 - discount_percent) / 10000.0, 2) AS price_eur
FROM prices
JOIN products ON products.id = prices.product
WHERE valid_from BETWEEN :from AND :to
  AND products.name IN (SELECT value FROM json_each(:products))
ORDER BY product, valid_from
LIMIT 50",
        period: "last 12 months",
        products: Products::Needed,
        examples: &[
            "How has the price of Smart Watch changed?",
            "Price history of Trail Running Shoes",
            "What did the Robot Vacuum cost before?",
            "Show all prices that Merino Socks had this year.",
            "When did the price of the Desk Lamp change?",
            "How did the price of these products develop?",
            "What did Linen Shirt cost in July?",
            "Past prices of the Espresso Machine",
            "Did the price of Power Bank go up?",
            "Has the Puffer Jacket become more expensive?",
        ],
        sentences: &[
            "[show|what is] [me] [the] price history (of|for) (these products|them)",
            "how (has|have|did) the (price|prices) of (these products|them) (changed|change|developed|develop)",
        ],
        answer: Sentence {
            lead: "Prices{during}",
            each: "{product} {price_eur:money} from {valid_from}",
            none: "No price of these products changed{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "price_increases",
        description: "Products whose list price rose the most.",
        sql: "WITH changes AS (
  SELECT product, valid_from, cents,
         lag(cents) OVER (PARTITION BY product ORDER BY valid_from) AS before
  FROM prices
)
SELECT products.name AS product, category, valid_from, round(before / 100.0, 2) AS old_price_eur,
       round(cents / 100.0, 2) AS new_price_eur,
       round(100.0 * (cents - before) / before, 1) AS change_percent
FROM changes
JOIN products ON products.id = changes.product
WHERE cents > before
  AND valid_from BETWEEN :from AND :to
  AND (:category IS NULL OR category = :category)
ORDER BY change_percent DESC, product
LIMIT :limit",
        period: "last 12 months",
        examples: &[
            "Which prices went up the most?",
            "What became more expensive?",
            "Biggest price increases in July",
            "Which products had a price rise this year?",
            "Where did we raise prices?",
            "Show the largest price hikes.",
            "Which products got dearer?",
            "What prices have increased in electronics?",
            "Top 10 price increases",
            "Which items cost more than before?",
        ],
        sentences: &[
            "(which|what) prices (went up|rose|increased|have gone up) [the most|most]",
            "[show|list] [me] [the] (biggest|largest|highest|top) price (increases|rises|hikes)",
        ],
        answer: Sentence {
            lead: "Largest rises of list prices{filters}{during}",
            each: "{product} +{change_percent} % to {new_price_eur:money} on {valid_from}",
            none: "No list price rose{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "price_decreases",
        description: "Products whose list price fell the most.",
        sql: "WITH changes AS (
  SELECT product, valid_from, cents,
         lag(cents) OVER (PARTITION BY product ORDER BY valid_from) AS before
  FROM prices
)
SELECT products.name AS product, category, valid_from, round(before / 100.0, 2) AS old_price_eur,
       round(cents / 100.0, 2) AS new_price_eur,
       round(100.0 * (cents - before) / before, 1) AS change_percent
FROM changes
JOIN products ON products.id = changes.product
WHERE cents < before
  AND valid_from BETWEEN :from AND :to
  AND (:category IS NULL OR category = :category)
ORDER BY change_percent, product
LIMIT :limit",
        period: "last 12 months",
        examples: &[
            "Which prices went down the most?",
            "What became cheaper?",
            "Biggest price drops this year",
            "Which products had their price cut?",
            "Where did we lower prices?",
            "Show the largest price decreases.",
            "Which prices fell?",
            "What prices have been reduced in clothing?",
            "Which items cost less than before?",
            "Top 3 price reductions of list prices",
        ],
        sentences: &[
            "(which|what) prices (went down|fell|dropped|decreased|have gone down) [the most|most]",
            "[show|list] [me] [the] (biggest|largest|highest|top) price (drops|cuts|decreases|reductions)",
        ],
        answer: Sentence {
            lead: "Largest falls of list prices{filters}{during}",
            each: "{product} {change_percent} % to {new_price_eur:money} on {valid_from}",
            none: "No list price fell{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "current_discounts",
        description: "What is on sale today, the largest discounts first.",
        sql: "SELECT products.name AS product, category, discount_percent,
       round(cents / 100.0, 2) AS list_price_eur,
       round(cents * (100 - discount_percent) / 10000.0, 2) AS price_eur
FROM prices
JOIN products ON products.id = prices.product
WHERE valid_from = (SELECT max(valid_from) FROM prices AS latest
                    WHERE latest.product = prices.product)
  AND discount_percent > 0
  AND (:category IS NULL OR category = :category)
  AND (:products IS NULL OR products.name IN (SELECT value FROM json_each(:products)))
ORDER BY discount_percent DESC, product
LIMIT :limit",
        examples: &[
            "Which products are discounted?",
            "What is on sale right now?",
            "Show the biggest discounts.",
            "Which items have a reduced price at the moment?",
            "Current discounts in beauty",
            "What special offers do we have?",
            "Which products are marked down?",
            "Is the Desk Lamp on sale?",
            "Is there a discount on Merino Socks?",
            "List everything that is on offer.",
            "How much off is there on electronics?",
        ],
        sentences: &[
            "(which|what) (products|items|is|are) [are] (discounted|on sale|on offer|reduced|marked down) [right now|now|at the moment|currently]",
            "[show|list] [me] [the] [current] [biggest|largest] discounts",
        ],
        answer: Sentence {
            lead: "On sale{filters} on {today}",
            each: "{product} {discount_percent} % off, now {price_eur:money}",
            none: "Nothing is on sale{filters}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "average_price_by_category",
        description: "What products of each category cost on average today.",
        sql: "SELECT category, count(*) AS products,
       round(avg(cents * (100 - discount_percent)) / 10000.0, 2) AS average_price_eur,
       round(min(cents * (100 - discount_percent)) / 10000.0, 2) AS lowest_price_eur,
       round(max(cents * (100 - discount_percent)) / 10000.0, 2) AS highest_price_eur
FROM prices
JOIN products ON products.id = prices.product
WHERE valid_from = (SELECT max(valid_from) FROM prices AS latest
                    WHERE latest.product = prices.product)
  AND (:category IS NULL OR category = :category)
GROUP BY category
ORDER BY average_price_eur DESC",
        examples: &[
            "What is the average price by category?",
            "Average price per category",
            "How expensive are our categories?",
            "Which category is the most expensive?",
            "What does a product cost on average?",
            "What is the mean price in electronics?",
            "Price level of each category",
            "What are the lowest and highest prices in footwear?",
            "Compare prices between categories.",
            "What price range do we have in home?",
        ],
        sentences: &["[what is the] average price [by|per|of each|in each] [category|products]"],
        answer: Sentence {
            lead: "Average prices{filters} on {today}",
            each: "{category} {average_price_eur:money} ({lowest_price_eur:money} to {highest_price_eur:money})",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "price_trend",
        description: "How the average price paid developed, month by month.",
        sql: "WITH RECURSIVE months (month) AS (
  SELECT date(:from, 'start of month')
  UNION ALL
  SELECT date(month, '+1 month') FROM months WHERE date(month, '+1 month') <= :to
)
SELECT substr(month, 1, 7) AS month,
       round(avg(cents * (100 - discount_percent)) / 10000.0, 2) AS average_price_eur,
       round(avg(cents) / 100.0, 2) AS average_list_price_eur
FROM months
CROSS JOIN products
JOIN prices ON prices.product = products.id
  AND valid_from = (SELECT max(valid_from) FROM prices AS latest
                    WHERE latest.product = products.id
                      AND valid_from <= min(date(month, '+1 month', '-1 day'), :to))
WHERE (:category IS NULL OR category = :category)
GROUP BY month
ORDER BY month",
        period: "last 12 months",
        examples: &[
            "How did prices develop?",
            "Price trend by month",
            "How have average prices changed over the year?",
            "Show how prices moved in electronics.",
            "Are our prices rising?",
            "Monthly average price",
            "Development of prices since July",
            "What is the trend of our price level?",
            "How did the price level of footwear change month by month?",
            "Price development over time",
        ],
        sentences: &[
            "[show] [me] [the] price (trend|development) [by month]",
            "how (did|have) [the|our] prices (develop|developed|change|changed|move|moved)",
        ],
        answer: Sentence {
            lead: "Average prices at the end of each month{filters}{during}",
            each: "{month} {average_price_eur:money}",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "lowest_margins",
        description: "Products on which the least is earned: price against supplier price.",
        sql: "SELECT products.name AS product, category,
       round(cents * (100 - discount_percent) / 10000.0, 2) AS price_eur,
       round(supplier_cents / 100.0, 2) AS supplier_price_eur,
       round(100.0 - 10000.0 * supplier_cents / (cents * (100 - discount_percent)), 1) AS margin_percent
FROM prices
JOIN products ON products.id = prices.product
WHERE valid_from = (SELECT max(valid_from) FROM prices AS latest
                    WHERE latest.product = prices.product)
  AND (:category IS NULL OR category = :category)
  AND (:products IS NULL OR products.name IN (SELECT value FROM json_each(:products)))
ORDER BY margin_percent, product
LIMIT :limit",
        examples: &[
            "Which products have the lowest margin?",
            "Where do we earn the least?",
            "What is the margin on Trail Running Shoes?",
            "Show the products with the smallest margins.",
            "What do we make on Merino Socks?",
            "Which items hardly bring any profit?",
            "Worst margins in clothing",
            "How much do we earn on these products?",
            "Least profitable products",
            "Margins compared to the supplier price",
            "On which products is our markup the lowest?",
        ],
        sentences: &[
            "(which|what) (products|items) have the (lowest|smallest|worst) (margin|margins)",
            "(what is|what's) (the|our) margin (on|of|for) these products",
        ],
        answer: Sentence {
            lead: "Lowest margins{filters} on {today}",
            each: "{product} {margin_percent} % ({price_eur:money} for {supplier_price_eur:money})",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "highest_margins",
        description: "Products on which the most is earned: price against supplier price.",
        sql: "SELECT products.name AS product, category,
       round(cents * (100 - discount_percent) / 10000.0, 2) AS price_eur,
       round(supplier_cents / 100.0, 2) AS supplier_price_eur,
       round(100.0 - 10000.0 * supplier_cents / (cents * (100 - discount_percent)), 1) AS margin_percent
FROM prices
JOIN products ON products.id = prices.product
WHERE valid_from = (SELECT max(valid_from) FROM prices AS latest
                    WHERE latest.product = prices.product)
  AND (:category IS NULL OR category = :category)
  AND (:products IS NULL OR products.name IN (SELECT value FROM json_each(:products)))
ORDER BY margin_percent DESC, product
LIMIT :limit",
        examples: &[
            "Where do we earn the most?",
            "Show the products with the largest margins.",
            "Top products by margin",
            "Best margins in clothing",
            "Most profitable products",
            "On which products is our markup the highest?",
            "Which items bring the most profit?",
            "Products with the biggest margin",
            "Where is our margin best?",
            "What do we make the most profit on?",
            "Highest margins in electronics",
        ],
        sentences: &[
            "(which|what) (products|items) have the (highest|biggest|largest|best) (margin|margins)",
            "[the] [top|best] products by (margin|profit|markup)",
        ],
        answer: Sentence {
            lead: "Highest margins{filters} on {today}",
            each: "{product} {margin_percent} % ({price_eur:money} for {supplier_price_eur:money})",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "demand_after_price_changes",
        description: "How many units were sold in the 30 days before and after each change of a price.",
        sql: "WITH changes AS (
  SELECT product, valid_from, cents,
         lag(cents) OVER (PARTITION BY product ORDER BY valid_from) AS before
  FROM prices
), sold AS (
  SELECT product, day, quantity
  FROM order_items JOIN orders ON orders.id = order_id
), compared AS (
  SELECT changes.product, valid_from,
         round(100.0 * (cents - before) / before, 1) AS price_change_percent,
         coalesce(sum(quantity) FILTER (WHERE day < valid_from), 0) AS units_before,
         coalesce(sum(quantity) FILTER (WHERE day >= valid_from), 0) AS units_after
  FROM changes
  JOIN sold ON sold.product = changes.product
    AND day >= date(valid_from, '-30 days') AND day < date(valid_from, '+30 days')
  WHERE cents <> before AND valid_from BETWEEN :from AND :to
  GROUP BY changes.product, valid_from
)
SELECT products.name AS product, category, valid_from, price_change_percent,
       units_before, units_after
FROM compared
JOIN products ON products.id = compared.product
WHERE (:category IS NULL OR category = :category)
  AND (:products IS NULL OR products.name IN (SELECT value FROM json_each(:products)))
ORDER BY units_after - units_before, product
LIMIT :limit",
        period: "last 12 months",
        examples: &[
            "How did demand react to price changes?",
            "Did we sell less after prices went up?",
            "What is the effect of price changes on sales?",
            "Price elasticity of our products",
            "How did the price increase affect the units sold?",
            "Demand before and after price changes in electronics",
            "Which products lost demand after a price rise?",
            "How sensitive are customers to price?",
            "Did the new price of Smart Watch hurt demand?",
            "Impact of price increases on demand",
        ],
        sentences: &[
            "how did demand (react|respond) to (price changes|price increases|the price change)",
            "price elasticity [of these products]",
        ],
        answer: Sentence {
            lead: "Units sold in the 30 days before and after a change of price{filters}{during}, the largest losses first",
            each: "{product} {units_before} before and {units_after} after {price_change_percent} % on {valid_from}",
            none: "No price changed{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
];
