//! Connects the screens with the terminal: keys come in, frames go out. The terminal is restored on every way out, also
//! by a panic.

use super::draw::{Theme, draw};
use super::model::ReadRequest;
use super::state::{Key, TopAction, TopEvent, TopState};
use crate::exit::CliExit;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;
use trainyard_core::{Error, Result};

/// Maximum time until data, signals and the size of the terminal are looked at.
const POLL: Duration = Duration::from_millis(100);

/// Connection to the reader of the store, and to the signals of the process.
pub struct Connection<'a> {
    /// Data of the reader.
    pub events: &'a Receiver<TopEvent>,
    /// Messages about user requests.
    pub notes: &'a Receiver<TopEvent>,
    pub requests: &'a Sender<ReadRequest>,
    /// Whether a signal asked for the end.
    pub stop: &'a AtomicBool,
}

/// Terminal in raw mode with a separate screen, until it is dropped.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> io::Result<Self> {
        // Sets a panic hook that restores the terminal before the message of the panic.
        ratatui::try_init().map(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the screens until the user quits, or a signal arrives.
pub fn show(
    state: &mut TopState,
    theme: Theme,
    connection: &Connection<'_>,
    mut act: impl FnMut(TopAction),
) -> Result<CliExit> {
    let failed = |error: io::Error| Error::retryable("cannot use the terminal").caused_by(&error);
    let mut screen = Screen::open().map_err(failed)?;
    let mut last = None;
    let mut is_changed = true;
    loop {
        let request = state.request();
        if last.as_ref() != Some(&request) {
            // A reader that is gone is noticed below.
            let _ = connection.requests.send(request.clone());
            last = Some(request);
        }
        if std::mem::take(&mut is_changed) {
            screen.0.draw(|frame| draw(state, theme, frame)).map_err(failed)?;
        }
        if connection.stop.load(Ordering::Relaxed) {
            return Ok(CliExit::Interrupted);
        }
        if is_closed(POLL) {
            return Ok(CliExit::Interrupted);
        }
        if event::poll(Duration::ZERO).map_err(failed)? {
            is_changed = true;
            if let Event::Key(key) = event::read().map_err(failed)? {
                if is_interrupt(key) {
                    return Ok(CliExit::Interrupted);
                }
                match key_of(key).and_then(|key| state.update(TopEvent::Key(key))) {
                    Some(TopAction::Quit) => return Ok(CliExit::Done),
                    Some(action) => act(action),
                    None => {}
                }
            }
        }
        for note in connection.notes.try_iter() {
            state.update(note);
            is_changed = true;
        }
        loop {
            match connection.events.try_recv() {
                Ok(event) => {
                    state.update(event);
                    is_changed = true;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(Error::bug("the reader of the store has ended")),
            }
        }
    }
}

/// Waits for a key, and returns whether the terminal was closed. Crossterm would read its end for ever.
fn is_closed(timeout: Duration) -> bool {
    let stdout = io::stdout();
    let mut terminal = [PollFd::new(&stdout, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    // A signal, as of a new size, ends the wait with an error.
    let found = rustix::event::poll(&mut terminal, Some(&timeout));
    found.is_ok() && terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

fn is_interrupt(key: KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c')
}

/// Translates a key; `None` for keys without a meaning.
fn key_of(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release || key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return None;
    }
    Some(match key.code {
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Char(c) => Key::Char(c),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_keys_are_no_text() {
        let key = |code, modifiers| KeyEvent::new(code, modifiers);
        assert!(is_interrupt(key(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert_eq!(key_of(key(KeyCode::Char('c'), KeyModifiers::CONTROL)), None);
        assert_eq!(key_of(key(KeyCode::Char('G'), KeyModifiers::SHIFT)), Some(Key::Char('G')));
        assert_eq!(key_of(key(KeyCode::F(1), KeyModifiers::NONE)), None);
    }
}
