//! The program `shardmark` from outside, with a shell script in place of the rank program.

mod broken;
mod place;
mod real;
mod sweep;
mod usage;
