//! The binary `convoke`.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Many small values live and die with every step; this allocator makes that cheap.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    convoke_cli::main()
}
