//! Imports an archive.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    convoke_cli::fuzzing::archive(input);
});
