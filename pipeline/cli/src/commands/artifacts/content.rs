//! Reads what the page of a model or of a report shows of its files.

use crate::output::clean::{AllowedCodes, clean};
use crate::output::{model, report_page};
use serde_json::{Map, Value, json};
use trainyard_api::report::{REPORT_FILE, StageReport};
use trainyard_core::{ArtifactKind, Error, ErrorKind, Output, Result};
use trainyard_store::Store;
use trainyard_views::find::ResolvedOutput;
use trainyard_views::model::{self as model_view, ModelView};

/// Content of an artifact without rows.
pub enum Content {
    /// Parts of a model.
    Model(Box<ModelView>),
    /// Report of a stage.
    Report(Box<StageReport>),
    /// Reason why the report is missing.
    Unreadable(Error),
    /// Content of no further kind.
    Nothing,
}

impl Content {
    /// Reads the content of a model or a report. Errors: those of the store, except missing and damaged objects.
    pub async fn read(store: &Store, found: &ResolvedOutput) -> Result<Self> {
        if let Some(model) = model_view::show(store, found).await? {
            return Ok(Self::Model(Box::new(model)));
        }
        match report(store, found.output()).await {
            Ok(Some(report)) => Ok(Self::Report(Box::new(report))),
            Ok(None) => Ok(Self::Nothing),
            Err(error) if matches!(error.kind, ErrorKind::Data | ErrorKind::Lost | ErrorKind::Bug) => {
                Ok(Self::Unreadable(error))
            }
            Err(error) => Err(error),
        }
    }
    /// Formats the content; `None` for artifacts of other kinds.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Model(view) => Some(clean(&model::page(view), AllowedCodes::Nothing).into_owned()),
            Self::Report(report) => Some(report_page::page(report)),
            Self::Unreadable(error) => Some(format!("cannot be read: {error}")),
            Self::Nothing => None,
        }
    }
    /// Adds the content to a document, as `model` or `report`.
    pub fn add_to(&self, document: &mut Map<String, Value>) {
        let (name, value) = match self {
            Self::Model(view) => ("model", json!(view)),
            Self::Report(report) => ("report", json!(report)),
            Self::Unreadable(error) => ("unreadable", json!(error.to_string())),
            Self::Nothing => return,
        };
        document.insert(name.to_string(), value);
    }
}

/// Reads the file of a report; `None` for other artifacts and without the file.
async fn report(store: &Store, output: &Output) -> Result<Option<StageReport>> {
    let file = output.files.iter().find(|file| file.path == REPORT_FILE);
    let Some(file) = file.filter(|_| output.kind == ArtifactKind::Report) else { return Ok(None) };
    let place = |error: Error| error.at(format!("file `{REPORT_FILE}`"));
    let bytes = store.read_object(&file.digest).await.map_err(place)?;
    let report: StageReport = serde_json::from_slice(&bytes)
        .map_err(|e| place(Error::data(format!("not a report: {e}")).help("look at it with `artifacts export`")))?;
    report.validate().map_err(place)?;
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::FileEntry;
    use trainyard_store::StoreOptions;

    async fn read(bytes: &'static str) -> Result<Option<StageReport>> {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (digest, size) = store.put_object(bytes.into()).await.unwrap();
        let file = FileEntry { path: REPORT_FILE.into(), digest, size };
        let output = Output::new(ArtifactKind::Report, vec![file], None, Default::default()).unwrap();
        report(&store, &output).await
    }

    #[tokio::test]
    async fn reports_are_read_and_checked() {
        let found = read(r#"{"report_format": 1, "title": "Loss"}"#).await.unwrap().unwrap();
        assert_eq!(found, StageReport::new("Loss"));
        let damaged = read("{half").await.unwrap_err();
        assert!(damaged.message.starts_with("file `report.json`: not a report: "), "{damaged}");
        let ragged = r#"{"report_format": 1, "title": "t", "tables": [{"title": "", "columns": ["a"], "rows": [[]]}]}"#;
        assert!(read(ragged).await.unwrap_err().message.contains("has 1 columns, but a row of 0 cells"));
    }
}
