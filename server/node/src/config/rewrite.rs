//! CONFIG REWRITE: a configuration file that says what is in force, and else what it said.
//!
//! A line whose directive has in the file the value that is in force stays as it is written, and so do comments, blank lines,
//! `include` and their order. The text is read again before it is handed out: it says what it is to say, or there is none.

use std::io::{self, Read};
use std::path::Path;

use super::catalogue::directives;
use super::directive::Directive;
use super::file::{BYTES_MAX, Reader, words};
use super::{Config, Files};
use crate::acl::{Users, line_of};
use quorlock_engine::words::quote;

impl Config {
    /// Writes the file that this configuration was read from anew, so that the next start has what is in force: this, and these
    /// users where no file of their own has them. What the start had to lower (`started`) stays what the file says, and so does what
    /// decides at a start alone: a flag that was meant for one start would let every later one forget locks.
    ///
    /// # Errors
    /// Why the file is what it was.
    pub(crate) fn rewrite(
        &self,
        path: &Path,
        files: &dyn Files,
        started: &Config,
        users: &Users,
    ) -> Result<(), String> {
        let text = read(files, path)?;
        let mut wanted = self.clone();
        let written = parsed(files, &text)?;
        if self.maxclients == started.maxclients && written.maxclients > self.maxclients {
            wanted.maxclients = written.maxclients;
        }
        wanted.first_start = written.first_start;
        wanted.restart_delay = written.restart_delay;
        wanted.trust_fsync = written.trust_fsync;
        // The next start may be in another folder.
        if self.dir != written.dir {
            wanted.dir = files
                .absolute(&self.dir)
                .unwrap_or_else(|| self.dir.clone());
        }
        let rewritten = rewritten(&wanted, files, &text, users)?;
        files
            .replace(path, &rewritten)
            .map_err(|error| shown(&error))
    }
}

/// The text of a file, empty where there is none yet.
fn read(files: &dyn Files, path: &Path) -> Result<Vec<u8>, String> {
    if files.is_special(path) {
        return Err("it is no file".to_owned());
    }
    let mut text = Vec::new();
    match files.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(text),
        Err(error) => return Err(shown(&error)),
        Ok(file) => file.take(BYTES_MAX + 1).read_to_end(&mut text),
    }
    .map_err(|error| shown(&error))?;
    Ok(text)
}

/// What a start would make of the text, but for what the file of a password holds.
fn parsed(files: &dyn Files, text: &[u8]) -> Result<Config, String> {
    let mut config = Config::default();
    let mut reader = Reader::without_password(files);
    let mut text = text;
    let outcome = reader.read_stream(&mut config, &mut text);
    let outcome = outcome.and_then(|()| reader.finish());
    outcome.map_err(|error| {
        let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
        format!("no start would read the file: {}", lines.join(" "))
    })?;
    Ok(config)
}

/// The text with what differs replaced, or added at its end.
fn rewritten(
    config: &Config,
    files: &dyn Files,
    text: &[u8],
    users: &Users,
) -> Result<Vec<u8>, String> {
    let mut lines = Lines::of(text);
    let said = parsed(files, text)?;
    for (holder, names) in groups() {
        if differs(config, &said, holder) {
            lines.put(&names, vec![line(config, holder)]);
        }
    }
    // A file that is read behind the line may say otherwise; nothing is behind the last one.
    let put = parsed(files, &lines.text())?;
    for (holder, names) in groups() {
        if differs(config, &put, holder) {
            lines.remove(&names);
            lines.append(line(config, holder));
        }
    }
    let put = parsed(files, &lines.text())?;
    if let Some((holder, _)) = groups().find(|(holder, _)| differs(config, &put, holder)) {
        return Err(format!("the file cannot say what {} is", holder.name));
    }
    if config.aclfile.is_none() && users_of(&put, config) != listed(users) {
        lines.put(&["user"], user_lines(users, config));
        let put = parsed(files, &lines.text());
        if !put.is_ok_and(|put| users_of(&put, config) == listed(users)) {
            return Err(
                "the file, with those that it includes, cannot say what the users may do; keep them in an aclfile"
                    .to_owned(),
            );
        }
    }
    Ok(lines.text())
}

/// A line for each user, but not for the default one where it is what it is without a line.
fn user_lines(users: &Users, config: &Config) -> Vec<Vec<u8>> {
    let password = config.requirepass.as_ref();
    let unsaid = Users::new(password.map(|it| it.as_str().as_bytes()));
    let unsaid = compared(&line_of(unsaid.default_user()));
    let lines = users.all().map(|user| line_of(user));
    let lines = lines.filter(|line| compared(line) != unsaid);
    lines.map(|line| quoted(&line)).collect()
}

/// The line as a start reads it: words that it would read otherwise stand in quotes.
fn quoted(line: &[u8]) -> Vec<u8> {
    let words = line.split(|byte| *byte == b' ').map(|word| {
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
        let mut out = Vec::with_capacity(word.len());
        match !word.is_empty() && word.iter().all(is_plain) {
            true => out.extend_from_slice(word),
            false => quote(&mut out, word),
        }
        out
    });
    words.collect::<Vec<_>>().join(&b' ')
}

