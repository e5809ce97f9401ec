//! Checks arguments against a schema.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    convoke_mcp::fuzzing::tool_arguments(input);
});
