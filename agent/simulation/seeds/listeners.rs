//! Callers who listen to channels, and callers who publish.
//!
//! Invariant: what was published is known from what was sent, and who listens from what agents have answered. What the node in front of an
//! agent does with a message is done here: it goes to each of its clients once that listens to its channel or to a pattern.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use quorlock_agent_rules::RequestId;
use quorlock_agent_simulation::Answer;
use quorlock_client_rules::channels::Topic;
use quorlock_engine::Reply;

use super::world::{MS, Planned, World};

/// Who listens and who publishes, and what was published.
#[derive(Debug, Default)]
pub(super) struct Messages {
    listeners: Vec<Listener>,
    publishers: Vec<Publisher>,
    asked: BTreeMap<RequestId, Asked>,
}

#[derive(Debug)]
struct Listener {
    agent: usize,
    topic: Topic,
    /// Which of its connections it uses.
    life: u64,
    /// Since when it listens.
    since_ns: Option<u64>,
    /// What has come in this life.
    got: BTreeSet<Bytes>,
    /// The last one of each publisher, run of an agent, and channel.
    last: BTreeMap<(usize, usize, Bytes), usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Publisher {
    agent: usize,
    number: usize,
}

#[derive(Debug)]
enum Asked {
    Listen(usize, u64),
    Publish(Sent),
}

/// A message, and who has to get it: listeners in their lives.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    payload: Bytes,
    publisher: usize,
    is_due: bool,
    listeners: Vec<(usize, u64)>,
}

impl World {
    pub(super) fn begin_messages(&mut self) {
        for number in 0..self.plan.listeners {
            let topic = match self.below(TOPICS.len()) {
                at if TOPICS[at].0 => Topic::pattern(TOPICS[at].1),
                at => Topic::channel(TOPICS[at].1),
            };
            self.messages.listeners.push(Listener {
                agent: number % self.plan.agents,
                topic,
                life: 0,
                since_ns: None,
                got: BTreeSet::new(),
                last: BTreeMap::new(),
            });
            let at_ns = self.random.below(500 * MS);
            self.plan_at(at_ns, Planned::Listen(number));
        }
        for number in 0..self.plan.publishers {
            let agent = self.below(self.plan.agents);
            self.messages
                .publishers
                .push(Publisher { agent, number: 0 });
            let at_ns = self.random.below(1_000 * MS);
            self.plan_at(at_ns, Planned::Publish(number));
        }
        if self.plan.listeners > 0 && !self.plan.faults.is_empty() {
            // Every connection to each node ends once more when all is well: all has to be subscribed again.
            for node in 0..self.plan.nodes {
                let at_ns = self.healed_ns + (8_000 + 300 * node as u64) * MS;
                self.plan_at(at_ns, Planned::Close(node));
            }
        }
    }

    /// The number of the connection of a listener.
    fn client_of_listener(&self, number: usize) -> u64 {
        1_000_000 + 1_000 * number as u64 + self.messages.listeners[number].life
    }

    pub(super) fn listen(&mut self, number: usize) {
        let client = self.client_of_listener(number);
        let listener = &self.messages.listeners[number];
        if listener.since_ns.is_some() {
            return;
        }
        let (agent, life) = (listener.agent, listener.life);
        let topics = vec![listener.topic.clone()];
        if !self.agents.is_well(agent) {
            let at_ns = self.now() + 200 * MS;
            return self.plan_at(at_ns, Planned::Listen(number));
        }
        let id = self.agents.listen(client, agent, topics);
        self.messages.asked.insert(id, Asked::Listen(number, life));
    }

    pub(super) fn publish(&mut self, number: usize) {
        if self.now() > self.healed_ns + LAST_MS * MS {
            return;
        }
        let publisher = &mut self.messages.publishers[number];
        publisher.number += 1;
        let (agent, payload) = (publisher.agent, format!("{number}.{}", publisher.number));
        let channel = CHANNELS[self.below(CHANNELS.len())];
        // The messages of one run of an agent have an order. One that was given up may still come from another.
        let run = self.agents.client_of(agent);
        let payload = format!("{payload}.{run}.{channel}");
        let now_ns = self.now();
        // Behind faults everything has to have its time first.
        let is_due = self.plan.faults.is_empty() || now_ns > self.healed_ns + WELL_MS * MS;
        let listeners = self.messages.listeners.iter().enumerate();
        let listening = listeners.filter(|(_, it)| {
            it.since_ns.is_some_and(|since_ns| since_ns < now_ns) && matches(&it.topic, channel)
        });
        let sent = Sent {
            payload: Bytes::from(payload.clone()),
            publisher: number,
            is_due,
            listeners: listening.map(|(at, it)| (at, it.life)).collect(),
        };
        let at_ns = now_ns + self.loopback_ns();
        let words: [&[u8]; 3] = [b"PUBLISH", channel.as_bytes(), payload.as_bytes()];
        let id = self.agents.send_at(at_ns, agent, 0, &words);
        self.messages.asked.insert(id, Asked::Publish(sent));
    }

