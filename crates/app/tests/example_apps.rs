//! Every app of this repository loads without diagnostics.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::Path;

use convoke_app::App;

#[test]
fn every_example_app_is_clean() {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
    let mut count = 0;
    for entry in fs::read_dir(apps)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_dir())
    {
        // A missing environment variable is not the app's error.
        let environment = |name: &str| Some(format!("value-of-{name}"));
        let loaded = App::load(&entry.path(), &environment)
            .map_err(|found| found.pretty())
            .unwrap();
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings.pretty());
        count += 1;
    }
    assert!(count > 0);
}
