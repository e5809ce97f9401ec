//! A template is loaded and rendered.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| convoke_flow::fuzzing::template(input));
