//! `trainyard logs RUN [STAGE]`: what the attempts of a run's stages wrote.

use crate::args::LogsArgs;
use crate::exit::Exit;
use crate::names;
use crate::output::human::print_text;
use crate::session::Session;
use trainyard_core::Result;
use trainyard_store::Chunk;

pub fn run(args: &LogsArgs) -> Result<Exit> {
    let session = Session::open(&args.site, false)?;
    let text = session.block_on(async {
        let run = names::run(&session.store, &args.run).await?;
        let view = names::view(&session.store, &run).await?;
        let wanted = match &args.stage {
            Some(name) => vec![names::stage(&view, name)?],
            None => view.stages.iter().collect(),
        };
        let mut text = String::new();
        for stage in wanted {
            for attempt in session.store.list_attempts(&run, &stage.stage.0).await? {
                let (log, _) = session.store.read_chunks(&run, &stage.stage.0, attempt, Chunk::Log, 0).await?;
                if !log.is_empty() {
                    text.push_str(&format!("== {} attempt {attempt}\n{}", stage.stage.0, String::from_utf8_lossy(&log)));
                }
            }
        }
        Ok(text)
    })?;
    print_text(if text.is_empty() { "no log lines" } else { text.trim_end() });
    Ok(Exit::Done)
}
