//! `.env` in an app folder: variables for the app's files that the environment does not set.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::{fmt, fs};

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::source::{Source, SourceRange};

/// The file's name.
pub const ENV_FILE: &str = ".env";

/// Limit of the file, in bytes.
pub const MAX_ENV_FILE_BYTES: u64 = 64 * 1024;

/// The variables of the file, by name. The `Debug` form shows only the names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EnvFile(BTreeMap<String, String>);

impl EnvFile {
    /// Reads the file of an app folder; without one, there are no variables. No error shows a value.
    pub fn read(folder: &Path) -> Result<Self, Diagnostics> {
        let unreadable = |message: String| -> Diagnostics {
            let code = "app.file_unreadable";
            let error = Diagnostic::of_file(Severity::Error, ENV_FILE, code, message);
            std::iter::once(error).collect()
        };
        let path = folder.join(ENV_FILE);
        match fs::metadata(&path) {
            Ok(found) if found.len() > MAX_ENV_FILE_BYTES => {
                let message = format!("the file has more than {MAX_ENV_FILE_BYTES} bytes");
                return Err(unreadable(message));
            }
            Ok(_) => {}
            // Without a folder that can be searched, the folder is what is told.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
                ) =>
            {
                return Ok(Self::default());
            }
            Err(error) => return Err(unreadable(format!("the file cannot be read: {error}"))),
        }
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| unreadable(format!("the file cannot be read: {error}")))?;
        Self::parse(&text)
    }

    /// Reads lines of the form `NAME=value`. Quotes around a value are left out; in double quotes, `\n` is a line break.
    fn parse(text: &str) -> Result<Self, Diagnostics> {
        let source = Source::new(ENV_FILE, text);
        let mut variables = BTreeMap::new();
        let mut problems = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let line = line.strip_prefix("export ").unwrap_or(line);
            let variable = line.split_once('=').and_then(|(name, value)| {
                let name = name.trim();
                Some((is_name(name).then_some(name)?, unquoted(value.trim())?))
            });
            if let Some((name, value)) = variable {
                variables.insert(name.to_owned(), value);
            } else {
                let mut place = SourceRange::START;
                place.start.line = index + 1;
                place.end.line = index + 1;
                let message = "the line is not `NAME=value`";
                let error =
                    Diagnostic::at(Severity::Error, &source, place, "app.env_file", message);
                // The line may be a secret.
                let error = error.without_excerpt();
                let name = line.split_once('=').map(|(name, _)| name.trim());
                let help = if name.is_some_and(|name| !is_name(name)) {
                    "a name has letters, digits and `_`, and starts with no digit"
                } else {
                    "put a value with spaces or `#` into quotes"
                };
                problems.push(error.help(help));
            }
        }
        if problems.is_empty() {
            Ok(Self(variables))
        } else {
            Err(problems.into_iter().collect())
        }
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The names of the variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl fmt::Debug for EnvFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .chars()
            .all(|next| next.is_ascii_alphanumeric() || next == '_')
}

/// A value without its quotes, or without the comment after it. `None` if a quote is not closed, or text follows one.
fn unquoted(value: &str) -> Option<String> {
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            let (inner, after) = rest.rsplit_once(quote)?;
            let after = after.trim();
            if !after.is_empty() && !after.starts_with('#') {
                return None;
            }
            return Some(if quote == '"' {
                inner.replace("\\n", "\n")
            } else {
                inner.to_owned()
            });
        }
    }
    let end = value.find(" #").unwrap_or(value.len());
    let value = value[..end].trim_end();
    (!value.contains([' ', '"', '\''])).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_variables_with_or_without_quotes_and_comments() {
        let text = "# keys\n\nA=1\nexport B = two # the second\nC='three # 3'\nD=\"a\\nb\" # d\nE=\nF=x#y\n";
        let read = EnvFile::parse(text).unwrap();
        let of = |name| read.get(name).unwrap();
        assert_eq!((of("A"), of("B"), of("C")), ("1", "two", "three # 3"));
        assert_eq!((of("D"), of("E"), of("F")), ("a\nb", "", "x#y"));
        assert_eq!(read.names().count(), 6);
        assert!(!format!("{read:?}").contains("three"));
    }

    #[test]
    fn a_malformed_line_is_named_and_not_shown() {
        let lines = ["A=hunter2 hunter2", "hunter2", "1A=hunter2", "B=\"hunter2"];
        let problems = EnvFile::parse(&lines.join("\n")).unwrap_err();
        assert_eq!(problems.len(), lines.len());
        let told = problems.pretty() + &problems.to_string();
        assert!(
            told.contains(".env:4:1") && !told.contains("hunter2"),
            "{told}"
        );
    }
}
