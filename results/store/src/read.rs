//! File to record, refusing what is not a whole record of this schema.

use std::collections::BTreeMap;
use std::path::Path;

use shardmark_h5::File;

use crate::{
    Case, Check, Detail, Error, Layer, Layers, Mark, Outcome, Phase, Record, Result, SCHEMA, Samples, Source, Traffic,
    Validation,
};

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// [`Error::File`] for a missing, truncated or foreign file, [`Error::Foreign`] for HDF5 of another program,
    /// [`Error::Version`], and [`Error::Content`] where parts of it contradict each other.
    pub fn read(path: &Path) -> Result<Record> {
        let file = File::open(path)?;
        check_schema(&file)?;
        let reader = Reader { file: &file };
        Ok(Record {
            case: Case {
                line: file.read_str("case/line")?,
                hash: file.read_str("case/hash")?,
                suite: file.read_str("case/suite")?,
                settings: reader.map("case/settings")?,
            },
            source: reader.word("outcome/source", Source::from_name)?,
            outcome: reader.word("outcome/state", Outcome::from_name)?,
            message: file.read_str("outcome/message")?,
            marks: reader.words("outcome/marks", Mark::from_name)?,
            check: reader.check()?,
            samples: reader.samples()?,
            losses: reader.rows("losses/train")?,
            validation: reader.validation()?,
            layers: reader.layers()?,
            traffic: Traffic {
                operations: file.read_strs("traffic/operation")?,
                messages: reader.rows("traffic/messages")?,
                bytes: reader.rows("traffic/bytes")?,
            },
            memory: file.read("memory/peak")?.0,
            provenance: reader.map("provenance")?,
        })
    }
}

fn check_schema(file: &File) -> Result<()> {
    let path = || file.path().to_path_buf();
    let program: Result<String, _> = file.attr("/", "program");
    let schema: Result<i64, _> = file.attr("/", "schema");
    match (program.as_deref(), schema) {
        (Ok("shardmark"), Ok(version)) if version == i64::from(SCHEMA) => Ok(()),
        (Ok("shardmark"), Ok(got)) => Err(Error::Version { path: path(), expected: SCHEMA, got }),
        _ => Err(Error::Foreign { path: path() }),
    }
}

/// The parts of the tree that take more than one call.
struct Reader<'a> {
    file: &'a File,
}

impl Reader<'_> {
    fn check(&self) -> Result<Option<Check>> {
        if !self.file.exists("check") {
            return Ok(None);
        }
        let passed = self.file.read::<u8>("check/passed")?.0;
        let used = self.file.read::<f64>("check/used")?.0;
        match (&passed[..], &used[..]) {
            (&[passed], &[used]) => {
                Ok(Some(Check { passed: passed != 0, used, text: self.file.read_str("check/text")? }))
            }
            _ => Err(self.content("check/passed", "one value", format!("{} and {}", passed.len(), used.len()))),
        }
    }

    fn samples(&self) -> Result<Samples> {
        let (seconds, shape) = self.file.read::<f64>("samples/seconds")?;
        let warmup = self.file.read::<u8>("samples/warmup")?.0;
        let phases = self.words("samples/phase", Phase::from_name)?;
        if phases != Phase::ALL {
            return Err(self.content("samples/phase", format!("{:?}", Phase::ALL), format!("{phases:?}")));
        }
        match shape[..] {
            [_, steps, ranks, phase] if steps == warmup.len() && phase == phases.len() => {
                Ok(Samples { ranks, warmup: warmup.iter().map(|&flag| flag != 0).collect(), seconds })
            }
            _ => {
                let expected = format!("[repeat, {}, rank, {}]", warmup.len(), phases.len());
                Err(self.content("samples/seconds", expected, format!("{shape:?}")))
            }
        }
    }

    fn validation(&self) -> Result<Option<Validation>> {
        if !self.file.exists("validation") {
            return Ok(None);
        }
        let validation = Validation {
            epoch: self.file.read("validation/epoch")?.0,
            train_loss: self.file.read("validation/train_loss")?.0,
            loss: self.file.read("validation/loss")?.0,
            parameters: self.file.read_strs("validation/parameter")?,
            rmse: self.rows("validation/rmse")?,
            label_std: self.file.read("validation/label_std")?.0,
        };
        let (epochs, parameters) = (validation.epoch.len(), validation.parameters.len());
        let epoch_lens = [validation.train_loss.len(), validation.loss.len(), validation.rmse.len()];
        let parameter_lens = validation.rmse.iter().map(Vec::len).chain([validation.label_std.len()]);
        if epoch_lens.iter().any(|&n| n != epochs) || parameter_lens.into_iter().any(|n| n != parameters) {
            let expected = format!("tables of {epochs} epochs and {parameters} parameters");
            return Err(self.content("validation", expected, "other extents"));
        }
        Ok(Some(validation))
    }

    fn layers(&self) -> Result<Layers> {
        let names = self.file.read_strs("layers/name")?;
        let kinds = self.file.read_strs("layers/kind")?;
        let passes = self.file.read_strs("layers/pass")?;
        let seconds = self.rows::<f64>("layers/seconds")?;
        let flops = self.file.read::<f64>("layers/flops")?.0;
        let bytes = self.file.read::<f64>("layers/bytes")?.0;
        let lens = [kinds.len(), passes.len(), seconds.len(), flops.len(), bytes.len()];
        if lens.iter().any(|&n| n != names.len()) {
            return Err(self.content("layers", format!("columns of {} rows", names.len()), format!("{lens:?}")));
        }
        let mut rows = Vec::with_capacity(names.len());
        let texts = names.into_iter().zip(kinds).zip(passes);
        for (((name, kind), pass), ((seconds, flops), bytes)) in texts.zip(seconds.into_iter().zip(flops).zip(bytes)) {
            rows.push(Layer { name, kind, pass, seconds, flops, bytes });
        }
        Ok(Layers { detail: self.word("layers/detail", Detail::from_name)?, rows })
    }

    /// A two-dimensional dataset as rows.
    fn rows<T: shardmark_h5::Elem>(&self, name: &'static str) -> Result<Vec<Vec<T>>> {
        let (data, shape) = self.file.read::<T>(name)?;
        match shape[..] {
            [rows, 0] => Ok(vec![Vec::new(); rows]),
            [_, columns] => Ok(data.chunks(columns).map(<[T]>::to_vec).collect()),
            _ => Err(self.content(name, "two axes", format!("{shape:?}"))),
        }
    }

    fn map(&self, group: &str) -> Result<BTreeMap<String, String>> {
        let keys = self.file.attrs(group)?;
        keys.into_iter()
            .map(|key| {
                let value = self.file.attr::<String>(group, &key)?;
                Ok((key, value))
            })
            .collect()
    }

    fn word<T>(&self, name: &'static str, from_name: fn(&str) -> Option<T>) -> Result<T> {
        let text = self.file.read_str(name)?;
        from_name(&text).ok_or_else(|| self.content(name, "a word of the schema", text))
    }

    fn words<T>(&self, name: &'static str, from_name: fn(&str) -> Option<T>) -> Result<Vec<T>> {
        let texts = self.file.read_strs(name)?;
        texts
            .into_iter()
            .map(|text| from_name(&text).ok_or_else(|| self.content(name, "words of the schema", text)))
            .collect()
    }

    fn content(&self, what: &'static str, expected: impl Into<String>, got: impl Into<String>) -> Error {
        Error::Content { path: self.file.path().to_path_buf(), what, expected: expected.into(), got: got.into() }
    }
}
