//! Rules of the house: effects, refusals and idempotency.

use convoke_serving::Refuse;
use tempfile::TempDir;

use super::*;
use crate::security::Alarm;

struct House {
    folder: TempDir,
    store: Store,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("home.db"), Sources::real()).unwrap();
        Self { folder, store }
    }

    fn again(&self) -> Store {
        Store::open(&self.folder.path().join("home.db"), Sources::real()).unwrap()
    }

    fn done(&mut self, change: &Change) -> Value {
        let answer = self.store.change(change, None).unwrap();
        assert!(!answer.is_error, "{answer:?}");
        answer.content
    }

    fn refused(&mut self, change: &Change) -> (String, String) {
        let answer = self.store.change(change, None).unwrap();
        assert!(answer.is_error, "{answer:?}");
        let text = |field: &str| answer.content[field].as_str().unwrap().to_owned();
        (text("code"), text("message"))
    }
}

fn at(place: &str) -> RoomChoice {
    RoomChoice::read(place).unwrap()
}

fn light(place: &str, on: Option<bool>, brightness: Option<u8>) -> Change {
    Change::SetLight {
        place: at(place),
        on,
        brightness,
    }
}

fn dim(place: &str, by: i8) -> Change {
    Change::DimLight {
        place: at(place),
        by,
    }
}

fn play(place: &str, what: &str) -> Change {
    Change::PlayMusic {
        place: at(place),
        what: what.to_owned(),
    }
}

fn scene(name: &str) -> Change {
    Change::ActivateScene {
        scene: name.to_owned(),
    }
}

#[test]
fn a_new_house_is_filled_once() {
    let mut house = House::new();
    let lights = house.store.lights(&at("all")).unwrap();
    assert_eq!(lights["lights"].as_array().unwrap().len(), 7);
    let climates = house.store.climates(&at("all")).unwrap();
    assert_eq!(climates["climates"].as_array().unwrap().len(), 6);
    let players = house.store.players().unwrap();
    assert_eq!(players["players"].as_array().unwrap().len(), 4);
    let security = house.store.security().unwrap();
    assert_eq!(security.alarm, Alarm::Off);
    assert_eq!(security.unlocked, ["back door"]);
    assert_eq!(security.open_windows, ["bedroom"]);
    assert_eq!(security.motion, ["living room"]);

    house.done(&light("kitchen", Some(true), None));
    assert_eq!(house.again().lights(&at("kitchen")).unwrap()["on"], true);
}

#[test]
fn a_light_keeps_its_brightness_while_it_is_off() {
    let mut house = House::new();
    assert_eq!(
        house.done(&light("office", Some(false), None)),
        json!({
            "room": "office",
            "on": false,
            "brightness": 0,
            "lights": [{"room": "office", "on": false, "brightness": 90}],
        })
    );
    assert_eq!(
        house.done(&light("office", Some(true), None))["brightness"],
        90
    );
    // A brightness turns a light on, and 0 turns it off.
    assert_eq!(house.done(&light("garage", None, Some(30)))["on"], true);
    assert_eq!(house.done(&light("garage", None, Some(0)))["on"], false);
    assert_eq!(
        house.done(&light("garage", Some(true), None))["brightness"],
        30
    );
}

#[test]
fn dimming_is_relative_and_ends_at_off_and_at_full() {
    let mut house = House::new();
    assert_eq!(house.done(&dim("living room", -20))["brightness"], 40);
    assert_eq!(house.done(&dim("living room", -20))["brightness"], 20);
    assert_eq!(house.done(&dim("living room", -20))["on"], false);
    assert_eq!(house.done(&dim("living room", 15))["brightness"], 15);
    assert_eq!(house.done(&dim("living room", 100))["brightness"], 100);
}

#[test]
fn all_lights_change_together() {
    let mut house = House::new();
    let result = house.done(&light("all", None, Some(70)));
    assert_eq!(result["room"], "all");
    let lights = result["lights"].as_array().unwrap();
    assert!(
        lights
            .iter()
            .all(|light| light["on"] == true && light["brightness"] == 70)
    );
}

#[test]
fn music_stops_where_it_plays() {
    let mut house = House::new();
    house.done(&play("kitchen", "jazz"));
    house.done(&play("bedroom", "rain"));
    let quiet = Change::StopMusic {
        place: at("bedroom"),
    };
    assert_eq!(house.done(&quiet)["stopped"][0]["playing"], "rain");
    assert_eq!(house.done(&quiet)["stopped"], json!([]));
    let stopped = house.done(&Change::StopMusic { place: at("all") });
    assert_eq!(stopped["stopped"][0]["room"], "kitchen");
}

