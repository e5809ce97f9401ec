//! Written after the examples, none of which was added because of them: a measure for unknown questions.

/// Space, query and question.
pub(super) const QUESTIONS: &[(&str, &str, &str)] = &[
    (
        "customer_behavior",
        "most_abandoned_products",
        "Which products do customers tend to abandon?",
    ),
    (
        "customer_behavior",
        "most_abandoned_products",
        "Top three abandoned beauty products last week",
    ),
    (
        "customer_behavior",
        "cart_abandonment_rate",
        "What was the cart abandonment rate for new customers in September?",
    ),
    (
        "customer_behavior",
        "abandonment_by_channel",
        "Does abandonment vary between channels?",
    ),
    (
        "customer_behavior",
        "abandonment_by_segment",
        "Who abandons more carts: which segment?",
    ),
    (
        "customer_behavior",
        "abandonment_by_month",
        "Has cart abandonment gone up since spring, month by month?",
    ),
    (
        "customer_behavior",
        "customers_by_segment",
        "What is the size of each customer segment?",
    ),
    (
        "customer_behavior",
        "new_customers",
        "How many new customers did we acquire in the west this year?",
    ),
    (
        "customer_behavior",
        "repeat_customers",
        "How many of our customers are repeat buyers?",
    ),
    (
        "customer_behavior",
        "products_abandoned_together",
        "What gets abandoned together with Robot Vacuum?",
    ),
    (
        "inventory",
        "stock_of_products",
        "Do we have enough Puffer Jackets in stock?",
    ),
    (
        "inventory",
        "stock_of_products",
        "current inventory of Merino Socks in Hamburg",
    ),
    (
        "inventory",
        "low_stock_products",
        "Is anything running low in Cologne?",
    ),
    (
        "inventory",
        "out_of_stock_products",
        "Which outdoor products have run out?",
    ),
    (
        "inventory",
        "stock_by_warehouse",
        "Show inventory levels per warehouse",
    ),
    (
        "inventory",
        "stock_value",
        "What's the total value of our inventory?",
    ),
    (
        "inventory",
        "longest_lead_times",
        "Which products take longest to restock?",
    ),
    (
        "inventory",
        "reorder_suggestions",
        "What should purchasing order this week?",
    ),
    (
        "inventory",
        "days_of_stock_left",
        "How soon will the Smart Watch be out of stock?",
    ),
    (
        "inventory",
        "safety_stock",
        "What safety stock do you recommend for footwear?",
    ),
    (
        "pricing",
        "price_of_products",
        "Price for the Stand Mixer please",
    ),
    (
        "pricing",
        "price_history_of_products",
        "What were the previous prices of Wireless Earbuds?",
    ),
    (
        "pricing",
        "price_increases",
        "Where have prices gone up in the last 3 months?",
    ),
    ("pricing", "price_decreases", "Did any prices fall in May?"),
    (
        "pricing",
        "current_discounts",
        "Which home products are discounted the most?",
    ),
    (
        "pricing",
        "average_price_by_category",
        "Average price of footwear?",
    ),
    (
        "pricing",
        "price_trend",
        "Have prices in electronics gone up over time?",
    ),
    (
        "pricing",
        "lowest_margins",
        "On what do we have the thinnest margin?",
    ),
    (
        "pricing",
        "demand_after_price_changes",
        "Did demand drop when prices rose in July?",
    ),
    (
        "marketing",
        "campaign_performance",
        "Which of our campaigns was the most profitable?",
    ),
    (
        "marketing",
        "campaign_click_rates",
        "What click rate did the social campaigns have?",
    ),
    (
        "marketing",
        "spend_by_channel",
        "How much do we spend per advertising channel?",
    ),
    (
        "marketing",
        "budget_use",
        "Has any campaign overspent its budget?",
    ),
    (
        "marketing",
        "running_campaigns",
        "Which campaigns do we have at the moment?",
    ),
    (
        "marketing",
        "marketing_by_month",
        "What did we spend on ads each month?",
    ),
    (
        "marketing",
        "cost_per_order",
        "How much does it cost to acquire an order per campaign?",
    ),
    (
        "marketing",
        "products_of_campaigns",
        "Which products did our campaigns sell in August?",
    ),
    (
        "marketing",
        "campaign_uplift",
        "What uplift did our campaigns have on sales?",
    ),
    (
        "sales",
        "total_revenue",
        "How much revenue did we make in December?",
    ),
    (
        "sales",
        "best_selling_products",
        "What are our top selling products in the south?",
    ),
    (
        "sales",
        "worst_selling_products",
        "Which products are selling poorly?",
    ),
    (
        "sales",
        "revenue_by_category",
        "Sales split by category for Q2",
    ),
    (
        "sales",
        "revenue_by_region",
        "How does revenue differ between regions?",
    ),
    (
        "sales",
        "revenue_by_channel",
        "How many orders came through each channel?",
    ),
    (
        "sales",
        "revenue_by_month",
        "Give me the monthly revenue of this year",
    ),
    (
        "sales",
        "sales_of_products",
        "How many Noise Cancelling Headphones have we sold since July?",
    ),
    (
        "sales",
        "sales_of_products",
        "Units sold for these products: Trail Running Shoes, Robot Vacuum",
    ),
    (
        "sales",
        "bought_together",
        "What is often purchased together?",
    ),
];
