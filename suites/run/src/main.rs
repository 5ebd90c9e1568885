//! The program `shardmark`: it reads suites, starts each case in a process of its own and watches over it, and turns
//! records into tables and figures. It runs no kernel and links no MPI: that is `shardmark-rank`.

mod blame;
mod checks;
mod cli;
mod columns;
mod commands;
mod data;
mod ends;
mod env;
mod error;
mod family;
mod figures;
mod launch;
mod memory;
mod progress;
mod results;
mod signals;
mod suites;
mod supervise;
mod sweep;

use std::process::ExitCode;

use clap::Parser;
use cli::Command;
use shardmark_plan::exit::Exit;

fn main() -> ExitCode {
    end_quietly_without_readers();
    tell_panics();
    let cli = cli::Cli::parse();
    let exit = match &cli.command {
        Command::List(arguments) => commands::list(arguments),
        Command::Run(arguments) => commands::run(arguments),
        Command::Resume(arguments) => commands::resume(arguments),
        Command::Status(arguments) => commands::status(arguments),
        Command::Check(arguments) => checks::check(arguments),
        Command::Verify(arguments) => checks::verify(arguments),
        Command::Data(arguments) => data::run(arguments),
        Command::Table(arguments) => figures::tabulate(arguments),
        Command::Plot(arguments) => figures::draw(arguments),
        Command::Env => Ok(env::print()),
    };
    match exit {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("shardmark: {error}");
            error.exit().into()
        }
    }
}

/// Ends this program, as others, when who reads its output goes away (`shardmark table | head`).
fn end_quietly_without_readers() {
    // SAFETY: sets a signal's default before any other thread runs.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// A panic is a line for people. One that only says that output cannot be written (a full disk) is no fault of ours.
fn tell_panics() {
    std::panic::set_hook(Box::new(|info| {
        let message = info.payload_as_str().unwrap_or("no message");
        if let Some((_, why)) = message.split_once("failed printing to stdout: ") {
            eprintln!("shardmark: standard output: expected to write, got '{why}'; free space or write elsewhere");
            std::process::exit(Exit::Failed as i32);
        }
        let place = info.location().map_or(String::new(), |at| format!(" at {}:{}", at.file(), at.line()));
        eprintln!("shardmark: internal error: {message}{place}; please report it with the command");
    }));
}
