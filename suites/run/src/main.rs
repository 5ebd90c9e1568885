//! The program `shardmark`: it reads suites, starts each case in a process of its own and watches over it, and turns
//! records into tables and figures. It runs no kernel and links no MPI: that is `shardmark-rank`.

mod blame;
mod checks;
mod cli;
mod columns;
mod commands;
mod data;
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

fn main() -> ExitCode {
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
