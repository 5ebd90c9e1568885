//! Record to file. The order here is the order of `SCHEMA.md`.

use std::collections::BTreeMap;
use std::path::Path;

use shardmark_h5::File;

use crate::{Error, Layers, Phase, Record, Result, SCHEMA, Traffic, Validation};

impl Record {
    /// Writes the record to `path` in one piece: at any moment there is no file, the older one or the whole new one.
    ///
    /// # Errors
    /// [`Error::File`] from the disk, [`Error::Content`] if rows of one table have different lengths.
    pub fn write(&self, path: &Path) -> Result<()> {
        File::create_atomic(path, |file| self.fill(file))
    }

    fn fill(&self, file: &File) -> Result<()> {
        file.set_attr("/", "program", "shardmark")?;
        file.set_attr("/", "schema", i64::from(SCHEMA))?;
        self.write_case(file)?;
        self.write_outcome(file)?;
        self.write_samples(file)?;
        if let Some(validation) = &self.validation {
            write_validation(file, validation)?;
        }
        write_layers(file, &self.layers)?;
        write_traffic(file, &self.traffic)?;
        file.write("memory/peak", &[self.memory.len()], &self.memory)?;
        write_map(file, "provenance", &self.provenance)
    }

    fn write_case(&self, file: &File) -> Result<()> {
        file.write_str("case/line", &self.case.line)?;
        file.write_str("case/hash", &self.case.hash)?;
        file.write_str("case/suite", &self.case.suite)?;
        write_map(file, "case/settings", &self.case.settings)
    }

    fn write_outcome(&self, file: &File) -> Result<()> {
        file.write_str("outcome/state", self.outcome.name())?;
        file.write_str("outcome/message", &self.message)?;
        file.write_str("outcome/source", self.source.name())?;
        let marks: Vec<&str> = self.marks.iter().map(|mark| mark.name()).collect();
        file.write_strs("outcome/marks", &marks)?;
        if let Some(check) = &self.check {
            file.write("check/passed", &[], &[u8::from(check.passed)])?;
            file.write("check/used", &[], &[check.used])?;
            file.write_str("check/text", &check.text)?;
        }
        Ok(())
    }

    fn write_samples(&self, file: &File) -> Result<()> {
        let samples = &self.samples;
        let names: Vec<&str> = Phase::ALL.iter().map(|phase| phase.name()).collect();
        let shape = [samples.repeats(), samples.steps(), samples.ranks, names.len()];
        file.write("samples/seconds", &shape, &samples.seconds)?;
        file.write_strs("samples/phase", &names)?;
        let warmup: Vec<u8> = samples.warmup.iter().map(|&flag| u8::from(flag)).collect();
        file.write("samples/warmup", &[warmup.len()], &warmup)?;
        file.set_attr("samples/seconds", "axes", "repeat step rank phase")?;
        file.set_attr("samples/seconds", "unit", "s")?;
        let columns = self.losses.first().map_or(0, Vec::len);
        write_rows(file, "losses/train", columns, &self.losses)
    }
}

fn write_validation(file: &File, validation: &Validation) -> Result<()> {
    let epochs = validation.epoch.len();
    file.write("validation/epoch", &[epochs], &validation.epoch)?;
    file.write("validation/train_loss", &[epochs], &validation.train_loss)?;
    file.write("validation/loss", &[epochs], &validation.loss)?;
    file.write_strs("validation/parameter", &validation.parameters)?;
    write_rows(file, "validation/rmse", validation.parameters.len(), &validation.rmse)?;
    file.write("validation/label_std", &[validation.parameters.len()], &validation.label_std)?;
    Ok(())
}

fn write_layers(file: &File, layers: &Layers) -> Result<()> {
    let column = |get: fn(&crate::Layer) -> &str| layers.rows.iter().map(get).collect::<Vec<_>>();
    file.write_str("layers/detail", layers.detail.name())?;
    file.write_strs("layers/name", &column(|row| &row.name))?;
    file.write_strs("layers/kind", &column(|row| &row.kind))?;
    file.write_strs("layers/pass", &column(|row| &row.pass))?;
    let seconds: Vec<Vec<f64>> = layers.rows.iter().map(|row| row.seconds.clone()).collect();
    write_rows(file, "layers/seconds", seconds.first().map_or(0, Vec::len), &seconds)?;
    file.set_attr("layers/seconds", "unit", "s")?;
    let flops: Vec<f64> = layers.rows.iter().map(|row| row.flops).collect();
    file.write("layers/flops", &[flops.len()], &flops)?;
    let bytes: Vec<f64> = layers.rows.iter().map(|row| row.bytes).collect();
    file.write("layers/bytes", &[bytes.len()], &bytes)?;
    Ok(())
}

fn write_traffic(file: &File, traffic: &Traffic) -> Result<()> {
    file.write_strs("traffic/operation", &traffic.operations)?;
    write_rows(file, "traffic/messages", traffic.operations.len(), &traffic.messages)?;
    write_rows(file, "traffic/bytes", traffic.operations.len(), &traffic.bytes)
}

fn write_map(file: &File, group: &str, map: &BTreeMap<String, String>) -> Result<()> {
    file.create_group(group)?;
    for (key, value) in map {
        file.set_attr(group, key, value.as_str())?;
    }
    Ok(())
}

/// A two-dimensional dataset of rows that must all have `columns` elements.
fn write_rows<T: shardmark_h5::Elem>(file: &File, name: &'static str, columns: usize, rows: &[Vec<T>]) -> Result<()> {
    if let Some(row) = rows.iter().find(|row| row.len() != columns) {
        let (expected, got) = (format!("rows of {columns}"), format!("one of {}", row.len()));
        return Err(Error::Content { path: file.path().to_path_buf(), what: name, expected, got });
    }
    Ok(file.write(name, &[rows.len(), columns], &rows.concat())?)
}
