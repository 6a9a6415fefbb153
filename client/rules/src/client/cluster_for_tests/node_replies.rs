//! What a node in memory answers to scripts and to requests that other servers do not know.

use super::{Node, bulk};

impl Node {
    pub(super) fn acquire(&mut self, name: &str, token: &str, options: &[&str]) -> String {
        if self.has_lost_fences {
            return "-FENCELOST this node may have lost fences\r\n".to_owned();
        }
        self.takes += 1;
        if options == ["SHARED"] {
            let is_let_in = u8::from(!self.keeps_readers_out);
            return format!("*2\r\n:{is_let_in}\r\n$-1\r\n");
        }
        if let Some(holder) = self.keys.get(name) {
            let length = holder.len();
            return format!("*3\r\n:0\r\n:{}\r\n${length}\r\n{holder}\r\n", self.fence.0);
        }
        self.keys.insert(name.to_owned(), token.to_owned());
        let is_taken = match options {
            ["GUESS", fence] => self.take_fence(token, fence),
            _ => false,
        };
        let is_taken = u8::from(is_taken);
        format!("*3\r\n:1\r\n:{}\r\n:{is_taken}\r\n", self.fence.0)
    }

    pub(super) fn take_fence(&mut self, token: &str, fence: &str) -> bool {
        let fence = fence.parse().unwrap();
        let is_above = fence > self.fence.0;
        if is_above {
            self.fence = (fence, token.to_owned());
        }
        is_above
    }

    pub(super) fn reply_to_fence(&mut self, token: &str, fence: &str) -> String {
        let is_taken = u8::from(self.take_fence(token, fence));
        format!("*2\r\n:{is_taken}\r\n:{}\r\n", self.fence.0)
    }

    /// What it answers when it is asked for its ceiling, or given one.
    pub(super) fn reply_about_ceiling(&mut self, words: &[&str]) -> String {
        if let ["LOCK.ADOPT", ceiling] = words {
            self.adopted.push((*ceiling).to_owned());
            return format!(":{ceiling}\r\n");
        }
        match self.ceilings.len() {
            0 => "-ERR unknown command 'LOCK.CEILING'\r\n".to_owned(),
            1 => self.ceilings[0].clone(),
            _ => self.ceilings.remove(0),
        }
    }

    /// What the scripts about one name answer.
    pub(super) fn reply_for_one(
        &mut self,
        script: &str,
        name: &str,
        token: &str,
        rest: &[&str],
    ) -> String {
        let holder = self.keys.get(name).map(String::as_str);
        let is_release = script.contains("DEL");
        let reply = match holder {
            Some(holder) if holder == token => 1,
            Some(_) if !is_release => -1,
            _ => 0,
        };
        if is_release && reply == 1 {
            self.keys.remove(name);
        }
        if let (1, Some(kept_ms)) = (reply, rest.first()) {
            self.kept_ms = (*kept_ms).to_owned();
        }
        format!(":{reply}\r\n")
    }

    /// Under which token it has a lock; readers hold it, or something else has its name, where that stands for an error.
    pub(super) fn holder_of(&self, name: &str) -> String {
        match self.keys.get(name) {
            Some(error) if is_error(error) => format!("-{error}\r\n"),
            holder => bulk(holder),
        }
    }

    /// Which of these it has.
    pub(super) fn reply_to_survey(&mut self, names: &[&str]) -> String {
        self.surveys += 1;
        if self.refuses_surveys {
            return "-CROSSSLOT Keys in request don't hash to the same slot\r\n".to_owned();
        }
        let fields = names
            .iter()
            .map(|name| match self.keys.contains_key(*name) {
                true => "1:-1:1",
                false => "0:0:",
            });
        let fields: String = fields.collect();
        format!("${}\r\n{fields}\r\n", fields.len())
    }

    pub(super) fn join_line(&mut self, name: &str, token: &str, options: &[&str]) -> String {
        self.turn_ms = match options {
            ["TURN", turn_ms] => Some(turn_ms.parse().unwrap()),
            _ => None,
        };
        self.waits.push(token.to_owned());
        self.waits_for.push(name.to_owned());
        let is_free = self.has_no_line_for_free && !self.keys.contains_key(name);
        let waiting = self.in_line.filter(|_| !is_free);
        format!(":{}\r\n", waiting.unwrap_or(0))
    }

    /// What an observer is told.
    pub(super) fn reply_to_observer(&mut self, words: &[&str]) -> String {
        match words[..] {
            ["LOCK.INFO", ..] => "-ERR unknown command 'LOCK.INFO'\r\n".to_owned(),
            ["CLIENT", "TRACKING", ..] => {
                self.tracking.push(words[2..].join(" "));
                match self.refuses_tracking {
                    true => "-NOPERM no permissions\r\n".to_owned(),
                    false => "+OK\r\n".to_owned(),
                }
            }
            ["EVAL", _, "1", name] => match self.keys.get(name) {
                None => "*2\r\n_\r\n:-2\r\n".to_owned(),
                Some(error) if is_error(error) => format!("-{error}\r\n"),
                Some(holder) => {
                    let bytes = holder.len();
                    format!("*2\r\n${bytes}\r\n{holder}\r\n:{}\r\n", self.left_ms)
                }
            },
            _ => "-ERR odd\r\n".to_owned(),
        }
    }

    /// What the scripts about several names answer.
    pub(super) fn reply_for_all(&mut self, script: &str, names: &[&str], token: &str) -> String {
        if script.contains("DEL")
            && let Some(error) = self.keys.get(names[0]).filter(|it| is_error(it))
        {
            return format!("-{error}\r\n");
        }
        let holders = names.iter().map(|name| self.keys.get(*name));
        let others = holders.clone().flatten().find(|holder| *holder != token);
        let has_all = holders
            .clone()
            .all(|holder| holder.is_some_and(|it| it == token));
        if script.contains("SET") {
            self.takes += 1;
            if let Some(error) = others.filter(|it| is_error(it)) {
                return format!("-{error}\r\n");
            }
            if let Some(other) = others {
                return format!("${}\r\n{other}\r\n", other.len());
            }
            let taken = names
                .iter()
                .map(|name| ((*name).to_owned(), token.to_owned()));
            self.keys.extend(taken);
            return ":1\r\n".to_owned();
        }
        if script.contains("DEL") {
            let is_ours = |name: &str, holder: &str| names.contains(&name) && holder == token;
            self.keys.retain(|name, holder| !is_ours(name, holder));
            return format!(":{}\r\n", u8::from(has_all));
        }
        match (has_all, others) {
            (true, _) => ":1\r\n".to_owned(),
            (false, Some(_)) => ":-1\r\n".to_owned(),
            (false, None) => ":0\r\n".to_owned(),
        }
    }
}

/// A key that stands for what every request about it is answered.
fn is_error(value: &str) -> bool {
    ["WRONGTYPE ", "NOPERM "]
        .iter()
        .any(|error| value.starts_with(error))
}