#[test]
fn a_volume_without_a_room_applies_to_playing_players() {
    let mut house = House::new();
    let volume = |place: Option<RoomChoice>| Change::SetVolume { place, level: 55 };
    let result = house.done(&volume(None));
    assert_eq!(result["players"][0]["room"], "living room");
    house.done(&play("office", "news"));
    let result = house.done(&volume(None));
    assert_eq!(
        result["players"],
        json!([{"room": "office", "playing": "news", "volume": 55}])
    );
    let result = house.done(&volume(Some(at("all"))));
    assert_eq!(result["players"].as_array().unwrap().len(), 4);
}

#[test]
fn the_heating_has_bounds() {
    let mut house = House::new();
    let heat = |place: &str, celsius: f64| Change::SetTemperature {
        place: at(place),
        celsius,
    };
    let result = house.done(&heat("bedroom", 19.04));
    assert_eq!(result["celsius"], 19.0);
    assert_eq!(
        result["climates"],
        json!([{"room": "bedroom", "target": 19.0, "current": 17.8}])
    );
    for wrong in [4.9, 30.1, f64::NAN, f64::INFINITY] {
        assert_eq!(house.refused(&heat("all", wrong)).0, "home.celsius");
    }
    let (code, message) = house.refused(&heat("garage", 20.0));
    assert_eq!(code, "home.device_not_found");
    assert_eq!(
        message,
        "There is no heating in the garage. There is one in: kitchen, living room, bedroom, \
         bathroom, office, hallway."
    );
}

#[test]
fn unknown_names_are_refused_with_the_existing_ones() {
    let mut house = House::new();
    let (code, message) = house.refused(&light("cellar", Some(true), None));
    assert_eq!(code, "home.room_not_found");
    assert!(message.contains("kitchen, living room"), "{message}");
    let (code, message) = house.refused(&scene("disco"));
    assert_eq!(code, "home.scene_not_found");
    assert!(message.contains("movie night"), "{message}");
    let pool = Change::UnlockDoor {
        door: "pool".to_owned(),
    };
    let (code, message) = house.refused(&pool);
    assert_eq!(code, "home.door_not_found");
    assert!(message.contains("front door, back door"), "{message}");
    let everything = Change::UnlockDoor {
        door: "all".to_owned(),
    };
    assert_eq!(house.refused(&everything).0, "home.door_not_found");
    assert_eq!(
        Alarm::read("sleepy").unwrap_err().code(),
        "home.mode_not_found"
    );
}

#[test]
fn an_invalid_light_setting_is_refused() {
    let mut house = House::new();
    let nothing = light("kitchen", None, None);
    assert_eq!(house.refused(&nothing).0, "home.nothing_to_set");
    let dark = light("kitchen", Some(true), Some(0));
    assert_eq!(house.refused(&dark).0, "home.dark_light");
}

#[test]
fn doors_are_found_with_or_without_the_word() {
    let mut house = House::new();
    let lock = |door: &str| Change::LockDoor {
        door: door.to_owned(),
    };
    assert_eq!(
        house.done(&lock("back")),
        json!({"door": "back door", "locked": true, "changed": ["back door"]})
    );
    assert_eq!(house.done(&lock("back door"))["changed"], json!([]));
    let front = Change::UnlockDoor {
        door: "front".to_owned(),
    };
    assert_eq!(house.done(&front)["changed"], json!(["front door"]));
    assert_eq!(house.done(&lock("all"))["changed"], json!(["front door"]));
}

#[test]
fn every_scene_can_be_activated_and_none_unlocks_the_house() {
    for known in crate::scene::ALL {
        let mut house = House::new();
        house.done(&Change::LockDoor {
            door: "all".to_owned(),
        });
        house.done(&Change::SetAlarm { mode: Alarm::Away });
        assert_eq!(house.done(&scene(known.name))["scene"], known.name);
        let security = house.store.security().unwrap();
        assert_eq!(security.unlocked, [""; 0], "{}", known.name);
        assert_ne!(security.alarm, Alarm::Off, "{}", known.name);
    }
}

#[test]
fn movie_night_sets_several_devices() {
    let mut house = House::new();
    house.done(&play("kitchen", "jazz"));
    house.done(&scene("movie night"));
    let living_room = at("living room");
    assert_eq!(house.store.lights(&living_room).unwrap()["brightness"], 15);
    let climates = house.store.climates(&living_room).unwrap();
    assert_eq!(climates["climates"][0]["target"], 21.5);
    let players = house.store.players().unwrap();
    assert_eq!(players["players"][0]["playing"], Value::Null);
}

#[test]
fn a_key_takes_effect_once() {
    let mut house = House::new();
    let first = house.store.change(&dim("office", -30), Some("k")).unwrap();
    let again = house.store.change(&dim("office", -30), Some("k")).unwrap();
    assert_eq!(first, again);
    assert_eq!(house.store.lights(&at("office")).unwrap()["brightness"], 60);
    let other = house.store.change(&dim("office", -10), Some("k"));
    assert_eq!(other.unwrap_err().code(), "home.idempotency_key_reused");
}