    /// Takes an answer that is about a channel.
    pub(super) fn answered_about_channel(&mut self, id: RequestId, answer: &Answer) -> bool {
        match self.messages.asked.remove(&id) {
            None => return false,
            Some(Asked::Listen(number, life)) => {
                let now_ns = self.now();
                let listener = &mut self.messages.listeners[number];
                if listener.life != life {
                    return true;
                }
                match answer {
                    Answer::Reply(Reply::Ok) => listener.since_ns = Some(now_ns),
                    _ => self.plan_at(now_ns + 200 * MS, Planned::Listen(number)),
                }
            }
            Some(Asked::Publish(sent)) => {
                let now_ns = self.now();
                let pause_ns = self.random.below(300 * MS);
                self.plan_at(now_ns + pause_ns, Planned::Publish(sent.publisher));
                match answer {
                    Answer::Reply(Reply::Integer(_)) => {
                        self.report.published += 1;
                        if sent.is_due {
                            self.plan_at(now_ns + ARRIVES_MS * MS, Planned::Arrived(sent));
                        }
                    }
                    _ if sent.is_due => {
                        self.violation = Some(format!("{sent:?} is due, and answered {answer:?}"));
                    }
                    // A load balancer sends it to another agent.
                    _ => {
                        let agent = self.below(self.plan.agents);
                        self.messages.publishers[sent.publisher].agent = agent;
                    }
                }
            }
        }
        true
    }

    /// A message has had its time.
    pub(super) fn check_arrived(&mut self, sent: &Sent) {
        for (number, life) in &sent.listeners {
            let listener = &self.messages.listeners[*number];
            if listener.life == *life && !listener.got.contains(&sent.payload) {
                self.violation = Some(format!(
                    "message {:?} has not reached listener {number} of {:?}",
                    sent.payload, listener.topic
                ));
            }
        }
    }

    /// What agents have for their clients.
    pub(super) fn deliver(&mut self) {
        while let Some((agent, channel, payload)) = self.agents.delivered.pop_front() {
            let name = String::from_utf8_lossy(&channel).into_owned();
            let text = String::from_utf8_lossy(&payload).into_owned();
            let mut parts = text.splitn(4, '.');
            let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
            let (Some(publisher), Some(number), Some(run)) = (number(), number(), number()) else {
                self.violation = Some(format!("{text:?} was never published"));
                return;
            };
            if parts.next() != Some(name.as_str()) {
                self.violation = Some(format!("message {text} has come on channel {name}"));
                return;
            }
            for (at, listener) in self.messages.listeners.iter_mut().enumerate() {
                if listener.agent != agent
                    || listener.since_ns.is_none()
                    || !matches(&listener.topic, &name)
                {
                    continue;
                }
                self.report.delivered += 1;
                if !listener.got.insert(payload.clone()) {
                    self.violation =
                        Some(format!("message {text} has reached listener {at} twice"));
                }
                let last = (listener.last).insert((publisher, run, channel.clone()), number);
                if last.is_some_and(|last| last > number) {
                    self.violation = Some(format!(
                        "message {text} has reached listener {at} behind number {last:?}"
                    ));
                }
            }
        }
    }

    /// An agent is killed: those who listen have to listen again.
    pub(super) fn end_listeners(&mut self, agent: usize) {
        for number in 0..self.messages.listeners.len() {
            let now_ns = self.now();
            let listener = &mut self.messages.listeners[number];
            if listener.agent == agent {
                listener.life += 1;
                listener.since_ns = None;
                listener.got.clear();
                listener.last.clear();
                self.plan_at(now_ns + 200 * MS, Planned::Listen(number));
            }
        }
    }
}

fn matches(topic: &Topic, channel: &str) -> bool {
    let name = String::from_utf8_lossy(&topic.name);
    match name.strip_suffix('*') {
        Some(beginning) if topic.is_pattern => channel.starts_with(beginning),
        _ => *name == *channel,
    }
}

const CHANNELS: [&str; 4] = ["n1", "n2", "n*", "m"];
/// What is listened to: patterns, and names of channels, one of which looks like a pattern.
const TOPICS: [(bool, &str); 6] = [
    (false, "n1"),
    (false, "n*"),
    (false, "n2"),
    (true, "n*"),
    (true, "n1*"),
    (true, "*"),
];
/// How long after the last fault connections stand and are subscribed.
const WELL_MS: u64 = 12_000;
/// When the last message is published.
const LAST_MS: u64 = 16_000;
/// In which time a message arrives when all is well.
const ARRIVES_MS: u64 = 2_000;
/// When all of them have arrived.
pub(super) const OVER_MS: u64 = LAST_MS + 2 * ARRIVES_MS;
