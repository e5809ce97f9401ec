//! Loads an app folder.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    convoke_app::fuzzing::app_folder(input);
});
