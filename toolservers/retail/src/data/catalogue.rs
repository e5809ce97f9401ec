//! The shop's products, and the patterns in the data.

/// A category: its range of prices in cents, and its products' names.
pub(crate) struct Category {
    pub(crate) name: &'static str,
    pub(crate) cheapest: i64,
    pub(crate) dearest: i64,
    pub(crate) products: &'static [&'static str],
}

/// All products, by id. Every name has at least two words, so that none occurs in a question by chance.
pub(crate) const CATEGORIES: &[Category] = &[
    Category {
        name: "footwear",
        cheapest: 1_490,
        dearest: 18_990,
        products: &[
            "Trail Running Shoes",
            "Waterproof Hiking Boots",
            "Merino Socks",
            "Leather Chelsea Boots",
            "Canvas Sneakers",
            "Road Running Shoes",
            "Wool House Slippers",
            "Suede Loafers",
            "Strappy Sandals",
            "Rubber Rain Boots",
            "Slip On Trainers",
            "Leather Brogues",
            "Winter Snow Boots",
            "Cycling Shoes",
            "Espadrille Flats",
            "Court Tennis Shoes",
            "Gel Insoles",
            "Barefoot Shoes",
            "Cork Clogs",
            "Ankle Boots",
            "Trekking Sandals",
            "Ballet Flats",
            "Work Safety Shoes",
            "High Top Sneakers",
            "Compression Socks",
            "Platform Sandals",
            "Climbing Shoes",
            "Indoor Football Boots",
            "Desert Boots",
            "Driving Moccasins",
            "Bamboo Ankle Socks",
            "Cross Training Shoes",
            "Fleece Lined Clogs",
            "Boat Shoes",
        ],
    },
    Category {
        name: "clothing",
        cheapest: 1_290,
        dearest: 22_990,
        products: &[
            "Linen Shirt",
            "Organic Cotton Tee",
            "Slim Fit Jeans",
            "Cashmere Scarf",
            "Puffer Jacket",
            "Wool Overcoat",
            "Pleated Midi Skirt",
            "Denim Jacket",
            "Cable Knit Sweater",
            "Yoga Leggings",
            "Rain Parka",
            "Corduroy Trousers",
            "Silk Blouse",
            "Flannel Pyjamas",
            "Fleece Hoodie",
            "Chino Shorts",
            "Merino Base Layer",
            "Polo Shirt",
            "Wrap Dress",
            "Leather Belt",
            "Beanie Hat",
            "Softshell Vest",
            "Striped Jumper",
            "Swim Trunks",
            "Trench Coat",
            "Thermal Gloves",
            "Boxer Briefs Pack",
            "Maxi Dress",
            "Quilted Gilet",
            "Jersey Blazer",
            "Bamboo Tank Top",
            "Cargo Trousers",
            "Straw Sun Hat",
            "Running Tights",
        ],
    },
    Category {
        name: "outdoor",
        cheapest: 990,
        dearest: 34_990,
        products: &[
            "Down Sleeping Bag",
            "Two Person Tent",
            "Trekking Poles",
            "Camping Stove",
            "Insulated Water Bottle",
            "Hydration Backpack",
            "Headlamp Pro",
            "Folding Camp Chair",
            "Inflatable Sleeping Mat",
            "Dry Bag Set",
            "Compass Watch",
            "Titanium Cook Set",
            "Climbing Harness",
            "Picnic Blanket",
            "Bike Repair Kit",
            "Camping Lantern",
            "Hammock With Straps",
            "Water Filter Straw",
            "Family Dome Tent",
            "Ski Goggles",
            "Cool Box",
            "Pocket Multitool",
            "Binoculars Compact",
            "Fishing Rod Set",
            "Kayak Paddle",
            "Snowshoes Set",
            "Bivouac Sack",
            "Trail First Aid Kit",
            "Bear Proof Canister",
            "Carabiner Pack",
            "Tarp Shelter",
            "Mosquito Head Net",
            "Bike Pannier Bags",
        ],
    },
    Category {
        name: "electronics",
        cheapest: 1_990,
        dearest: 79_990,
        products: &[
            "Noise Cancelling Headphones",
            "Wireless Earbuds",
            "Fitness Tracker",
            "Smart Watch",
            "Portable Speaker",
            "Power Bank",
            "Mechanical Keyboard",
            "Ergonomic Mouse",
            "Action Camera",
            "Tablet Stand",
            "Wireless Charger",
            "Smart Thermostat",
            "Robot Vacuum",
            "Video Doorbell",
            "Mesh Router",
            "Webcam Full HD",
            "Portable Projector",
            "E Reader",
            "Gaming Headset",
            "Smart Light Bulbs",
            "Dash Camera",
            "External SSD",
            "Bluetooth Turntable",
            "Digital Photo Frame",
            "Electric Toothbrush",
            "Drone Mini",
            "Solar Charger",
            "Sound Bar",
            "Graphics Tablet",
            "Travel Adapter",
            "Smart Scale",
            "Desktop Microphone",
            "Streaming Stick",
        ],
    },
    Category {
        name: "home",
        cheapest: 890,
        dearest: 29_990,
        products: &[
            "Cast Iron Pan",
            "Linen Bed Set",
            "Espresso Machine",
            "Memory Foam Pillow",
            "Ceramic Dinner Set",
            "Bamboo Cutting Board",
            "Scented Candle Trio",
            "Wool Throw Blanket",
            "Desk Lamp",
            "Storage Basket Set",
            "Bath Towel Set",
            "Pour Over Kit",
            "Wall Clock Oak",
            "Kitchen Knife Set",
            "Air Purifier",
            "Cotton Rug",
            "Herb Garden Kit",
            "Glass Food Containers",
            "Stand Mixer",
            "Weighted Blanket",
            "Floor Cushion",
            "Electric Kettle",
            "Shower Caddy",
            "Picture Frame Set",
            "Salad Spinner",
            "Blackout Curtains",
            "Coat Rack",
            "Spice Jar Set",
            "Laundry Hamper",
            "Wine Glass Set",
            "Terracotta Planter",
            "Doormat Coir",
            "Paper Table Lantern",
        ],
    },
    Category {
        name: "beauty",
        cheapest: 590,
        dearest: 12_990,
        products: &[
            "Vitamin C Serum",
            "Hydrating Face Cream",
            "Mineral Sunscreen",
            "Argan Hair Oil",
            "Charcoal Face Mask",
            "Rose Lip Balm",
            "Shaving Kit",
            "Eau De Parfum",
            "Hair Dryer Ionic",
            "Bath Salt Set",
            "Clay Cleanser",
            "Retinol Night Cream",
            "Hand Cream Trio",
            "Beard Oil",
            "Makeup Brush Set",
            "Volume Mascara",
            "Eye Cream",
            "Micellar Water",
            "Shampoo Bar",
            "Body Scrub",
            "Nail Care Kit",
            "Face Roller Jade",
            "Setting Powder",
            "Dry Shampoo",
            "Bronzing Drops",
            "Cuticle Oil",
            "Sheet Mask Pack",
            "Travel Bottle Set",
            "Natural Deodorant",
            "Lavender Pillow Mist",
            "Tinted Moisturiser",
            "Hair Straightener",
            "Foot Repair Balm",
        ],
    },
];

