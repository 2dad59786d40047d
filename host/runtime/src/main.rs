//! The `weir` binary: everything is in the library.

fn main() -> std::process::ExitCode {
    weir::cli::main()
}