/// The users that a start with this text would begin with, to be compared. The password may stand in a file of its own.
fn users_of(put: &Config, config: &Config) -> Vec<Vec<u8>> {
    let mut put = put.clone();
    put.requirepass.clone_from(&config.requirepass);
    listed(&put.initial_users())
}

fn listed(users: &Users) -> Vec<Vec<u8>> {
    users.all().map(|user| compared(&line_of(user))).collect()
}

/// As in Redis a user has this word once a line was read for it, and it means nothing here.
fn compared(line: &[u8]) -> Vec<u8> {
    let words = line.split(|byte| *byte == b' ');
    let words: Vec<&[u8]> = words.filter(|word| *word != b"sanitize-payload").collect();
    words.join(&b' ')
}

/// Directives with a value that counts, each with all names for it. A password and its file are about the same.
fn groups() -> impl Iterator<Item = (&'static Directive, Vec<&'static str>)> {
    let holders =
        directives().filter(|it| it.holder() == Some(it.name) && it.name != PASSWORD_FILE);
    holders.map(|holder| {
        let same = directives().filter(|it| it.holder() == Some(holder.name));
        let mut names: Vec<_> = same.map(|it| it.name).collect();
        if holder.name == PASSWORD {
            names.push(PASSWORD_FILE);
        }
        (holder, names)
    })
}

fn differs(config: &Config, written: &Config, directive: &Directive) -> bool {
    if directive.name == PASSWORD {
        return match &config.requirepass_file {
            Some(file) => written.requirepass_file.as_ref() != Some(file),
            None => written.requirepass_file.is_some() || written.requirepass != config.requirepass,
        };
    }
    directive.show(config) != directive.show(written)
}

/// A line that says what a directive is.
fn line(config: &Config, directive: &Directive) -> Vec<u8> {
    if let (PASSWORD, Some(file)) = (directive.name, &config.requirepass_file) {
        return written(PASSWORD_FILE, &[&file.display().to_string()]);
    }
    let value = directive.show(config).unwrap_or_default();
    // A list is several values, and a path may hold blanks.
    let words: Vec<&str> = value.split_whitespace().collect();
    let mut read_back = Config::default();
    let is_list = read_back.set(directive.name, &words).is_ok()
        && directive.show(&read_back).as_ref() == Some(&value);
    match is_list {
        true => written(directive.name, &words),
        false => written(directive.name, &[&value]),
    }
}

fn written(name: &str, values: &[&str]) -> Vec<u8> {
    let mut line = name.as_bytes().to_vec();
    for value in values {
        line.push(b' ');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/*%-".contains(&byte);
        match !value.is_empty() && value.bytes().all(is_plain) {
            true => line.extend_from_slice(value.as_bytes()),
            false => quote(&mut line, value.as_bytes()),
        }
    }
    line
}

/// The lines of a file, without their ends.
struct Lines(Vec<Vec<u8>>);

impl Lines {
    fn of(text: &[u8]) -> Self {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        if text.is_empty() {
            return Self(Vec::new());
        }
        Self(
            text.split(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect(),
        )
    }

    fn text(&self) -> Vec<u8> {
        self.0
            .iter()
            .flat_map(|line| [line, &b"\n"[..]].concat())
            .collect()
    }

    /// These lines in the place of those with these names: one each, what is left where the last one was.
    fn put(&mut self, names: &[&str], lines: Vec<Vec<u8>>) {
        let mut places: Vec<usize> = (0..self.0.len())
            .filter(|at| self.is_named(*at, names))
            .collect();
        let Some(last) = places.pop() else {
            return lines.into_iter().for_each(|line| self.append(line));
        };
        self.0.splice(last..=last, lines);
        for place in places.into_iter().rev() {
            self.0.remove(place);
        }
    }

    fn remove(&mut self, names: &[&str]) {
        self.put(names, Vec::new());
    }

    /// Adds a line at the end, below a comment that says where it comes from.
    fn append(&mut self, line: Vec<u8>) {
        if !self.0.iter().any(|it| it == SIGNATURE) {
            self.0.push(SIGNATURE.to_vec());
        }
        self.0.push(line);
    }

    fn is_named(&self, at: usize, names: &[&str]) -> bool {
        let line = self.0[at].trim_ascii();
        let name = words(line).ok().and_then(|words| words.into_iter().next());
        !line.starts_with(b"#")
            && name.is_some_and(|it| names.iter().any(|name| name.eq_ignore_ascii_case(&it)))
    }
}

/// As Redis shows an error of the system: without its number.
fn shown(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

const PASSWORD: &str = "requirepass";
const PASSWORD_FILE: &str = "requirepass-file";
/// Redis's.
const SIGNATURE: &[u8] = b"# Generated by CONFIG REWRITE";
