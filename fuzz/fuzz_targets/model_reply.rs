//! Reads a model's answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    convoke_llm::fuzzing::model_reply(input);
});
