"use strict";
// What the nodes say, again every second. Texts of nodes become text, never markup.

const byId = (id) => document.getElementById(id);
const EVERY_MS = 1000;
// The server ends a look after 4.5 s, and a connection after 5; one that hangs ends none.
const ANSWERED_MS = 8000;
// A node that is farther away than this is called slow.
const SLOW_US = 100_000;
const MINUTES = 5;
const EVENTS = 30;
// A lock that had more time left than this was released, and did not end by itself.
const ENDED_MS = 2500;
const KNOWN_MAX = 2000;

let last = null;
let lastAt = 0;
// Whether all locks were there at the last look at which a majority of the nodes listed theirs.
let wasComplete = false;
const samples = [];
// The longest time that a lock was seen to have left, by its name and token: the whole length of its bar.
let longest = new Map();
// The locks that were held when that could last be said, each with its holder and the time that it had left.
let known = new Map();
const charts = [
  { title: "locks held", of: (look) => (look.listed ? look.locks.filter((lock) => lock.state === "held").length : null) },
  { title: "calls that wait", of: (look) => (look.listed ? look.locks.reduce((all, lock) => all + (lock.waiters || 0), 0) : null) },
  { title: "round trip, median of the nodes", unit: " us", of: (look) => median(look.nodes.map((node) => node.round_trip_us)) },
];

function median(values) {
  const known = values.filter((value) => typeof value === "number").sort((one, other) => one - other);
  return known.length ? known[Math.floor(known.length / 2)] : null;
}

function element(kind, text, className) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// The state of a node in words that stay true between two looks.
function stateWords(node) {
  if (node.state === "restart-delay") return "restart delay";
  return node.state === "no-answer" ? "no answer" : node.words;
}

function roundTrip(us) {
  return us < SLOW_US ? `round trip ${us} us` : `slow: round trip ${duration(us / 1000)}`;
}

function short(node) {
  return node.node.replace(/^rediss?:\/\//, "");
}

function nodeCard(node, since) {
  const isAway = !node.votes && !["restart-delay", "starting"].includes(node.state);
  const card = element("div", undefined, `node ${node.votes ? "serving" : isAway ? "away" : "delayed"}`);
  card.append(element("b", short(node)));
  let state = stateWords(node);
  if (node.state === "restart-delay") {
    state += `, ${duration(node.restart_delay_remaining_ms - since)} left`;
  }
  card.append(element("span", state, "state"));
  const more = [];
  if (node.state === "no-answer") more.push(node.words);
  if (typeof node.round_trip_us === "number") more.push(roundTrip(node.round_trip_us));
  if (node.fsync) more.push(`fsync ${node.fsync}`);
  if (node.lock_waiters) more.push(`${node.lock_waiters} wait in line here`);
  if (node.version) more.push(node.version);
  for (const line of more) card.append(element("small", line));
  return card;
}

function lockRow(lock, since) {
  const row = element("tr", undefined, lock.state === "held" && !lock.marks.length ? "" : "odd");
  const holder = lock.holders[0];
  row.append(element("td", lock.name, "name"));
  const votes = element("td", undefined, "votes");
  votes.title = holder ? `${holder.on.length} of ${lock.nodes} nodes have it` : "";
  for (let node = 0; node < lock.nodes; node += 1) {
    const has = holder && holder.on.includes(node);
    votes.append(element("span", has ? "\u25a0" : "\u25a1", has ? "yes" : "no"));
  }
  row.append(votes, leftCell(lock, since));
  const held = holder && typeof holder.held_ms === "number" ? duration(holder.held_ms + since) : "";
  row.append(element("td", held, "number"));
  row.append(element("td", lock.waiters ? `${lock.waiters}` : "", "number"));
  row.append(element("td", holder && typeof holder.fence === "number" ? `${holder.fence}` : "", "number"));
  let who = holder ? holder.who || `token ${holder.token}` : "";
  if (lock.holder_count > 1) who += ` and ${lock.holder_count - 1} more`;
  row.append(element("td", who, "holder"));
  const state = lock.state === "held" ? [] : [lock.state === "unknown" ? "unknown" : "not held"];
  row.append(element("td", state.concat(lock.marks).join(", ")));
  return row;
}

function holding(lock) {
  return `${lock.name} ${lock.holders[0].token}`;
}

function leftCell(lock, since) {
  const holder = lock.holders[0];
  const cell = element("td", undefined, "left");
  if (!holder) return cell;
  if (typeof holder.left_ms !== "number") {
    cell.textContent = "no ttl";
    return cell;
  }
  const left = Math.max(0, holder.left_ms - since);
  const bar = element("meter");
  bar.max = longest.get(holding(lock)) || holder.left_ms;
  bar.value = left;
  cell.append(bar, ` ${duration(left)}`);
  return cell;
}

function draw() {
  if (!last) return;
  const since = performance.now() - lastAt;
  byId("nodes").replaceChildren(...last.nodes.map((node) => nodeCard(node, since)));
  const wanted = byId("filter").value;
  const matches = (lock) => lock.name.includes(wanted) || lock.holders.some((one) => (one.who || one.token).includes(wanted));
  const shown = last.locks.filter(matches);
  const selection = getSelection();
  const isSelected = !selection.isCollapsed && byId("locks").contains(selection.anchorNode);
  if (!isSelected) byId("locks").replaceChildren(...shown.map((lock) => lockRow(lock, since)));
  const held = last.locks.filter((lock) => lock.state === "held").length;
  byId("count").textContent = last.complete ? `${held} held` : `${held} of those that are shown are held, and there may be more`;
  const remarks = [];
  if (isSelected) remarks.push("This table stands still while text in it is selected.");
  if (!last.listed) remarks.push("Too few nodes list their locks: a lock that is missing here may be held.");
  else if (!last.complete) remarks.push("There are more locks than are shown here: quorlock locks PATTERN");
  byId("more").textContent = remarks.join(" ");
}

function drawCharts() {
  const now = performance.now();
  while (samples.length && now - samples[0].at > MINUTES * 60000) samples.shift();
  byId("charts").replaceChildren(...charts.map((chart, index) => {
    const figure = element("figure");
    const caption = element("figcaption", chart.title);
    const known = samples.filter((sample) => sample.values[index] !== null);
    const max = Math.max(1, ...known.map((sample) => sample.values[index]));
    const newest = known.length ? `${known[known.length - 1].values[index]}${chart.unit || ""}` : "unknown";
    caption.append(element("b", `${newest} (most ${max}${chart.unit || ""})`));
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 300 70");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", chart.title);
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    const point = (sample) => {
      const x = 300 - ((now - sample.at) / (MINUTES * 60000)) * 300;
      return `${x.toFixed(1)} ${(67 - (sample.values[index] / max) * 64).toFixed(1)}`;
    };
    path.setAttribute("d", known.map((sample, at) => `${at ? "L" : "M"}${point(sample)}`).join(""));
    svg.append(path);
    figure.append(caption, svg);
    return figure;
  }));
}

