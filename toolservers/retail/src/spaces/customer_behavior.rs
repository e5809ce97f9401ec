//! Customers: abandoned carts, new and returning customers.

use crate::space::{CertifiedQuery, Sentence, Space};
use crate::vocabulary::SHOP_CHANNELS;

pub(crate) const SPACE: Space = Space {
    id: "customer_behavior",
    about: "What customers do: which products and carts they abandon, who joins, who buys again.",
    query_tool: "query_space_customer_behavior",
    poll_tool: "poll_response_customer_behavior",
    channels: SHOP_CHANNELS,
    queries: QUERIES,
    out_of_scope: &[
        "what do customers say about us in reviews",
        "what is the email address of our best customer",
        "list the names of the customers who abandoned a cart",
        "how old are our customers",
        "how many customers complained",
        "how satisfied are our customers",
        "which pages of the website do visitors look at",
        "how long do visitors stay on the site",
        "how many customers returned a product for a refund",
        "delete all abandoned carts",
        "send a reminder to everybody who left a cart",
        "why do customers hate us",
    ],
};

const QUERIES: &[CertifiedQuery] = &[
    CertifiedQuery {
        id: "most_abandoned_products",
        description: "Products that are most often left in carts that never become orders.",
        sql: "SELECT products.name AS product, category,
       count(*) FILTER (WHERE state = 'abandoned') AS abandoned_carts,
       count(*) AS carts,
       round(100.0 * count(*) FILTER (WHERE state = 'abandoned') / count(*), 1) AS abandoned_percent
FROM cart_items
JOIN carts ON carts.id = cart_items.cart
JOIN customers ON customers.id = carts.customer
JOIN products ON products.id = cart_items.product
WHERE day BETWEEN :from AND :to
  AND (:category IS NULL OR category = :category)
  AND (:region IS NULL OR region = :region)
  AND (:segment IS NULL OR segment = :segment)
  AND (:channel IS NULL OR channel = :channel)
  AND (:products IS NULL OR products.name IN (SELECT value FROM json_each(:products)))
GROUP BY products.id
ORDER BY abandoned_carts DESC, product
LIMIT :limit",
        more_is_worse: true,
        examples: &[
            "Which products are abandoned in carts most often?",
            "What products do customers leave in their cart without buying?",
            "Show the top 5 abandoned products.",
            "Most frequently abandoned items in the last 30 days",
            "Which articles are most left behind in shopping carts?",
            "What do people put into the basket and then not buy?",
            "Which products have the highest abandonment?",
            "List the products with the most abandoned carts.",
            "Which items do shoppers abandon the most?",
            "How often are Trail Running Shoes abandoned?",
            "How many carts with Merino Socks were left?",
            "Products that end up in a cart but are never ordered",
            "What gets added to the cart but not bought?",
            "Which goods are dropped from baskets before checkout?",
            "What are the most abandoned products?",
            "Tell me which shoes get abandoned.",
            "List what loyal customers abandon.",
        ],
        sentences: &[
            "(what|which) [are the] [top] [most] [often|frequently] abandoned (products|items)",
            "[show|list] [me] [the] [top] [most] [often|frequently] abandoned (products|items)",
            "(what|which) (products|items) (are|get) [most] [often|frequently] abandoned [in carts] [most] [often|frequently]",
        ],
        answer: Sentence {
            lead: "Left in carts most often{filters}{during}",
            each: "{product} ({abandoned_carts} carts, {abandoned_percent} % of those it was in)",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "abandonment_of_best_sellers",
        description: "How often the products that sell best are left in carts.",
        sql: "WITH sold AS (
  SELECT order_items.product, sum(quantity) AS units_sold
  FROM orders JOIN order_items ON order_id = orders.id
  WHERE day BETWEEN :from AND :to
  GROUP BY order_items.product
)
SELECT products.name AS product, category, units_sold,
       count(*) FILTER (WHERE state = 'abandoned') AS abandoned_carts,
       count(*) AS carts,
       round(100.0 * count(*) FILTER (WHERE state = 'abandoned') / count(*), 1) AS abandoned_percent
FROM sold
JOIN products ON products.id = sold.product
JOIN cart_items ON cart_items.product = sold.product
JOIN carts ON carts.id = cart_items.cart
JOIN customers ON customers.id = carts.customer
WHERE carts.day BETWEEN :from AND :to
  AND (:category IS NULL OR category = :category)
  AND (:region IS NULL OR region = :region)
  AND (:segment IS NULL OR segment = :segment)
  AND (:channel IS NULL OR channel = :channel)
GROUP BY products.id
ORDER BY units_sold DESC, product
LIMIT :limit",
        more_is_worse: true,
        examples: &[
            "Why are customers not buying our top products?",
            "How often are our best sellers abandoned?",
            "Do customers leave our top products in the cart?",
            "Abandonment of our bestsellers",
            "Why do people not order our most popular products?",
            "What stops customers from buying our best sellers?",
            "How many carts with our top sellers are given up?",
            "Why are our strongest products not bought?",
            "Are the best selling products left in carts?",
            "Reasons why shoppers do not buy popular items",
            "Why do people no longer order our bestsellers?",
        ],
        sentences: &[
            "how often are (our|the) (best sellers|bestsellers|top sellers|top products) (abandoned|left in carts)",
        ],
        answer: Sentence {
            lead: "How often what sells best is left in carts{filters}{during}",
            each: "{product} {abandoned_percent} % ({abandoned_carts} of {carts} carts)",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "cart_abandonment_rate",
        description: "The share of all carts that never became orders.",
        sql: "SELECT count(*) AS carts,
       count(*) FILTER (WHERE state = 'abandoned') AS abandoned_carts,
       round(100.0 * count(*) FILTER (WHERE state = 'abandoned') / count(*), 1) AS abandoned_percent
FROM carts
JOIN customers ON customers.id = carts.customer
WHERE day BETWEEN :from AND :to
  AND (:region IS NULL OR region = :region)
  AND (:segment IS NULL OR segment = :segment)
  AND (:channel IS NULL OR channel = :channel)
HAVING count(*) > 0",
        more_is_worse: true,
        examples: &[
            "What is the cart abandonment rate?",
            "How many carts were abandoned last month?",
            "What share of carts is never ordered?",
            "What percentage of shopping carts do customers abandon?",
            "How high is our abandonment rate in the app?",
            "How many baskets did not turn into an order?",
            "Overall rate of abandoned carts",
            "What part of all carts is left without buying?",
            "How many carts do loyal customers abandon?",
            "Cart abandonment in the north",
            "Total number of abandoned carts",
        ],
        sentences: &[
            "(what is|what's|how high is) (the|our) [cart|basket] abandonment rate",
            "how many (carts|baskets) (were|are|got) abandoned",
            "[the|our] (cart|basket|checkout) abandonment [rate]",
            "[the|our] abandonment rate",
        ],
        answer: Sentence {
            lead: "{abandoned_percent} % of the carts were abandoned{filters}{during}: {abandoned_carts} of {carts}",
            each: "",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "abandonment_by_channel",
        description: "How many carts are abandoned on the web, in the app and in the store, compared.",
        sql: "SELECT channel, count(*) AS carts,
       count(*) FILTER (WHERE state = 'abandoned') AS abandoned_carts,
       round(100.0 * count(*) FILTER (WHERE state = 'abandoned') / count(*), 1) AS abandoned_percent
FROM carts
JOIN customers ON customers.id = carts.customer
WHERE day BETWEEN :from AND :to
  AND (:region IS NULL OR region = :region)
  AND (:segment IS NULL OR segment = :segment)
GROUP BY channel
ORDER BY abandoned_percent DESC",
        more_is_worse: true,
        examples: &[
            "How does cart abandonment differ by channel?",
            "Abandonment rate by channel",
            "Compare abandoned carts across channels.",
            "On which channel are most carts abandoned?",
            "Are more carts abandoned in the app than in the store?",
            "Do store customers leave more carts than app users?",
            "Which channel loses the most carts?",
            "Where do customers abandon their carts most, by channel?",
            "Break the abandonment rate down per channel.",
            "Cart abandonment for each channel",
            "Which channel has the highest share of abandoned baskets?",
            "Through what channel do we lose carts?",
            "Compare the abandonment of all channels.",
        ],
        sentences: &[
            "[cart|basket] abandonment [rate] (by|per|for each|across) (channel|channels)",
        ],
        answer: Sentence {
            lead: "Abandoned carts by channel{filters}{during}",
            each: "{channel} {abandoned_percent} % ({abandoned_carts} of {carts})",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "abandonment_by_segment",
        description: "How many carts each customer segment abandons, compared.",
        sql: "SELECT segment, count(*) AS carts,
       count(*) FILTER (WHERE state = 'abandoned') AS abandoned_carts,
       round(100.0 * count(*) FILTER (WHERE state = 'abandoned') / count(*), 1) AS abandoned_percent
FROM carts
JOIN customers ON customers.id = carts.customer
WHERE day BETWEEN :from AND :to
  AND (:region IS NULL OR region = :region)
  AND (:channel IS NULL OR channel = :channel)
GROUP BY segment
ORDER BY abandoned_percent DESC",
        more_is_worse: true,
        examples: &[
            "Which customer segment abandons the most carts?",
            "Abandonment rate by segment",
            "Compare cart abandonment between customer segments.",
            "How does abandonment differ between customer groups?",
            "Which kind of customer leaves carts most?",
            "Break abandoned carts down by customer segment.",
            "Cart abandonment per segment",
            "What type of shopper abandons most often?",
            "Which segment has the highest abandonment rate?",
            "Abandoned baskets for each customer group",
        ],
        sentences: &[
            "[cart|basket] abandonment [rate] (by|per|for each|across) [customer] (segment|segments|group)",
        ],
        answer: Sentence {
            lead: "Abandoned carts by segment{filters}{during}",
            each: "{segment} customers {abandoned_percent} % ({abandoned_carts} of {carts})",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "abandonment_by_month",
        description: "How the share of abandoned carts developed, month by month.",
        sql: "SELECT substr(day, 1, 7) AS month, count(*) AS carts,
       count(*) FILTER (WHERE state = 'abandoned') AS abandoned_carts,
       round(100.0 * count(*) FILTER (WHERE state = 'abandoned') / count(*), 1) AS abandoned_percent
FROM carts
JOIN customers ON customers.id = carts.customer
WHERE day BETWEEN :from AND :to
  AND (:region IS NULL OR region = :region)
  AND (:segment IS NULL OR segment = :segment)
  AND (:channel IS NULL OR channel = :channel)
GROUP BY month
ORDER BY month",
        period: "last 12 months",
        more_is_worse: true,
        examples: &[
            "How did cart abandonment develop month by month?",
            "Abandonment rate by month",
            "Show the trend of abandoned carts.",
            "Is cart abandonment rising or falling?",
            "Monthly abandonment rate this year",
            "How has the abandonment rate changed over time?",
            "In which month were the most carts abandoned?",
            "Are more carts abandoned than before?",
            "Abandoned carts per month",
            "Development of the cart abandonment rate",
        ],
        sentences: &[
            "[cart|basket] abandonment [rate] (by|per) month",
            "is [the|our] [cart|basket] abandonment [rate] getting (worse|better)",
        ],
        answer: Sentence {
            lead: "Abandoned carts by month{filters}{during}",
            each: "{month} {abandoned_percent} %",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "customers_by_segment",
        description: "How many customers there are in each segment.",
        sql: "SELECT segment, count(*) AS customers,
       round(100.0 * count(*) / sum(count(*)) OVER (), 1) AS percent
FROM customers
WHERE (:region IS NULL OR region = :region)
  AND (:segment IS NULL OR segment = :segment)
GROUP BY segment
ORDER BY customers DESC",
        examples: &[
            "How many customers do we have?",
            "How many customers are in each segment?",
            "How are our customers divided into segments?",
            "How many loyal customers do we have?",
            "How many lapsed customers are there?",
            "Number of customers by segment",
            "What does our customer base look like?",
            "Show the customer segments and their size.",
            "How many customers are inactive?",
            "How large is the group of regular customers in the west?",
            "Count the customers in the south.",
        ],
        sentences: &["how many [loyal|lapsed|regular|new] customers (do we have|are there)"],
        answer: Sentence {
            lead: "Customers by segment{filters}",
            each: "{segment} {customers} ({percent} %)",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "new_customers",
        description: "How many customers joined, month by month.",
        sql: "SELECT substr(joined, 1, 7) AS month, count(*) AS new_customers
FROM customers
WHERE joined BETWEEN :from AND :to
  AND (:region IS NULL OR region = :region)
GROUP BY month
ORDER BY month",
        period: "last 12 months",
        implies: Some("new"),
        examples: &[
            "How many new customers did we gain?",
            "How many customers joined last month?",
            "How many people signed up this year?",
            "New customers by month",
            "How many new customers came in July?",
            "Is the number of new customers growing?",
            "How many customers registered in the north?",
            "Customer acquisition per month",
            "How many shoppers became customers?",
            "How many new customers did we win last quarter?",
            "Number of sign ups",
        ],
        sentences: &[
            "how many [new] (customers|people) (joined|signed up|registered)",
            "how many new customers did we (get|gain|win|acquire)",
            "new customers (by|per) month",
        ],
        answer: Sentence {
            lead: "Customers who joined{filters}{during}",
            each: "{month} {new_customers}",
            none: "Nobody joined{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "repeat_customers",
        description: "How many of the customers who ordered did so more than once.",
        sql: "WITH ordering AS (
  SELECT orders.customer, count(*) AS orders
  FROM orders
  JOIN customers ON customers.id = orders.customer
  WHERE day BETWEEN :from AND :to
    AND (:region IS NULL OR customers.region = :region)
    AND (:segment IS NULL OR segment = :segment)
    AND (:channel IS NULL OR channel = :channel)
  GROUP BY orders.customer
)
SELECT count(*) AS customers,
       count(*) FILTER (WHERE orders > 1) AS repeat_customers,
       round(100.0 * count(*) FILTER (WHERE orders > 1) / count(*), 1) AS repeat_percent
FROM ordering
HAVING count(*) > 0",
        period: "last 12 months",
        examples: &[
            "How many customers buy again?",
            "What is the repeat purchase rate?",
            "What share of customers orders more than once?",
            "How many repeat customers do we have?",
            "How many customers came back for a second order?",
            "Repeat buyers in the last 12 months",
            "How loyal are our customers, do they order again?",
            "What percentage of buyers returned to buy something else?",
            "Customer retention rate",
            "How many people bought only once and how many several times?",
            "Returning customers this year",
            "How many customers placed several orders?",
        ],
        sentences: &["(what is|what's) (the|our) (repeat purchase|repeat|retention) rate"],
        answer: Sentence {
            lead: "{repeat_percent} % of the customers who ordered did so more than once{filters}{during}: {repeat_customers} of {customers}",
            each: "",
            none: "Nobody ordered{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "products_abandoned_together",
        description: "Pairs of products that are left behind in the same carts.",
        sql: "SELECT one.name AS product, other.name AS other_product, count(*) AS abandoned_carts
FROM cart_items AS first
JOIN cart_items AS second ON second.cart = first.cart AND second.product > first.product
JOIN carts ON carts.id = first.cart AND carts.state = 'abandoned'
JOIN customers ON customers.id = carts.customer
JOIN products AS one ON one.id = first.product
JOIN products AS other ON other.id = second.product
WHERE day BETWEEN :from AND :to
  AND (:category IS NULL OR one.category = :category OR other.category = :category)
  AND (:region IS NULL OR region = :region)
  AND (:segment IS NULL OR segment = :segment)
  AND (:channel IS NULL OR channel = :channel)
  AND (:products IS NULL
       OR one.name IN (SELECT value FROM json_each(:products))
       OR other.name IN (SELECT value FROM json_each(:products)))
GROUP BY one.id, other.id
ORDER BY abandoned_carts DESC, product, other_product
LIMIT :limit",
        period: "last 12 months",
        more_is_worse: true,
        examples: &[
            "Which products are abandoned together?",
            "What pairs of products are left in the same cart?",
            "Which combinations of products are abandoned most often?",
            "What else is in the cart when Trail Running Shoes are abandoned?",
            "Which items are left behind in the same basket?",
            "Show product pairs in abandoned carts.",
            "Products that are abandoned along with each other",
            "Which two products are often left together?",
            "Basket analysis of abandoned carts",
            "What is abandoned together with Merino Socks?",
        ],
        sentences: &["(which|what) (products|items) (are|get) (abandoned|left) together"],
        answer: Sentence {
            lead: "Left together in carts most often{filters}{during}",
            each: "{product} with {other_product} ({abandoned_carts} carts)",
            ..CertifiedQuery::PLAIN.answer
        },
        ..CertifiedQuery::PLAIN
    },
];
