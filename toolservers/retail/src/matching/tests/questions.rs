//! Space, query and question. None is an example; they are worded as other people would.

pub(super) const QUESTIONS: &[(&str, &str, &str)] = &[
    (
        "customer_behavior",
        "most_abandoned_products",
        "What are the top 5 products that customers abandon in their carts?",
    ),
    (
        "customer_behavior",
        "most_abandoned_products",
        "Which products were most frequently abandoned over the past three months?",
    ),
    (
        "customer_behavior",
        "most_abandoned_products",
        "Which ten items do people most often leave in the shopping cart?",
    ),
    (
        "customer_behavior",
        "most_abandoned_products",
        "Show me the most abandoned electronics in July",
    ),
    (
        "customer_behavior",
        "most_abandoned_products",
        "Could you list the products abandoned the most by loyal customers?",
    ),
    (
        "customer_behavior",
        "cart_abandonment_rate",
        "How high was the abandonment rate last week?",
    ),
    (
        "customer_behavior",
        "cart_abandonment_rate",
        "What percentage of carts is abandoned on the website?",
    ),
    (
        "customer_behavior",
        "cart_abandonment_rate",
        "How many shopping carts got abandoned in August?",
    ),
    (
        "customer_behavior",
        "abandonment_by_channel",
        "Which channel do we lose most carts on?",
    ),
    (
        "customer_behavior",
        "abandonment_by_channel",
        "Please compare the abandonment rate of the channels",
    ),
    (
        "customer_behavior",
        "abandonment_by_segment",
        "What customer segment has the worst abandonment?",
    ),
    (
        "customer_behavior",
        "abandonment_by_segment",
        "Give me abandonment per customer segment for this year",
    ),
    (
        "customer_behavior",
        "abandonment_by_month",
        "How has cart abandonment developed over the months?",
    ),
    (
        "customer_behavior",
        "abandonment_by_month",
        "Show me the monthly trend of cart abandonment",
    ),
    (
        "customer_behavior",
        "customers_by_segment",
        "How many customers are there in every segment?",
    ),
    (
        "customer_behavior",
        "customers_by_segment",
        "How many lapsed customers do we have in the east?",
    ),
    (
        "customer_behavior",
        "new_customers",
        "How many new customers signed up in the last quarter?",
    ),
    (
        "customer_behavior",
        "new_customers",
        "How many customers have joined since April?",
    ),
    (
        "customer_behavior",
        "repeat_customers",
        "What's our repeat purchase rate in the south?",
    ),
    (
        "customer_behavior",
        "repeat_customers",
        "What share of our customers placed more than one order?",
    ),
    (
        "customer_behavior",
        "products_abandoned_together",
        "Which products get left together in the same cart?",
    ),
    (
        "customer_behavior",
        "products_abandoned_together",
        "What product combinations are abandoned together most frequently?",
    ),
    (
        "inventory",
        "stock_of_products",
        "what is the stock of Trail Running Shoes, Down Sleeping Bag and Robot Vacuum",
    ),
    (
        "inventory",
        "stock_of_products",
        "do we have them in stock: Noise Cancelling Headphones, Puffer Jacket",
    ),
    (
        "inventory",
        "stock_of_products",
        "are these products in stock: Espresso Machine, Beard Oil, Coat Rack",
    ),
    (
        "inventory",
        "stock_of_products",
        "How many Waterproof Hiking Boots do we still have in Munich?",
    ),
    (
        "inventory",
        "stock_of_products",
        "Is the Video Doorbell currently available?",
    ),
    (
        "inventory",
        "stock_of_products",
        "Please check stock levels for Trail Running Shoes and Puffer Jacket",
    ),
    (
        "inventory",
        "low_stock_products",
        "Which electronics are running low?",
    ),
    (
        "inventory",
        "low_stock_products",
        "What products have low stock in the Cologne warehouse?",
    ),
    (
        "inventory",
        "low_stock_products",
        "Which items are under their reorder point?",
    ),
    (
        "inventory",
        "out_of_stock_products",
        "Which clothes are sold out?",
    ),
    (
        "inventory",
        "out_of_stock_products",
        "Show me all products that are out of stock",
    ),
    (
        "inventory",
        "stock_by_warehouse",
        "How many units does each warehouse hold?",
    ),
    (
        "inventory",
        "stock_by_warehouse",
        "Which warehouse has the most stock?",
    ),
    (
        "inventory",
        "stock_value",
        "How much is the inventory worth in Hamburg?",
    ),
    (
        "inventory",
        "stock_value",
        "What is the value of our stock per category?",
    ),
    (
        "inventory",
        "longest_lead_times",
        "Which items have the longest delivery time?",
    ),
    (
        "inventory",
        "longest_lead_times",
        "What's the lead time for the Fitness Tracker?",
    ),
    (
        "inventory",
        "reorder_suggestions",
        "Which products should we reorder now?",
    ),
    (
        "inventory",
        "reorder_suggestions",
        "What do we need to restock in Leipzig?",
    ),
    (
        "inventory",
        "days_of_stock_left",
        "Which products are going to run out first?",
    ),
    (
        "inventory",
        "days_of_stock_left",
        "How many days will our stock of Wireless Earbuds last?",
    ),
    (
        "inventory",
        "safety_stock",
        "How much safety stock should we keep for electronics?",
    ),
    (
        "inventory",
        "safety_stock",
        "Which products need the biggest safety stock?",
    ),
    (
        "pricing",
        "price_of_products",
        "What does the Robot Vacuum cost?",
    ),
    (
        "pricing",
        "price_of_products",
        "Can you tell me the prices of Trail Running Shoes and Puffer Jacket?",
    ),
    (
        "pricing",
        "price_of_products",
        "How much are Merino Socks and the Beanie Hat?",
    ),
    (
        "pricing",
        "price_history_of_products",
        "How did the price of the Noise Cancelling Headphones change this year?",
    ),
    (
        "pricing",
        "price_history_of_products",
        "Show me the price history for Wireless Earbuds",
    ),
    (
        "pricing",
        "price_increases",
        "Which products became more expensive in July?",
    ),
    (
        "pricing",
        "price_increases",
        "What were the biggest price increases last quarter?",
    ),
    (
        "pricing",
        "price_increases",
        "Which electronics prices have risen the most?",
    ),
    (
        "pricing",
        "price_decreases",
        "Which products became cheaper this year?",
    ),
    (
        "pricing",
        "price_decreases",
        "What were the biggest price cuts in May?",
    ),
    (
        "pricing",
        "current_discounts",
        "Which products are on sale at the moment?",
    ),
    (
        "pricing",
        "current_discounts",
        "What are the 10 biggest discounts in clothing?",
    ),
    (
        "pricing",
        "current_discounts",
        "Are there any discounts on shoes right now?",
    ),
    (
        "pricing",
        "average_price_by_category",
        "What's the average price in each category?",
    ),
    (
        "pricing",
        "average_price_by_category",
        "How much does a product in beauty cost on average?",
    ),
    (
        "pricing",
        "price_trend",
        "How have our prices developed since January?",
    ),
    (
        "pricing",
        "price_trend",
        "Show me the price development in electronics",
    ),
    (
        "pricing",
        "lowest_margins",
        "Which five products have the worst margins?",
    ),
    (
        "pricing",
        "lowest_margins",
        "What is our margin on the Smart Watch?",
    ),
    (
        "pricing",
        "demand_after_price_changes",
        "How did demand change after the price increases in July?",
    ),
    (
        "pricing",
        "demand_after_price_changes",
        "What effect did price changes have on demand?",
    ),
    (
        "marketing",
        "campaign_performance",
        "Which campaign performed best this year?",
    ),
    (
        "marketing",
        "campaign_performance",
        "What were the most successful campaigns last quarter?",
    ),
    (
        "marketing",
        "campaign_performance",
        "Which campaigns had the best return on ad spend?",
    ),
    (
        "marketing",
        "campaign_click_rates",
        "Which campaign had the best click-through rate?",
    ),
    (
        "marketing",
        "campaign_click_rates",
        "How many clicks did our email campaigns get?",
    ),
    (
        "marketing",
        "spend_by_channel",
        "How much did we spend on advertising last month?",
    ),
    (
        "marketing",
        "spend_by_channel",
        "What is our marketing spend per channel this quarter?",
    ),
    (
        "marketing",
        "spend_by_channel",
        "What did we spend on social media in September?",
    ),
    (
        "marketing",
        "budget_use",
        "Which campaigns went over their budget?",
    ),
    (
        "marketing",
        "budget_use",
        "How much of their budget have the campaigns used?",
    ),
    (
        "marketing",
        "running_campaigns",
        "What campaigns are currently running?",
    ),
    (
        "marketing",
        "running_campaigns",
        "Which campaigns were active in December?",
    ),
    (
        "marketing",
        "running_campaigns",
        "List all email campaigns that are live",
    ),
    (
        "marketing",
        "marketing_by_month",
        "How did our ad spend develop month by month?",
    ),
    (
        "marketing",
        "marketing_by_month",
        "Show me clicks per month for search",
    ),
    (
        "marketing",
        "cost_per_order",
        "What is the cost per order of each campaign?",
    ),
    (
        "marketing",
        "cost_per_order",
        "Which campaign has the lowest acquisition cost?",
    ),
    (
        "marketing",
        "products_of_campaigns",
        "Which products do campaigns sell best?",
    ),
    (
        "marketing",
        "products_of_campaigns",
        "What products were bought through our email campaigns last month?",
    ),
    (
        "marketing",
        "campaign_uplift",
        "How much uplift did each campaign bring?",
    ),
    (
        "marketing",
        "campaign_uplift",
        "Did our campaigns lift the daily revenue?",
    ),
    (
        "sales",
        "total_revenue",
        "What was the total revenue in the west last quarter?",
    ),
    (
        "sales",
        "total_revenue",
        "How many orders did we get last week?",
    ),
    (
        "sales",
        "total_revenue",
        "How much did we sell in the app in August?",
    ),
    (
        "sales",
        "total_revenue",
        "What's the average order value of new customers?",
    ),
    (
        "sales",
        "best_selling_products",
        "What were the top 10 best selling products last month?",
    ),
    (
        "sales",
        "best_selling_products",
        "Which shoes sold the most in the north?",
    ),
    (
        "sales",
        "best_selling_products",
        "Show me our bestsellers online",
    ),
    (
        "sales",
        "worst_selling_products",
        "Which products sold the least this year?",
    ),
    (
        "sales",
        "worst_selling_products",
        "What are the five worst selling products in beauty?",
    ),
    (
        "sales",
        "revenue_by_category",
        "How much revenue did every category make in July?",
    ),
    (
        "sales",
        "revenue_by_category",
        "Which category had the highest revenue?",
    ),
    (
        "sales",
        "revenue_by_region",
        "Which region had the highest sales last month?",
    ),
    (
        "sales",
        "revenue_by_region",
        "Compare the revenue of the regions",
    ),
    (
        "sales",
        "revenue_by_channel",
        "Which channel brings the most orders?",
    ),
    (
        "sales",
        "revenue_by_channel",
        "What is the revenue per sales channel?",
    ),
    (
        "sales",
        "revenue_by_month",
        "How did our revenue develop over the last 6 months?",
    ),
    (
        "sales",
        "revenue_by_month",
        "Show me monthly sales of footwear",
    ),
    (
        "sales",
        "sales_of_products",
        "How many units of Trail Running Shoes were sold last month?",
    ),
    (
        "sales",
        "sales_of_products",
        "How much revenue did Merino Socks and the Desk Lamp make?",
    ),
    (
        "sales",
        "sales_of_products",
        "What are the sales of Wireless Earbuds in the north?",
    ),
    (
        "sales",
        "bought_together",
        "Which products are frequently bought together?",
    ),
    (
        "sales",
        "bought_together",
        "What do people usually buy together with the Two Person Tent?",
    ),
];