function note(text) {
  const event = element("li");
  event.append(element("time", new Date().toLocaleTimeString()), text);
  byId("events").prepend(event);
  while (byId("events").children.length > EVENTS) byId("events").lastChild.remove();
}

function lengths(look) {
  const known = look.locks.filter((lock) => lock.holders.length && typeof lock.holders[0].left_ms === "number");
  return new Map(known.map((lock) => [holding(lock), Math.max(longest.get(holding(lock)) || 0, lock.holders[0].left_ms)]));
}

function compare(before, after) {
  const states = new Map(before.nodes.map((node) => [node.node, node.state]));
  for (const node of after.nodes) {
    if (states.get(node.node) !== node.state) note(`${short(node)}: ${stateWords(node)}`);
  }
}

// Notes which locks have changed hands since that could last be said. Where too few nodes answer or list their locks, or more locks
// are there than are shown, a lock that is missing says nothing.
function follow(look, tells) {
  const there = new Set();
  for (const lock of look.locks) {
    there.add(lock.name);
    const [was, holder] = [known.get(lock.name), lock.holders[0]];
    if (lock.state === "held") {
      if (tells && (!was || was.token !== holder.token)) note(`${lock.name}: held by ${holder.who || `token ${holder.token}`}`);
      known.set(lock.name, holder);
    } else if (lock.state === "unknown" && was && !was.isUnknown) {
      note(`${lock.name}: too few nodes answer to say whether it is held`);
      known.set(lock.name, { ...was, isUnknown: true });
    } else if (lock.state !== "unknown") {
      there.delete(lock.name);
    }
  }
  if (!look.complete || !look.can_lock) return;
  for (const [name, was] of known) {
    if (there.has(name)) continue;
    known.delete(name);
    const isOver = typeof was.left_ms === "number" && was.left_ms < ENDED_MS;
    if (tells) note(`${name}: ${isOver ? "ended, released or over" : "released"}`);
  }
}

function verdict(text, isGood) {
  byId("verdict").textContent = text;
  byId("verdict").className = isGood ? "good" : "bad";
  document.title = isGood ? "Quorlock" : "! Quorlock";
}

async function look() {
  try {
    const answer = await fetch(`api/v1/cluster${location.search}`, { cache: "no-store", signal: AbortSignal.timeout(ANSWERED_MS) });
    if (!answer.ok) throw new Error(await answer.text());
    const now = await answer.json();
    if (now.error) throw new Error(now.error);
    if (last) compare(last, now);
    if (known.size > KNOWN_MAX) known = new Map();
    follow(now, wasComplete && (now.complete || !now.listed));
    if (now.listed) wasComplete = now.complete;
    longest = lengths(now);
    last = now;
    lastAt = performance.now();
    verdict(now.verdict, now.can_lock);
    samples.push({ at: lastAt, values: charts.map((chart) => chart.of(now)) });
    draw();
    drawCharts();
  } catch (error) {
    const old = last ? `; below is what was known ${duration(performance.now() - lastAt)} ago` : "";
    verdict(`this page has no answer: ${error.message.trim()}${old}`, false);
  }
}

async function lookOn() {
  for (;;) {
    const begun = performance.now();
    if (!document.hidden) await look();
    // Nodes to whom a look is work have twice as long to themselves.
    const pause = Math.max(EVERY_MS, 2 * (performance.now() - begun));
    await new Promise((wake) => setTimeout(wake, pause));
  }
}

byId("filter").addEventListener("input", draw);
lookOn();
