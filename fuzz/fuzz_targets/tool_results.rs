//! What a tool server says is read.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| convoke_mcp::fuzzing::tool_results(input));
