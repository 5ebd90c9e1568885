//! Records with invented figures, for tests.

use crate::{Case, Check, Detail, Layer, Layers, Outcome, Phase, Record, Samples, Source, Traffic, Validation};

impl Record {
    /// A finished case of `ranks` ranks: a warm-up step, three repeats, and for each sample the seconds of the whole step
    /// given by `step(repeat, step, rank)`; the other phases are fixed fractions of it. `settings` are the keys of the
    /// case line, as `net=2020 width=32`.
    pub fn example(settings: &str, ranks: usize, steps: usize, step: impl Fn(usize, usize, usize) -> f64) -> Record {
        let line = format!("cosmoflow {settings} ranks={ranks}");
        let pairs = line.split(' ').filter_map(|word| word.split_once('='));
        let mut settings: std::collections::BTreeMap<String, String> =
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        settings.insert("workload".to_owned(), "cosmoflow".to_owned());
        let hash = line.bytes().fold(7u64, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte));
        let case = Case { hash: format!("{hash:016x}"), suite: "mode = \"strong\"\n".to_owned(), settings, line };

        let mut record = Record::without_samples(case, Outcome::Ok, "");
        record.check = Some(Check { passed: true, used: 0.25, text: "31 tensors, worst conv4.weight".to_owned() });
        let warmup = (0..=steps).map(|index| index == 0).collect();
        record.samples = Samples::new(3, warmup, ranks);
        for repeat in 0..3 {
            for index in 0..=steps {
                for rank in 0..ranks {
                    let whole = step(repeat, index, rank);
                    for (phase, share) in shares(ranks) {
                        record.samples.set(repeat, index, rank, phase, whole * share);
                    }
                }
            }
        }
        record.losses = (0..3).map(|_| (0..=steps).map(|i| 1.0 / (1.0 + i as f64)).collect()).collect();
        record.layers = example_layers(ranks);
        record.traffic = Traffic {
            operations: vec!["send".to_owned(), "allreduce".to_owned()],
            messages: vec![vec![4, 1]; ranks],
            bytes: vec![vec![4 << 20, 1 << 20]; ranks],
        };
        record.memory = vec![(3 << 30) / ranks as u64; ranks];
        record.provenance = [("commit", "0123abc"), ("cpu", "an example"), ("hdf5", "1.10.8")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        record
    }

    /// Adds a validation curve that falls towards `floor` times the labels' standard deviation.
    pub fn with_validation(mut self, epochs: usize, floor: f64) -> Record {
        let fall = |epoch: usize| floor + (1.0 - floor) * (-(epoch as f64) / 3.0).exp();
        self.validation = Some(Validation {
            epoch: (0..=epochs as i64).collect(),
            train_loss: (0..=epochs).map(|e| 0.09 * fall(e)).collect(),
            loss: (0..=epochs).map(|e| 0.1 * fall(e)).collect(),
            parameters: vec!["omega_m".to_owned(), "sigma_8".to_owned()],
            rmse: (0..=epochs).map(|e| vec![0.04 * fall(e), 0.11 * fall(e).sqrt()]).collect(),
            label_std: vec![0.04, 0.11],
        });
        self
    }

    /// The same case with another source.
    pub fn with_source(mut self, source: Source) -> Record {
        self.source = source;
        self
    }
}

/// Fractions of the step: one rank does not communicate.
fn shares(ranks: usize) -> [(Phase, f64); 9] {
    let halo = if ranks > 1 { 0.1 } else { 0.0 };
    [
        (Phase::Io, 0.02),
        (Phase::Forward, 0.3),
        (Phase::Backward, 0.5 - halo),
        (Phase::HaloTotal, 1.5 * halo),
        (Phase::HaloExposed, halo),
        (Phase::GradTotal, halo),
        (Phase::GradExposed, 0.5 * halo),
        (Phase::Optimizer, 0.02),
        (Phase::Step, 1.0),
    ]
}

fn example_layers(ranks: usize) -> Layers {
    let row = |name: &str, kind: &str, pass: &str, seconds: f64, flops: f64| Layer {
        name: name.to_owned(),
        kind: kind.to_owned(),
        pass: pass.to_owned(),
        seconds: vec![seconds / ranks as f64; ranks],
        flops,
        bytes: flops / 100.0,
    };
    let rows = vec![
        row("conv1", "conv3d", "forward", 0.02, 2e9),
        row("conv1", "conv3d", "backward", 0.04, 4e9),
        row("dense1", "dense", "forward", 0.001, 1e7),
    ];
    Layers { detail: Detail::All, rows }
}
