//! The campaigns of the year.

use jiff::civil::Date;
use rusqlite::{Connection, params};

use super::random::Random;
use crate::calendar::{days, iso};

/// A campaign's plan.
pub(crate) struct Campaign {
    pub(crate) name: &'static str,
    pub(crate) channel: &'static str,
    pub(crate) starts: &'static str,
    pub(crate) ends: &'static str,
    /// Percentage of online orders that it brings while it runs.
    pub(crate) pull: i64,
    /// Impressions per ordinary day.
    reach: i64,
    /// Clicks per thousand impressions.
    clicks: i64,
    /// Cost of a click, in cents.
    click_cents: i64,
    /// Budget in percent of the final cost.
    budget: i64,
}

/// By id. `Autumn Trail Launch` earns far more than it costs, `Summer Screens` far less, and `Winter
/// Warmers` exceeds its budget.
pub(crate) const CAMPAIGNS: &[Campaign] = &[
    campaign(
        "Golden October",
        "social",
        ["2025-10-05", "2025-11-02"],
        8,
        [9_000, 14, 42],
        110,
    ),
    campaign(
        "Black Week",
        "search",
        ["2025-11-17", "2025-12-01"],
        16,
        [21_000, 31, 58],
        104,
    ),
    campaign(
        "Gift Guide",
        "email",
        ["2025-12-01", "2025-12-22"],
        12,
        [12_000, 38, 12],
        115,
    ),
    campaign(
        "Winter Warmers",
        "display",
        ["2025-12-10", "2026-01-18"],
        5,
        [30_000, 4, 65],
        81,
    ),
    campaign(
        "New Year Reset",
        "social",
        ["2026-01-02", "2026-01-31"],
        9,
        [11_000, 17, 38],
        120,
    ),
    campaign(
        "Valentine Picks",
        "email",
        ["2026-02-01", "2026-02-14"],
        8,
        [8_000, 33, 11],
        108,
    ),
    campaign(
        "Spring Refresh",
        "search",
        ["2026-03-01", "2026-04-12"],
        10,
        [13_000, 24, 49],
        106,
    ),
    campaign(
        "Running Season",
        "social",
        ["2026-04-01", "2026-05-10"],
        10,
        [14_000, 19, 35],
        112,
    ),
    campaign(
        "Mother's Day",
        "email",
        ["2026-04-27", "2026-05-10"],
        9,
        [9_500, 36, 12],
        118,
    ),
    campaign(
        "Camping Weeks",
        "display",
        ["2026-05-15", "2026-06-30"],
        7,
        [26_000, 6, 47],
        109,
    ),
    campaign(
        "Summer Sale",
        "search",
        ["2026-06-15", "2026-07-15"],
        13,
        [18_000, 28, 52],
        102,
    ),
    campaign(
        "Summer Screens",
        "display",
        ["2026-07-01", "2026-08-15"],
        1,
        [38_000, 3, 88],
        107,
    ),
    campaign(
        "Back To School",
        "social",
        ["2026-08-10", "2026-09-13"],
        9,
        [12_500, 16, 40],
        111,
    ),
    campaign(
        "Loyalty Letters",
        "email",
        ["2026-07-20", "2026-09-30"],
        6,
        [5_000, 29, 10],
        125,
    ),
    campaign(
        "Autumn Trail Launch",
        "email",
        ["2026-08-25", "2026-09-30"],
        27,
        [10_000, 46, 9],
        116,
    ),
    campaign(
        "Autumn Search",
        "search",
        ["2026-09-01", "2026-09-30"],
        8,
        [12_000, 22, 55],
        113,
    ),
];

/// Combines reach, clicks and their price.
/// The names of all campaigns.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CAMPAIGNS.iter().map(|campaign| campaign.name)
}

const fn campaign(
    name: &'static str,
    channel: &'static str,
    [starts, ends]: [&'static str; 2],
    pull: i64,
    [reach, clicks, click_cents]: [i64; 3],
    budget: i64,
) -> Campaign {
    Campaign {
        name,
        channel,
        starts,
        ends,
        pull,
        reach,
        clicks,
        click_cents,
        budget,
    }
}

/// Writes the campaigns and their daily figures, and returns the number of rows.
pub(crate) fn write(connection: &Connection, random: &mut Random) -> Result<(), rusqlite::Error> {
    let mut whole = connection.prepare(
        "INSERT INTO campaigns (id, name, channel, starts, ends, budget_cents)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut daily = connection.prepare(
        "INSERT INTO campaign_days (campaign, day, impressions, clicks, spend_cents)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (id, campaign) in (1_i64..).zip(CAMPAIGNS) {
        let measured: Vec<_> = days(iso(campaign.starts), iso(campaign.ends))
            .map(|day| (day, campaign.measure(random)))
            .collect();
        let spent: i64 = measured.iter().map(|(_, [.., spend])| spend).sum();
        // Budgets are round sums.
        let budget_cents = spent * campaign.budget / 100 / 10_000 * 10_000;
        whole.execute(params![
            id,
            campaign.name,
            campaign.channel,
            campaign.starts,
            campaign.ends,
            budget_cents
        ])?;
        for (day, [impressions, clicks, spend]) in measured {
            daily.execute(params![id, day.to_string(), impressions, clicks, spend])?;
        }
    }
    Ok(())
}

impl Campaign {
    /// Impressions, clicks and spend of one day.
    fn measure(&self, random: &mut Random) -> [i64; 3] {
        let impressions = self.reach * random.within(75, 125) / 100;
        let clicks = impressions * self.clicks * random.within(85, 115) / 100_000;
        [impressions, clicks, clicks * self.click_cents]
    }

    pub(crate) fn runs_on(&self, day: Date) -> bool {
        (iso(self.starts)..=iso(self.ends)).contains(&day)
    }
}
