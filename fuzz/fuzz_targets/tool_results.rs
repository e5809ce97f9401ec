//! Reads messages of a tool server.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    convoke_mcp::fuzzing::tool_results(input);
});
