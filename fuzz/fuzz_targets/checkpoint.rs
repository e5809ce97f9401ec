//! Goes on with a task from a state that an import may bring.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: convoke_flow::fuzzing::load_apps(),
    |input: &[u8]| {
        convoke_flow::fuzzing::checkpoint(input);
    }
);
