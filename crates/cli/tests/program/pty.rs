//! The binary at a pseudo-terminal: what a person's screen is sent.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use regex::Regex;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// How long a test waits for something to appear that should come within a second.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a command sent to each of its terminals, and how it ended.
#[derive(Debug)]
pub(crate) struct TerminalOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

impl TerminalOutput {
    /// Both screens.
    pub(crate) fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// One end of a pseudo-terminal, and what was sent to the other.
struct Terminal {
    keyboard: File,
    screen: Arc<(Mutex<Vec<u8>>, Condvar)>,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// A terminal, and the end of it that a program is given.
    fn open() -> (Self, OwnedFd) {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let device = rustix::fs::open(name, flags, Mode::empty()).unwrap();
        let keyboard = File::from(controller);
        let mut output = keyboard.try_clone().unwrap();
        let screen = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let shown = Arc::clone(&screen);
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4_096];
            // The read fails once no program has the terminal open any more.
            while let Ok(read @ 1..) = output.read(&mut chunk) {
                shown.0.lock().unwrap().extend_from_slice(&chunk[..read]);
                shown.1.notify_all();
            }
        });
        let terminal = Self {
            keyboard,
            screen,
            reader,
        };
        (terminal, device)
    }

    /// All that was sent, once the program has ended. The terminal itself makes `\r\n` of each `\n`.
    fn end(self) -> String {
        self.reader.join().unwrap();
        let bytes = self.screen.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
    }
}

/// Runs a command with a terminal for its output and another for its errors.
pub(crate) fn watch(mut command: Command) -> TerminalOutput {
    let (out, device) = Terminal::open();
    let (err, error_device) = Terminal::open();
    command
        .stdin(Stdio::null())
        .stdout(device)
        .stderr(error_device)
        .env("TERM", "xterm-256color");
    let mut child = command.spawn().unwrap();
    // The command holds the program's ends of the terminals.
    drop(command);
    let code = child.wait().unwrap().code();
    TerminalOutput {
        stdout: out.end(),
        stderr: err.end(),
        code,
    }
}

/// A program that a person talks with at one terminal.
pub(crate) struct Session {
    terminal: Terminal,
    child: Child,
}

impl Session {
    pub(crate) fn start(mut command: Command) -> Self {
        let (terminal, device) = Terminal::open();
        command
            .stdin(device.try_clone().unwrap())
            .stdout(device.try_clone().unwrap())
            .stderr(device)
            .env("TERM", "xterm-256color");
        let child = command.spawn().unwrap();
        Self { terminal, child }
    }

    /// Waits until a text stands on the screen so many times.
    pub(crate) fn until(&self, text: &str, times: usize) {
        let (screen, changed) = &*self.terminal.screen;
        let missing = |shown: &mut Vec<u8>| {
            let shown = String::from_utf8_lossy(shown);
            shown.matches(text).count() < times
        };
        let shown = screen.lock().unwrap();
        let (shown, waited) = changed
            .wait_timeout_while(shown, PATIENCE, missing)
            .unwrap();
        assert!(
            !waited.timed_out(),
            "no {text:?} in {:?}",
            String::from_utf8_lossy(&shown)
        );
    }

    pub(crate) fn enter(&mut self, line: &str) {
        write!(self.terminal.keyboard, "{line}\r").unwrap();
    }

    /// All that was sent to the screen, once the program has ended.
    pub(crate) fn end(mut self) -> String {
        assert!(self.child.wait().unwrap().success());
        self.terminal.end()
    }
}

/// What a terminal would act upon in a text, but for colours and line ends, and for what `ours` matches.
pub(crate) fn acted_upon(text: &str, ours: &str) -> Vec<char> {
    let colours = Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    let text = colours.replace_all(text, "");
    let text = if ours.is_empty() {
        text
    } else {
        Regex::new(ours)
            .unwrap()
            .replace_all(&text, "")
            .into_owned()
            .into()
    };
    let directions = |letter| matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .filter(|letter| !matches!(letter, '\n' | '\t'))
        .filter(|letter| letter.is_control() || directions(*letter))
        .collect()
}