/// Products often abandoned in carts: mostly expensive, and hardly in stock.
pub(crate) const ABANDONED: &[&str] = &[
    "Trail Running Shoes",
    "Noise Cancelling Headphones",
    "Down Sleeping Bag",
    "Espresso Machine",
    "Puffer Jacket",
    "Waterproof Hiking Boots",
    "Robot Vacuum",
    "Merino Socks",
];

/// Products that are out of stock everywhere.
pub(crate) const SOLD_OUT: &[&str] = &[
    "Espresso Machine",
    "Climbing Harness",
    "Wrap Dress",
    "Digital Photo Frame",
    "Hair Straightener",
];

/// Pairs of products bought together, and in how many percent of carts.
pub(crate) const PAIRS: &[(&str, &str, i64)] = &[
    ("Trail Running Shoes", "Merino Socks", 34),
    ("Two Person Tent", "Inflatable Sleeping Mat", 40),
    ("Espresso Machine", "Pour Over Kit", 22),
    ("Camping Stove", "Titanium Cook Set", 38),
    ("Smart Watch", "Wireless Charger", 28),
    ("Linen Bed Set", "Memory Foam Pillow", 36),
    ("Vitamin C Serum", "Mineral Sunscreen", 42),
    ("Yoga Leggings", "Insulated Water Bottle", 24),
    ("Waterproof Hiking Boots", "Trekking Poles", 30),
];

/// The category with a price rise, the rise in percent, and its day.
pub(crate) const PRICE_RISE: (&str, i64, &str) = ("electronics", 12, "2026-07-01");

/// The names of all products, by id.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CATEGORIES
        .iter()
        .flat_map(|category| category.products.iter().copied())
}

/// The id of a product. All names in the code are in the catalogue, which a test checks.
pub(crate) fn id(name: &str) -> i64 {
    let place = names().position(|known| known == name);
    place
        .and_then(|place| i64::try_from(place + 1).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn product_names_are_unique_and_have_several_words() {
        let all: BTreeSet<String> = names().map(str::to_lowercase).collect();
        assert_eq!(all.len(), names().count());
        assert_eq!(all.len(), 200);
        assert!(all.iter().all(|name| name.contains(' ')), "{all:?}");
    }

    #[test]
    fn patterns_use_products_of_the_catalogue() {
        let paired = PAIRS.iter().flat_map(|(one, other, _)| [one, other]);
        for name in ABANDONED.iter().chain(SOLD_OUT).chain(paired) {
            assert!(id(name) > 0, "{name}");
        }
        assert_eq!(id("Trail Running Shoes"), 1);
    }
}
