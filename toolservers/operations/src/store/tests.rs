//! Rules of the folder: which change helps which service, refusals and idempotency.

use std::thread;

use jiff::{Timestamp, ToSpan};
use tempfile::TempDir;

use super::*;
use crate::service::State;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self) -> Store {
        self.open_at(|| "2026-10-19T12:00:00Z".parse().unwrap())
    }

    fn open_at(&self, now: fn() -> Timestamp) -> Store {
        let sources = Sources {
            now,
            ..Sources::real()
        };
        Store::open(&self.0.path().join("operations"), sources).unwrap()
    }
}

fn restart(service: &str) -> Action {
    Action::Restart {
        service: service.to_owned(),
        reason: "it does not answer".to_owned(),
    }
}

fn roll_back(service: &str, to_version: &str) -> Action {
    Action::RollBack {
        service: service.to_owned(),
        to_version: to_version.to_owned(),
        reason: "the release is bad".to_owned(),
    }
}

fn done(store: &mut Store, action: &Action) {
    let answer = store.act(action, None).unwrap();
    assert!(!answer.is_error, "{answer:?}");
}

fn state(store: &Store, service: &str) -> State {
    store.status(service).unwrap().state
}

#[test]
fn a_new_folder_holds_four_services_their_logs_and_a_place_for_reports() {
    let folder = Folder::new();
    let store = folder.open();
    assert_eq!(
        store.services().unwrap(),
        ["checkout", "inventory", "payments", "search"]
    );
    let result = ["checkout", "inventory", "payments", "search"].map(|service| {
        let status = store.status(service).unwrap();
        assert!(
            store
                .folder()
                .join(LOGS)
                .join(format!("{service}.log"))
                .is_file()
        );
        (status.state, status.version, status.minutes)
    });
    assert_eq!(
        result,
        [
            (State::Degraded, "2.4.1".to_owned(), 12),
            (State::Degraded, "1.19.2".to_owned(), 45),
            (State::Healthy, "3.8.0".to_owned(), 5 * 24 * 60),
            (State::Down, "5.1.0".to_owned(), 20),
        ]
    );
    let checkout = store.status("checkout").unwrap();
    assert_eq!((checkout.error_rate, checkout.p95_ms), (0.18, 2400));
    let reports = store.folder().join(REPORTS);
    assert_eq!(fs::read_dir(reports).unwrap().count(), 0);
}

#[test]
fn a_bad_release_is_fixed_only_by_a_roll_back() {
    let folder = Folder::new();
    let mut store = folder.open();
    done(&mut store, &restart("checkout"));
    assert_eq!(store.status("checkout").unwrap().minutes, 12);
    done(&mut store, &roll_back("checkout", "2.4.0"));
    let status = store.status("checkout").unwrap();
    assert_eq!((status.state, status.minutes), (State::Healthy, 0));
    assert!(status.error_rate < 0.01 && status.p95_ms < 1000);
    done(&mut store, &roll_back("checkout", "2.4.1"));
    assert_eq!(state(&store, "checkout"), State::Degraded);
}

#[test]
fn a_stuck_process_is_fixed_by_a_restart() {
    let folder = Folder::new();
    let mut store = folder.open();
    done(&mut store, &restart("search"));
    assert_eq!(state(&store, "search"), State::Healthy);
    let again = store.act(&restart("search"), None).unwrap();
    assert_eq!(again.content["restarts"], 2);
}

#[test]
fn a_failing_dependency_is_not_fixed_by_any_change() {
    let folder = Folder::new();
    let mut store = folder.open();
    done(&mut store, &restart("inventory"));
    done(&mut store, &roll_back("inventory", "1.19.1"));
    let status = store.status("inventory").unwrap();
    assert_eq!((status.state, status.minutes), (State::Degraded, 45));
}

