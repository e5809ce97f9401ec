//! Sales by quantity, product, place and time.

use crate::space::{CertifiedQuery, Products, Sentence, Space};
use crate::vocabulary::SHOP_CHANNELS;

pub(crate) const SPACE: Space = Space {
    id: "sales",
    about: "What was sold: revenue, orders and units by product, category, region, channel and month.",
    query_tool: "query_space_sales",
    poll_tool: "poll_response_sales",
    channels: SHOP_CHANNELS,
    queries: QUERIES,
    out_of_scope: &[
        "what will we sell next year",
        "forecast the revenue of the coming months",
        "who is our best salesperson",
        "cancel the last order",
        "what is the status of order 4711",
        "how much tax do we owe",
        "how many orders were returned",
        "what profit did we make after all costs",
        "how much do competitors sell",
        "which customer spent the most",
        "refund the last order",
        "what is our company worth",
    ],
};

const QUERIES: &[CertifiedQuery] = &[
    CertifiedQuery {
        id: "total_revenue",
        description: "Revenue, orders, units and the average order of a period.",
        sql: "SELECT round(sum(quantity * unit_cents) / 100.0, 2) AS revenue_eur,
       count(DISTINCT orders.id) AS orders, sum(quantity) AS units,
       round(sum(quantity * unit_cents) / 100.0 / count(DISTINCT orders.id), 2) AS average_order_eur
FROM orders
JOIN order_items ON order_id = orders.id
JOIN products ON products.id = order_items.product
JOIN customers ON customers.id = orders.customer
WHERE day BETWEEN :from AND :to
  AND (:category IS NULL OR category = :category)
  AND (:region IS NULL OR orders.region = :region)
  AND (:segment IS NULL OR segment = :segment)
  AND (:channel IS NULL OR channel = :channel)
HAVING count(*) > 0",
        examples: &[
            "What was our revenue last month?",
            "How much did we sell?",
            "How many orders did we have in July?",
            "What is the average order value?",
            "Total sales this year",
            "How much money did we take?",
            "What did we turn over in the west?",
            "What did loyal customers spend?",
            "Turnover in the north last quarter",
            "How are sales going?",
            "Number of orders in the app",
            "How much revenue did footwear make?",
            "What were our sales in September?",
            "How big is an average basket?",
            "What do loyal customers spend on an average order?",
        ],
        sentences: &[
            "(what is|what was|what's|how high was|how high is) (the|our) [total] (revenue|turnover)",
            "how many orders (did we have|were there|did we get)",
            "(what is|what was|what's) (the|our) average order [value]",
        ],
        answer: Sentence {
            lead: "Revenue{filters}{during} was {revenue_eur:money} from {orders} orders with {units} units, {average_order_eur:money} an order",
            each: "",
            none: "Nothing was sold{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "best_selling_products",
        description: "Products that sold most.",
        sql: "SELECT products.name AS product, category, sum(quantity) AS units,
       round(sum(quantity * unit_cents) / 100.0, 2) AS revenue_eur
FROM orders
JOIN order_items ON order_id = orders.id
JOIN products ON products.id = order_items.product
JOIN customers ON customers.id = orders.customer
WHERE day BETWEEN :from AND :to
  AND (:category IS NULL OR category = :category)
  AND (:region IS NULL OR orders.region = :region)
  AND (:segment IS NULL OR segment = :segment)
  AND (:channel IS NULL OR channel = :channel)
GROUP BY products.id
ORDER BY units DESC, product
LIMIT :limit",
        examples: &[
            "Which products sell best?",
            "What are our bestsellers?",
            "Top 10 products by units sold",
            "Most sold items last month",
            "What do customers buy most?",
            "Best selling shoes in the north",
            "What are the most popular products?",
            "Show the top sellers.",
            "Which articles are bought most often?",
            "Strongest products this quarter",
        ],
        sentences: &[
            "(which|what) (products|items) (sell|sold|are selling) [the] (best|most)",
            "(what are|show [me]|list) (the|our) (bestsellers|best sellers|top sellers|best selling products|top products|top selling products)",
        ],
        answer: Sentence {
            lead: "Sold most{filters}{during}",
            each: "{product} {units} units for {revenue_eur:money}",
            none: "Nothing was sold{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "highest_revenue_products",
        description: "Products that brought the most revenue.",
        sql: "SELECT products.name AS product, category, sum(quantity) AS units,
       round(sum(quantity * unit_cents) / 100.0, 2) AS revenue_eur
FROM orders
JOIN order_items ON order_id = orders.id
JOIN products ON products.id = order_items.product
JOIN customers ON customers.id = orders.customer
WHERE day BETWEEN :from AND :to
  AND (:category IS NULL OR category = :category)
  AND (:region IS NULL OR orders.region = :region)
  AND (:segment IS NULL OR segment = :segment)
  AND (:channel IS NULL OR channel = :channel)
GROUP BY products.id
ORDER BY revenue_eur DESC, product
LIMIT :limit",
        examples: &[
            "Which products bring the most revenue?",
            "Top products by revenue",
            "Best products by turnover",
            "Which items earn the most money?",
            "Products with the highest sales value",
            "What are our top products by income?",
            "Rank the products by revenue.",
            "Which articles make the most turnover?",
            "Highest revenue products in the west",
            "Top 10 items by revenue this year",
        ],
        sentences: &[
            "[the|our] [top|best] (products|items|sellers) by (revenue|turnover|income)",
            "(which|what) (products|items) (bring|brought|make|made|generate|generated) the most (revenue|turnover|money|income)",
        ],
        answer: Sentence {
            lead: "Highest revenue{filters}{during}",
            each: "{product} {revenue_eur:money} for {units} units",
            none: "Nothing was sold{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "worst_selling_products",
        description: "Products that sold least, those that did not sell at all included.",
        sql: "WITH sold AS (
  SELECT order_items.product, sum(quantity) AS units, sum(quantity * unit_cents) AS cents
  FROM orders
  JOIN order_items ON order_id = orders.id
  JOIN customers ON customers.id = orders.customer
  WHERE day BETWEEN :from AND :to
    AND (:region IS NULL OR orders.region = :region)
    AND (:segment IS NULL OR segment = :segment)
    AND (:channel IS NULL OR channel = :channel)
  GROUP BY order_items.product
)
SELECT products.name AS product, category, coalesce(units, 0) AS units,
       round(coalesce(cents, 0) / 100.0, 2) AS revenue_eur
FROM products
LEFT JOIN sold ON sold.product = products.id
WHERE (:category IS NULL OR category = :category)
ORDER BY coalesce(units, 0), product
LIMIT :limit",
        examples: &[
            "Which products sell worst?",
            "What are our slow sellers?",
            "Bottom 5 products by units sold",
            "Least sold items last month",
            "What does nobody buy?",
            "Which products hardly sell?",
            "Weakest products in the south",
            "Show the worst sellers.",
            "What are the least popular products?",
            "Which articles do not sell?",
            "Slow moving products",
        ],
        sentences: &[
            "(which|what) (products|items) (sell|sold|are selling) [the] (worst|least)",
            "(what are|show [me]|list) (the|our) (slow sellers|worst sellers|worst selling products|least sold products)",
        ],
        answer: Sentence {
            lead: "Sold least{filters}{during}",
            each: "{product} {units} units",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "revenue_by_category",
        description: "Revenue and units of each category.",
        sql: "SELECT category, round(sum(quantity * unit_cents) / 100.0, 2) AS revenue_eur,
       sum(quantity) AS units, count(DISTINCT orders.id) AS orders
FROM orders
JOIN order_items ON order_id = orders.id
JOIN products ON products.id = order_items.product
JOIN customers ON customers.id = orders.customer
WHERE day BETWEEN :from AND :to
  AND (:region IS NULL OR orders.region = :region)
  AND (:segment IS NULL OR segment = :segment)
  AND (:channel IS NULL OR channel = :channel)
GROUP BY category
ORDER BY revenue_eur DESC",
        examples: &[
            "Revenue by category",
            "Which category sells best?",
            "How much did each category bring in?",
            "Compare sales between categories.",
            "What are the strongest categories?",
            "Sales per category last quarter",
            "Break our revenue down by category.",
            "Which product group makes the most turnover?",
            "Turnover of every category in the north",
            "How do the categories do?",
            "What revenue does every category make?",
        ],
        sentences: &["[show] [me] [the] (revenue|sales|turnover) (by|per|of each|for each) (category|product group)"],
        answer: Sentence {
            lead: "Revenue by category{filters}{during}",
            each: "{category} {revenue_eur:money}",
            none: "Nothing was sold{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "revenue_by_region",
        description: "Revenue and orders of each region.",
        sql: "SELECT orders.region, round(sum(quantity * unit_cents) / 100.0, 2) AS revenue_eur,
       count(DISTINCT orders.id) AS orders, sum(quantity) AS units
FROM orders
JOIN order_items ON order_id = orders.id
JOIN products ON products.id = order_items.product
JOIN customers ON customers.id = orders.customer
WHERE day BETWEEN :from AND :to
  AND (:category IS NULL OR category = :category)
  AND (:segment IS NULL OR segment = :segment)
  AND (:channel IS NULL OR channel = :channel)
GROUP BY orders.region
ORDER BY revenue_eur DESC",
        examples: &[
            "Revenue by region",
            "Which region sells most?",
            "How much did each region bring in?",
            "Compare sales between regions.",
            "Where do we sell the most?",
            "Sales per region last month",
            "Break turnover down by region.",
            "What is our strongest region?",
            "In which part of the country is revenue highest?",
            "Regional sales of electronics",
        ],
        sentences: &["[show] [me] [the] (revenue|sales|turnover|orders) (by|per|of each|for each) region"],
        answer: Sentence {
            lead: "Revenue by region{filters}{during}",
            each: "{region} {revenue_eur:money} ({orders} orders)",
            none: "Nothing was sold{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "revenue_by_channel",
        description: "Revenue and orders on the web, in the app and in the store, compared.",
        sql: "SELECT channel, round(sum(quantity * unit_cents) / 100.0, 2) AS revenue_eur,
       count(DISTINCT orders.id) AS orders, sum(quantity) AS units
FROM orders
JOIN order_items ON order_id = orders.id
JOIN products ON products.id = order_items.product
JOIN customers ON customers.id = orders.customer
WHERE day BETWEEN :from AND :to
  AND (:category IS NULL OR category = :category)
  AND (:region IS NULL OR orders.region = :region)
  AND (:segment IS NULL OR segment = :segment)
GROUP BY channel
ORDER BY revenue_eur DESC",
        examples: &[
            "Revenue by channel",
            "Which sales channel sells most?",
            "How much did each channel bring in?",
            "Compare sales between channels.",
            "Through which channel do customers order?",
            "Orders per channel last month",
            "Break turnover down by sales channel.",
            "What is our strongest sales channel?",
            "Share of the channels in revenue",
            "How are orders divided among the channels?",
        ],
        sentences: &[
            "[show] [me] [the] (revenue|sales|turnover|orders) (by|per|of each|for each) [sales] channel",
        ],
        answer: Sentence {
            lead: "Revenue by channel{filters}{during}",
            each: "{channel} {revenue_eur:money} ({orders} orders)",
            none: "Nothing was sold{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "revenue_by_month",
        description: "How revenue and orders developed, month by month.",
        sql: "SELECT substr(day, 1, 7) AS month, round(sum(quantity * unit_cents) / 100.0, 2) AS revenue_eur,
       count(DISTINCT orders.id) AS orders, sum(quantity) AS units
FROM orders
JOIN order_items ON order_id = orders.id
JOIN products ON products.id = order_items.product
JOIN customers ON customers.id = orders.customer
WHERE day BETWEEN :from AND :to
  AND (:category IS NULL OR category = :category)
  AND (:region IS NULL OR orders.region = :region)
  AND (:segment IS NULL OR segment = :segment)
  AND (:channel IS NULL OR channel = :channel)
  AND (:products IS NULL OR products.name IN (SELECT value FROM json_each(:products)))
GROUP BY month
ORDER BY month",
        period: "last 12 months",
        examples: &[
            "Revenue by month",
            "How did sales develop month by month?",
            "Show the sales trend.",
            "Are our sales growing?",
            "Monthly revenue of clothing",
            "In which month did we sell the most?",
            "How has turnover changed over the year?",
            "Orders per month in the app",
            "Development of revenue since April",
            "How did sales of Merino Socks develop?",
            "What was our best month?",
            "How has our revenue developed?",
            "Did sales go up or down?",
        ],
        sentences: &[
            "[show] [me] [the] (revenue|sales|turnover|orders) (by|per|of each|for each) month",
            "[show] [me] [the|our] (revenue|sales) (trend|development)",
        ],
        answer: Sentence {
            lead: "Revenue by month{filters}{during}",
            each: "{month} {revenue_eur:money}",
            none: "Nothing was sold{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "sales_of_products",
        description: "How many units of the named products were sold, and for how much.",
        sql: "WITH sold AS (
  SELECT order_items.product, sum(quantity) AS units, sum(quantity * unit_cents) AS cents
  FROM orders
  JOIN order_items ON order_id = orders.id
  JOIN customers ON customers.id = orders.customer
  WHERE day BETWEEN :from AND :to
    AND (:region IS NULL OR orders.region = :region)
    AND (:segment IS NULL OR segment = :segment)
    AND (:channel IS NULL OR channel = :channel)
  GROUP BY order_items.product
)
SELECT products.name AS product, coalesce(units, 0) AS units,
       round(coalesce(cents, 0) / 100.0, 2) AS revenue_eur
FROM products
LEFT JOIN sold ON sold.product = products.id
WHERE products.name IN (SELECT value FROM json_each(:products))
ORDER BY coalesce(units, 0) DESC, product
LIMIT 50",
        products: Products::Needed,
        examples: &[
            "How many Trail Running Shoes did we sell?",
            "Units sold of Merino Socks and Linen Shirt",
            "How much revenue did the Desk Lamp bring?",
            "How well do Smart Watch and Power Bank sell?",
            "Sales of these products: Silk Blouse, Boat Shoes",
            "How often was the Espresso Machine bought last month?",
            "What did we earn with Puffer Jacket in December?",
            "How many of them did we sell?",
            "How did these products sell?",
            "How many units of these were ordered?",
            "Turnover of Robot Vacuum this year",
            "How are they selling?",
            "How much turnover did the Linen Shirt make?",
            "What revenue came from Smart Watch and Power Bank?",
        ],
        sentences: &[
            "how many [units of] (these products|them|those) (did we sell|were sold|have we sold|sold)",
            "how many of (them|these|those) (did we sell|were sold|have we sold)",
            "[units sold|sales|revenue|turnover] (of|for) [the] (these products|them)",
            "how (well|much) (do|did|are) (these products|they) (sell|selling)",
        ],
        answer: Sentence {
            lead: "Sold{filters}{during}",
            each: "{product} {units} units for {revenue_eur:money}",
            none: "None of these products is sold here.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "bought_together",
        description: "Pairs of products that are bought in the same order: a basket analysis.",
        sql: "WITH chosen AS (
  SELECT orders.id
  FROM orders JOIN customers ON customers.id = orders.customer
  WHERE day BETWEEN :from AND :to
    AND (:region IS NULL OR orders.region = :region)
    AND (:segment IS NULL OR segment = :segment)
    AND (:channel IS NULL OR channel = :channel)
), single AS (
  SELECT product, count(*) AS orders
  FROM order_items JOIN chosen ON chosen.id = order_id GROUP BY product
), pairs AS (
  SELECT first.product AS one, second.product AS other, count(*) AS orders
  FROM chosen
  JOIN order_items AS first ON first.order_id = chosen.id
  JOIN order_items AS second ON second.order_id = chosen.id AND second.product > first.product
  GROUP BY first.product, second.product
)
SELECT a.name AS product, b.name AS other_product, pairs.orders,
       round(1.0 * pairs.orders * (SELECT count(*) FROM chosen)
             / (single_a.orders * single_b.orders), 1) AS lift
FROM pairs
JOIN products AS a ON a.id = pairs.one
JOIN products AS b ON b.id = pairs.other
JOIN single AS single_a ON single_a.product = pairs.one
JOIN single AS single_b ON single_b.product = pairs.other
WHERE (:category IS NULL OR a.category = :category OR b.category = :category)
  AND (:products IS NULL
       OR a.name IN (SELECT value FROM json_each(:products))
       OR b.name IN (SELECT value FROM json_each(:products)))
ORDER BY pairs.orders DESC, product, other_product
LIMIT :limit",
        period: "last 12 months",
        examples: &[
            "Which products are bought together?",
            "What pairs of products are ordered together most often?",
            "Basket analysis",
            "What do customers buy along with Trail Running Shoes?",
            "Which items go together in one order?",
            "What else is bought with Merino Socks?",
            "Show frequent combinations in orders.",
            "Which two products are often in the same order?",
            "Cross selling pairs in outdoor",
            "Market basket analysis for the app",
            "What do people buy with the Camping Stove?",
            "Which products are a good match for Desk Lamp in one purchase?",
        ],
        sentences: &[
            "(which|what) (products|items) (are|get) [often|frequently] (bought|ordered|sold) together [most] [often]",
            "(what|which products) [else] (do customers buy|is bought|are bought) [together|along] with these products",
        ],
        answer: Sentence {
            lead: "Bought together most often{filters}{during}",
            each: "{product} with {other_product} ({orders} orders)",
            none: "No two products were bought together{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
];
