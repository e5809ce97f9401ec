//! The closed parameters of questions, and the words for their values.

/// A parameter with a fixed set of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closed {
    Category,
    Region,
    Segment,
    Channel,
    Warehouse,
    /// Its values are names, which are taken before everything else.
    Campaign,
}

impl Closed {
    pub(crate) const ALL: [Self; 6] = [
        Self::Category,
        Self::Region,
        Self::Segment,
        Self::Channel,
        Self::Warehouse,
        Self::Campaign,
    ];

    /// Its name in SQL, results and refusals.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Category => "category",
            Self::Region => "region",
            Self::Segment => "segment",
            Self::Channel => "channel",
            Self::Warehouse => "warehouse",
            Self::Campaign => "campaign",
        }
    }
}

/// A value and the words for it, besides its own name.
pub(crate) type Value = (&'static str, &'static [&'static str]);

pub(crate) const CATEGORIES: &[Value] = &[
    ("footwear", &["shoes", "shoe", "boots", "sneakers"]),
    ("clothing", &["clothes", "apparel", "garments", "fashion"]),
    (
        "outdoor",
        &["outdoors", "outdoor gear", "camping gear", "camping"],
    ),
    (
        "electronics",
        &["electronic", "gadgets", "consumer electronics"],
    ),
    (
        "home",
        &["homeware", "household", "home goods", "home and living"],
    ),
    ("beauty", &["cosmetics", "skincare", "beauty care"]),
];

pub(crate) const REGIONS: &[Value] = &[
    ("north", &["northern", "north region", "northern region"]),
    ("south", &["southern", "south region", "southern region"]),
    ("east", &["eastern", "east region", "eastern region"]),
    ("west", &["western", "west region", "western region"]),
];

pub(crate) const SEGMENTS: &[Value] = &[
    ("new", &["first time", "newly joined"]),
    ("regular", &[]),
    ("loyal", &["most loyal"]),
    ("lapsed", &["inactive", "churned", "dormant"]),
];

/// Sales channels. A bare `store` usually means the whole shop.
pub(crate) const SHOP_CHANNELS: &[Value] = &[
    (
        "web",
        &["website", "web shop", "webshop", "online shop", "online"],
    ),
    ("app", &["mobile app", "mobile", "shopping app"]),
    (
        "store",
        &[
            "in store",
            "in stores",
            "in the stores",
            "in the store",
            "physical stores",
            "store channel",
        ],
    ),
];

/// Campaign channels.
pub(crate) const CAMPAIGN_CHANNELS: &[Value] = &[
    (
        "email",
        &["e mail", "emails", "mail", "newsletter", "newsletters"],
    ),
    ("social", &["social media", "social networks", "social ads"]),
    ("search", &["paid search", "search ads", "search engine"]),
    (
        "display",
        &["display ads", "banner", "banners", "banner ads"],
    ),
];

pub(crate) const WAREHOUSES: &[Value] = &[
    (
        "Hamburg",
        &[
            "hamburg warehouse",
            "warehouse hamburg",
            "warehouse in hamburg",
        ],
    ),
    (
        "Munich",
        &[
            "munich warehouse",
            "warehouse munich",
            "warehouse in munich",
        ],
    ),
    (
        "Leipzig",
        &[
            "leipzig warehouse",
            "warehouse leipzig",
            "warehouse in leipzig",
        ],
    ),
    (
        "Cologne",
        &[
            "cologne warehouse",
            "warehouse cologne",
            "warehouse in cologne",
        ],
    ),
];

/// Nouns before which `new` and `regular` name a segment; elsewhere they are adjectives.
const PEOPLE: [&str; 12] = [
    "customer",
    "customers",
    "shopper",
    "shoppers",
    "buyer",
    "buyers",
    "client",
    "clients",
    "segment",
    "ones",
    "people",
    "visitors",
];

/// The value at the start of these words, and its number of words.
pub(crate) fn read(
    closed: Closed,
    values: &[Value],
    words: &[String],
    first: bool,
) -> Option<(usize, &'static str)> {
    let mut best = None;
    for (value, spoken) in values {
        let own = value.to_lowercase();
        let names = spoken
            .iter()
            .copied()
            .chain((closed != Closed::Channel || *value != "store").then_some(own.as_str()));
        for name in names {
            let length = name.split(' ').count();
            let fits = words.len() >= length
                && name.split(' ').zip(words).all(|(name, word)| name == word);
            if fits && best.is_none_or(|(longest, _)| length > longest) {
                best = Some((length, *value));
            }
        }
    }
    let (length, value) = best?;
    let next = words.get(length).map_or("", String::as_str);
    let is_value = match value {
        "new" | "regular" => PEOPLE.contains(&next),
        // "Display the campaigns", "search for products": at the start these are verbs.
        "display" | "search" => {
            !first || next.is_empty() || matches!(next, "campaign" | "campaigns")
        }
        _ => true,
    };
    let length = length + usize::from(next == closed.name());
    is_value.then_some((length, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::words;

    fn value(closed: Closed, values: &[Value], text: &str) -> Option<(usize, &'static str)> {
        read(closed, values, &words(text), true)
    }

    #[test]
    fn the_longest_words_win() {
        let camping = value(Closed::Category, CATEGORIES, "camping gear sales");
        assert_eq!(camping, Some((2, "outdoor")));
        let region = value(Closed::Region, REGIONS, "northern region");
        assert_eq!(region, Some((2, "north")));
        let channel = value(Closed::Channel, CAMPAIGN_CHANNELS, "email channel");
        assert_eq!(channel, Some((2, "email")));
    }

    #[test]
    fn adjectives_and_verbs_are_not_values() {
        assert_eq!(value(Closed::Segment, SEGMENTS, "new products"), None);
        assert_eq!(
            value(Closed::Segment, SEGMENTS, "new customers"),
            Some((1, "new"))
        );
        assert_eq!(
            value(Closed::Channel, CAMPAIGN_CHANNELS, "display the budget"),
            None
        );
        assert_eq!(
            value(Closed::Channel, CAMPAIGN_CHANNELS, "display campaigns"),
            Some((1, "display"))
        );
        assert_eq!(value(Closed::Channel, SHOP_CHANNELS, "store"), None);
    }
}