#[test]
fn deployments_are_listed_newest_first_within_the_window() {
    let folder = Folder::new();
    let mut store = folder.open();
    done(&mut store, &roll_back("checkout", "2.4.0"));
    let versions = |minutes| -> Vec<(String, String, i64)> {
        let deployments = store.deployments("checkout", minutes).unwrap();
        deployments
            .into_iter()
            .map(|one| (one.version, one.previous, one.minutes_ago))
            .collect()
    };
    let one = |version: &str, previous: &str, ago| (version.to_owned(), previous.to_owned(), ago);
    let recent = [one("2.4.0", "2.4.1", 0), one("2.4.1", "2.4.0", 14)];
    assert_eq!(versions(13), recent[..1]);
    assert_eq!(versions(14), recent);
    assert_eq!(versions(7 * 24 * 60)[2], one("2.4.0", "2.3.7", 6 * 24 * 60));
    for wrong in [0, service::MAX_WINDOW_MINUTES + 1] {
        let error = store.deployments("checkout", wrong).unwrap_err();
        assert_eq!(error.code(), "operations.window");
    }
}

#[test]
fn refused_calls_change_nothing() {
    let folder = Folder::new();
    let mut store = folder.open();
    for (action, code) in [
        (restart("billing"), "operations.service_not_found"),
        (roll_back("checkout", "2.4.1"), "operations.version_current"),
        (roll_back("checkout", "9.9.9"), "operations.version_unknown"),
        (roll_back("checkout", "5.0.4"), "operations.version_unknown"),
    ] {
        let refused = store.act(&action, None).unwrap();
        assert!(refused.is_error, "{refused:?}");
        assert_eq!(refused.content["code"], code);
    }
    assert!(store.changes(None).unwrap().is_empty());
    assert_eq!(store.deployments("checkout", 60).unwrap().len(), 1);
    let error = store.changes(Some("billing")).unwrap_err();
    assert_eq!(error.code(), "operations.service_not_found");
}

#[test]
fn a_change_is_made_once_per_key_and_found_by_it() {
    let folder = Folder::new();
    let mut store = folder.open();
    let first = store.act(&restart("search"), Some("k")).unwrap();
    drop(store);
    let mut store = folder.open();
    assert_eq!(store.act(&restart("search"), Some("k")).unwrap(), first);
    done(&mut store, &restart("checkout"));
    let found = store.find_change("k").unwrap().unwrap();
    assert_eq!(json!(found), first.content["change"]);
    assert_eq!(store.find_change("l").unwrap(), None);
    assert_eq!(store.changes(Some("search")).unwrap(), [found]);
    let services: Vec<String> = store
        .changes(None)
        .unwrap()
        .into_iter()
        .map(|change| change.service)
        .collect();
    assert_eq!(services, ["search", "checkout"]);
    let error = store.act(&restart("checkout"), Some("k")).unwrap_err();
    assert_eq!(error.code(), "operations.idempotency_key_reused");
    let error = store.find_change("").unwrap_err();
    assert_eq!(error.code(), "operations.idempotency_key");
}

#[test]
fn opening_again_keeps_the_data() {
    let folder = Folder::new();
    let mut store = folder.open();
    done(&mut store, &restart("search"));
    let log = store.folder().join(LOGS).join("search.log");
    fs::write(&log, "somebody else's\n").unwrap();
    let later = folder.open_at(|| {
        let start: Timestamp = "2026-10-19T12:00:00Z".parse().unwrap();
        start + 30.minutes()
    });
    let status = later.status("search").unwrap();
    assert_eq!((status.state, status.minutes), (State::Healthy, 30));
    assert_eq!(later.status("checkout").unwrap().minutes, 42);
    assert_eq!(fs::read_to_string(&log).unwrap(), "somebody else's\n");
}

#[test]
fn of_concurrent_openers_of_a_new_folder_one_fills_it() {
    let folder = Folder::new();
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut store = folder.open();
                assert_eq!(store.services().unwrap().len(), 4);
                store.act(&restart("search"), Some("k")).unwrap();
            });
        }
    });
    assert_eq!(folder.open().changes(None).unwrap().len(), 1);
}
