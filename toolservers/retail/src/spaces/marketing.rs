//! Reach, cost and revenue of campaigns.

use crate::space::{CertifiedQuery, Sentence, Space};
use crate::vocabulary::CAMPAIGN_CHANNELS;

pub(crate) const SPACE: Space = Space {
    id: "marketing",
    about: "What campaigns reach, cost and bring, by campaign, channel and month.",
    query_tool: "query_space_marketing",
    poll_tool: "poll_response_marketing",
    channels: CAMPAIGN_CHANNELS,
    queries: QUERIES,
    out_of_scope: &[
        "write a newsletter for the autumn",
        "start a new campaign",
        "stop all campaigns",
        "double the budget of the best campaign",
        "what do our competitors advertise",
        "how many followers do we have",
        "who designed the last campaign",
        "what should our next slogan be",
        "send an email to all customers",
        "which influencer should we hire",
        "what do people think of our brand",
        "how do I log in to the advertising account",
    ],
};

const QUERIES: &[CertifiedQuery] = &[
    CertifiedQuery {
        id: "campaign_performance",
        description: "Which campaigns bring the most revenue for what they cost.",
        sql: "WITH spent AS (
  SELECT campaign, sum(spend_cents) AS cents
  FROM campaign_days WHERE day BETWEEN :from AND :to GROUP BY campaign
), brought AS (
  SELECT campaign, count(DISTINCT orders.id) AS orders, sum(quantity * unit_cents) AS cents
  FROM orders JOIN order_items ON order_id = orders.id
  WHERE day BETWEEN :from AND :to AND campaign IS NOT NULL
  GROUP BY campaign
)
SELECT campaigns.name AS campaign, channel, round(spent.cents / 100.0, 2) AS spend_eur,
       coalesce(orders, 0) AS orders, round(coalesce(brought.cents, 0) / 100.0, 2) AS revenue_eur,
       round(1.0 * coalesce(brought.cents, 0) / spent.cents, 1) AS revenue_per_euro
FROM spent
JOIN campaigns ON campaigns.id = spent.campaign
LEFT JOIN brought ON brought.campaign = spent.campaign
WHERE (:channel IS NULL OR channel = :channel)
  AND (:campaign IS NULL OR campaigns.name = :campaign)
ORDER BY revenue_per_euro DESC, campaign
LIMIT :limit",
        period: "last 12 months",
        examples: &[
            "Which campaign performs best?",
            "What is the return on each campaign?",
            "Which campaigns brought the most revenue?",
            "Best performing campaigns this year",
            "Rank the campaigns by return on ad spend.",
            "How successful were our campaigns?",
            "Which email campaigns paid off?",
            "What did our campaigns bring in?",
            "Which advertising was worth its money?",
            "ROI of our marketing campaigns",
            "Which campaign generated most orders?",
            "How well do the campaigns do?",
        ],
        sentences: &[
            "(which|what) (campaign|campaigns) (performs|perform|performed|works|worked|did) [the] best",
            "[show|list] [me] [the] best [performing] campaigns",
            "campaign performance",
        ],
        answer: Sentence {
            lead: "Campaigns by revenue for each euro spent{filters}{during}",
            each: "{campaign} {revenue_per_euro} EUR ({revenue_eur:money} for {spend_eur:money})",
            none: "No campaign ran{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "campaign_click_rates",
        description: "How many people saw each campaign, and how many of them clicked.",
        sql: "SELECT campaigns.name AS campaign, channel, sum(impressions) AS impressions,
       sum(clicks) AS clicks, round(100.0 * sum(clicks) / sum(impressions), 2) AS click_percent
FROM campaign_days
JOIN campaigns ON campaigns.id = campaign_days.campaign
WHERE day BETWEEN :from AND :to
  AND (:channel IS NULL OR channel = :channel)
  AND (:campaign IS NULL OR campaigns.name = :campaign)
GROUP BY campaigns.id
ORDER BY click_percent DESC, campaign
LIMIT :limit",
        period: "last 12 months",
        examples: &[
            "Which campaign has the highest click rate?",
            "What is the click-through rate of our campaigns?",
            "How many people clicked on our campaigns?",
            "Clicks and impressions by campaign",
            "CTR per campaign",
            "Which campaigns get the most clicks?",
            "How many impressions did each campaign have?",
            "Which ads are clicked most?",
            "Reach of our campaigns",
            "How often were our banners clicked in July?",
            "Click rates of social campaigns",
        ],
        sentences: &[
            "(which|what) (campaign|campaigns) (has|have|had) the (highest|best) (click rate|click rates|ctr|click through rate)",
            "[show|list] [me] [the] (click rate|click rates|ctr|click through rates) [by|per|of] [campaign|campaigns|all campaigns|our campaigns]",
        ],
        answer: Sentence {
            lead: "Click rates{filters}{during}",
            each: "{campaign} {click_percent} % ({clicks} of {impressions})",
            none: "No campaign ran{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "spend_by_channel",
        description: "What was spent on each advertising channel, and what a click cost there.",
        sql: "SELECT channel, round(sum(spend_cents) / 100.0, 2) AS spend_eur, sum(clicks) AS clicks,
       round(1.0 * sum(spend_cents) / sum(clicks) / 100.0, 2) AS cost_per_click_eur
FROM campaign_days
JOIN campaigns ON campaigns.id = campaign_days.campaign
WHERE day BETWEEN :from AND :to
  AND (:channel IS NULL OR channel = :channel)
  AND (:campaign IS NULL OR campaigns.name = :campaign)
GROUP BY channel
ORDER BY spend_eur DESC",
        examples: &[
            "How much did we spend on marketing?",
            "Marketing spend by channel",
            "What do we pay for advertising per channel?",
            "On which channel do we spend the most?",
            "What does a click cost on each channel?",
            "Advertising costs last quarter",
            "How much money went into search ads?",
            "Cost per click by channel",
            "Compare the spend of the channels.",
            "How are our marketing expenses split?",
            "Ad spend in September",
        ],
        sentences: &[
            "how much (did|do|have) we (spend|spent) on (marketing|advertising|ads|campaigns)",
            "[marketing|ad|advertising] spend [by|per] [channel]",
        ],
        answer: Sentence {
            lead: "Marketing spend{filters}{during}",
            each: "{channel} {spend_eur:money} ({cost_per_click_eur:money} a click)",
            none: "Nothing was spent{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "budget_use",
        description: "How much of its budget each campaign has used.",
        sql: "SELECT campaigns.name AS campaign, channel, round(budget_cents / 100.0, 2) AS budget_eur,
       round(sum(spend_cents) / 100.0, 2) AS spend_eur,
       round(100.0 * sum(spend_cents) / budget_cents, 1) AS used_percent
FROM campaigns
JOIN campaign_days ON campaign_days.campaign = campaigns.id
WHERE (:channel IS NULL OR channel = :channel)
  AND (:campaign IS NULL OR campaigns.name = :campaign)
GROUP BY campaigns.id
ORDER BY used_percent DESC, campaign
LIMIT :limit",
        examples: &[
            "Which campaigns are over budget?",
            "How much of the budget is used?",
            "Budget use by campaign",
            "Did any campaign cost more than planned?",
            "What budget is left for our campaigns?",
            "Which campaigns exceeded their budget?",
            "Spend against budget",
            "Are we within the marketing budget?",
            "How much budget did each campaign have?",
            "Remaining budget of the social campaigns",
        ],
        sentences: &[
            "(which|what) campaigns (are|were|went) over [their|the] budget",
            "[campaign] budget (use|usage) [by|per] [campaign]",
        ],
        answer: Sentence {
            lead: "Budgets used{filters}, the most first",
            each: "{campaign} {used_percent} % of {budget_eur:money}",
            none: "There is no such campaign{filters}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "running_campaigns",
        description: "Which campaigns run, or ran in a period, and until when.",
        sql: "SELECT name AS campaign, channel, starts, ends, round(budget_cents / 100.0, 2) AS budget_eur
FROM campaigns
WHERE starts <= :to AND ends >= :from
  AND (:channel IS NULL OR channel = :channel)
  AND (:campaign IS NULL OR campaigns.name = :campaign)
ORDER BY starts, campaign
LIMIT 50",
        period: "today",
        examples: &[
            "Which campaigns are running?",
            "What campaigns are active right now?",
            "List the current campaigns.",
            "Which campaigns ran in December?",
            "What are we advertising at the moment?",
            "Show all campaigns of this year.",
            "When does the current campaign end?",
            "What campaigns did we have last quarter?",
            "Active email campaigns",
            "Which campaigns are live?",
            "How many campaigns are under way?",
        ],
        sentences: &[
            "(which|what) campaigns (are|were) (running|active|live) [right now|now|at the moment|currently]",
            "[show|list] [me] [all] [the|our] [current|active|running] campaigns",
        ],
        answer: Sentence {
            lead: "Campaigns{filters}{during}",
            each: "{campaign} ({channel}, {starts} to {ends})",
            none: "No campaign runs{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "marketing_by_month",
        description: "Impressions, clicks and spend of all campaigns, month by month.",
        sql: "SELECT substr(day, 1, 7) AS month, sum(impressions) AS impressions, sum(clicks) AS clicks,
       round(sum(spend_cents) / 100.0, 2) AS spend_eur
FROM campaign_days
JOIN campaigns ON campaigns.id = campaign_days.campaign
WHERE day BETWEEN :from AND :to
  AND (:channel IS NULL OR channel = :channel)
  AND (:campaign IS NULL OR campaigns.name = :campaign)
GROUP BY month
ORDER BY month",
        period: "last 12 months",
        examples: &[
            "Marketing spend by month",
            "How did our advertising develop month by month?",
            "Monthly clicks and impressions",
            "In which month did we spend the most on ads?",
            "Trend of our marketing costs",
            "How did clicks change over time?",
            "Show impressions per month.",
            "Development of ad spend over the year",
            "How have campaign clicks developed?",
            "Monthly advertising figures for social media",
        ],
        sentences: &[
            "(marketing|ad|advertising) (spend|costs) (by|per) month",
            "(clicks|impressions) (by|per) month",
        ],
        answer: Sentence {
            lead: "Marketing by month{filters}{during}",
            each: "{month} {clicks} clicks for {spend_eur:money}",
            none: "No campaign ran{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "cost_per_order",
        description: "What it cost to win an order, by campaign.",
        sql: "WITH spent AS (
  SELECT campaign, sum(spend_cents) AS cents
  FROM campaign_days WHERE day BETWEEN :from AND :to GROUP BY campaign
), won AS (
  SELECT campaign, count(*) AS orders
  FROM orders WHERE day BETWEEN :from AND :to AND campaign IS NOT NULL GROUP BY campaign
)
SELECT campaigns.name AS campaign, channel, round(spent.cents / 100.0, 2) AS spend_eur, orders,
       round(spent.cents / 100.0 / orders, 2) AS cost_per_order_eur
FROM spent
JOIN won ON won.campaign = spent.campaign
JOIN campaigns ON campaigns.id = spent.campaign
WHERE (:channel IS NULL OR channel = :channel)
  AND (:campaign IS NULL OR campaigns.name = :campaign)
ORDER BY cost_per_order_eur, campaign
LIMIT :limit",
        period: "last 12 months",
        examples: &[
            "What does an order cost us in advertising?",
            "Cost per order by campaign",
            "What is the cost per acquisition?",
            "Which campaign wins orders most cheaply?",
            "How much do we pay to win an order?",
            "Acquisition cost of our campaigns",
            "CPA by campaign",
            "How expensive is an order through search ads?",
            "Marketing cost for each order",
            "Which campaign has the lowest cost per conversion?",
        ],
        sentences: &["[what is the|what is our] cost per (order|acquisition|conversion) [by|per] [campaign]"],
        answer: Sentence {
            lead: "Marketing cost of an order{filters}{during}",
            each: "{campaign} {cost_per_order_eur:money} ({orders} orders)",
            none: "No campaign brought an order{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "products_of_campaigns",
        description: "Which products were bought through campaigns.",
        sql: "SELECT products.name AS product, category, sum(quantity) AS units,
       round(sum(quantity * unit_cents) / 100.0, 2) AS revenue_eur
FROM orders
JOIN campaigns ON campaigns.id = orders.campaign
JOIN order_items ON order_id = orders.id
JOIN products ON products.id = order_items.product
WHERE day BETWEEN :from AND :to
  AND (:channel IS NULL OR campaigns.channel = :channel)
  AND (:campaign IS NULL OR campaigns.name = :campaign)
  AND (:category IS NULL OR category = :category)
  AND (:products IS NULL OR products.name IN (SELECT value FROM json_each(:products)))
GROUP BY products.id
ORDER BY units DESC, product
LIMIT :limit",
        examples: &[
            "Which products were bought through campaigns?",
            "What products sell best in our campaigns?",
            "Which items do people buy after clicking an ad?",
            "Products sold by email campaigns",
            "What did campaigns help to sell?",
            "Which products benefit from advertising?",
            "Top products from campaigns last month",
            "How many Trail Running Shoes did campaigns sell?",
            "Which products were promoted successfully?",
            "What is bought by people who come from a newsletter?",
        ],
        sentences: &[
            "(which|what) (products|items) (sell|sold|are sold|were sold|were bought) [best] (through|in|by|via) [our|the] campaigns",
        ],
        answer: Sentence {
            lead: "Bought through campaigns{filters}{during}",
            each: "{product} {units} units for {revenue_eur:money}",
            none: "Nothing was bought through campaigns{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
    CertifiedQuery {
        id: "campaign_uplift",
        description: "Revenue on an average day while each campaign ran, against the 28 days before it.",
        sql: "WITH daily AS (
  SELECT day, sum(quantity * unit_cents) AS cents
  FROM orders JOIN order_items ON order_id = orders.id
  GROUP BY day
)
SELECT campaigns.name AS campaign, campaigns.channel,
       round(avg(daily.cents) FILTER (WHERE day < starts) / 100.0, 2) AS day_before_eur,
       round(avg(daily.cents) FILTER (WHERE day >= starts) / 100.0, 2) AS day_during_eur,
       round(100.0 * (avg(daily.cents) FILTER (WHERE day >= starts)
         - avg(daily.cents) FILTER (WHERE day < starts))
         / avg(daily.cents) FILTER (WHERE day < starts), 1) AS uplift_percent
FROM campaigns
JOIN daily ON day BETWEEN date(starts, '-28 days') AND ends
WHERE starts <= :to AND ends >= :from
  AND (:channel IS NULL OR campaigns.channel = :channel)
  AND (:campaign IS NULL OR campaigns.name = :campaign)
GROUP BY campaigns.id
HAVING count(*) FILTER (WHERE day < starts) > 0
ORDER BY uplift_percent DESC, campaign
LIMIT :limit",
        period: "last 12 months",
        examples: &[
            "How much did campaigns lift sales?",
            "What was the uplift of each campaign?",
            "Revenue before and during campaigns",
            "Did the campaigns increase our daily revenue?",
            "Uplift by campaign",
            "How did sales change while a campaign was running?",
            "Which campaign raised daily sales the most?",
            "Effect of campaigns on revenue compared with before",
            "Incremental effect of our marketing",
            "Compare revenue during campaigns with the weeks before.",
        ],
        sentences: &[
            "[what is the|what was the] [campaign] uplift (by|per|of|of each|for each) (campaign|campaigns|our campaigns)",
            "how much did [the|our] campaigns lift (sales|revenue)",
        ],
        answer: Sentence {
            lead: "Revenue of an average day during a campaign against the 28 days before{filters}{during}",
            each: "{campaign} {uplift_percent} % ({day_before_eur:money} to {day_during_eur:money})",
            none: "No campaign can be compared{filters}{during}.",
        },
        ..CertifiedQuery::PLAIN
    },
];
