//! Checks and renders a template.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    convoke_flow::fuzzing::template(input);
});
