//! The database's tables: the shop's data, which never changes, and the conversations.

use convoke_serving::ANSWERS_TABLE;

/// Entry n migrates version n to n + 1. Entries are only ever appended.
pub(crate) const MIGRATIONS: &[&str] = &[SHOP, CONVERSATIONS, ANSWERS_TABLE];

/// Days are ISO texts, which sort chronologically; money is in cents.
const SHOP: &str = "
    CREATE TABLE products (
        id             INTEGER PRIMARY KEY,
        name           TEXT NOT NULL UNIQUE,
        category       TEXT NOT NULL
            CHECK (category IN ('footwear', 'clothing', 'outdoor', 'electronics', 'home', 'beauty')),
        supplier_cents INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE customers (
        id      INTEGER PRIMARY KEY,
        segment TEXT NOT NULL CHECK (segment IN ('new', 'regular', 'loyal', 'lapsed')),
        region  TEXT NOT NULL CHECK (region IN ('north', 'south', 'east', 'west')),
        joined  TEXT NOT NULL
    ) STRICT;

    CREATE TABLE carts (
        id       INTEGER PRIMARY KEY,
        customer INTEGER NOT NULL REFERENCES customers (id),
        day      TEXT NOT NULL,
        channel  TEXT NOT NULL CHECK (channel IN ('web', 'app', 'store')),
        state    TEXT NOT NULL CHECK (state IN ('abandoned', 'ordered'))
    ) STRICT;
    CREATE INDEX carts_by_day ON carts (day);

    CREATE TABLE cart_items (
        cart     INTEGER NOT NULL REFERENCES carts (id),
        product  INTEGER NOT NULL REFERENCES products (id),
        quantity INTEGER NOT NULL,
        PRIMARY KEY (cart, product)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE campaigns (
        id           INTEGER PRIMARY KEY,
        name         TEXT NOT NULL UNIQUE,
        channel      TEXT NOT NULL CHECK (channel IN ('email', 'social', 'search', 'display')),
        starts       TEXT NOT NULL,
        ends         TEXT NOT NULL,
        budget_cents INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE campaign_days (
        campaign    INTEGER NOT NULL REFERENCES campaigns (id),
        day         TEXT NOT NULL,
        impressions INTEGER NOT NULL,
        clicks      INTEGER NOT NULL,
        spend_cents INTEGER NOT NULL,
        PRIMARY KEY (campaign, day)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE orders (
        id       INTEGER PRIMARY KEY,
        cart     INTEGER NOT NULL UNIQUE REFERENCES carts (id),
        customer INTEGER NOT NULL REFERENCES customers (id),
        day      TEXT NOT NULL,
        region   TEXT NOT NULL,
        channel  TEXT NOT NULL,
        -- The campaign that brought the customer, if one did.
        campaign INTEGER REFERENCES campaigns (id)
    ) STRICT;
    CREATE INDEX orders_by_day ON orders (day);

    CREATE TABLE order_items (
        order_id   INTEGER NOT NULL REFERENCES orders (id),
        product    INTEGER NOT NULL REFERENCES products (id),
        quantity   INTEGER NOT NULL,
        -- What one cost on the day, after the discount.
        unit_cents INTEGER NOT NULL,
        PRIMARY KEY (order_id, product)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE stock (
        product       INTEGER NOT NULL REFERENCES products (id),
        warehouse     TEXT NOT NULL
            CHECK (warehouse IN ('Hamburg', 'Munich', 'Leipzig', 'Cologne')),
        units         INTEGER NOT NULL CHECK (units >= 0),
        reorder_point INTEGER NOT NULL,
        lead_days     INTEGER NOT NULL,
        PRIMARY KEY (product, warehouse)
    ) STRICT, WITHOUT ROWID;

    -- A price holds until the next one of the same product.
    CREATE TABLE prices (
        product          INTEGER NOT NULL REFERENCES products (id),
        valid_from       TEXT NOT NULL,
        cents            INTEGER NOT NULL,
        discount_percent INTEGER NOT NULL CHECK (discount_percent BETWEEN 0 AND 90),
        PRIMARY KEY (product, valid_from)
    ) STRICT, WITHOUT ROWID;
";

const CONVERSATIONS: &str = "
    CREATE TABLE conversations (
        id         TEXT PRIMARY KEY,
        space      TEXT NOT NULL,
        created_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX conversations_by_age ON conversations (created_ms);

    CREATE TABLE messages (
        -- The order in which they were asked.
        position     INTEGER PRIMARY KEY,
        id           TEXT NOT NULL UNIQUE,
        conversation TEXT NOT NULL REFERENCES conversations (id),
        question     TEXT NOT NULL,
        query_id     TEXT NOT NULL,
        parameters   TEXT NOT NULL,
        status       TEXT NOT NULL CHECK (status IN ('running', 'completed', 'failed')),
        -- Columns, rows and the sentence, fill_if_new it is completed.
        result       TEXT
    ) STRICT;
    CREATE INDEX messages_by_conversation ON messages (conversation, position);
";
