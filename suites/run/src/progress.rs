//! A bar on standard error while a case runs; nothing if that is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use shardmark_plan::Event;

use crate::columns;

/// The bar of one case or check.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar of unknown length with a name before it.
    pub fn new(name: &str) -> Progress {
        let bar = ProgressBar::new_spinner();
        // The templates are constants: a wrong one would leave the default style.
        let style = ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] {bar:24} {pos}/{len} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name.to_string());
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        Progress { bar }
    }

    /// Shows an event.
    pub fn event(&self, event: &Event) {
        match event {
            Event::Started { .. } => self.bar.set_message("started"),
            Event::Plan { steps } => self.bar.set_length(*steps as u64),
            Event::Step { step, seconds, loss } => {
                self.bar.set_position(*step as u64 + 1);
                let loss = if loss.is_nan() { String::new() } else { format!(", loss {loss:.4}") };
                self.bar.set_message(format!("{} a step{loss}", columns::seconds(*seconds)));
            }
            Event::Check { message, .. } => {
                self.bar.inc(1);
                self.bar.set_message(message.clone());
            }
            Event::Hang { .. } | Event::Failed { .. } | Event::Done { .. } => {}
        }
    }

    /// Shows how many of how many are done.
    pub fn count(&self, done: usize, total: usize) {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
    }

    /// Prints a line to standard output without tearing the bar.
    pub fn print(&self, line: &str) {
        self.bar.suspend(|| println!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
