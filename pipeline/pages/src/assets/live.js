"use strict";

// Live updates of the pages of a run: server-sent events change texts in place, and sections that are drawn on the
// server are read again, at most every two seconds and only while the page is visible.

// Milliseconds between two reads of a section; the server sends more if many pages are open.
let refresh = 2000;
const MAX_LINES = 2000;

// Formats a duration as the server does.
function seconds(value) {
  if (value < 60) return `${value.toFixed(1)}s`;
  const whole = Math.floor(value), two = (number) => String(number).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  return `${Math.floor(whole / 3600)}h${two(Math.floor((whole % 3600) / 60))}m`;
}

function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

function setStatus(cell, status, symbol) {
  const shown = cell && cell.querySelector(".status");
  if (!shown || shown.dataset.status === status) return;
  const sign = document.createElement("span");
  sign.setAttribute("aria-hidden", "true");
  sign.textContent = `${symbol} `;
  shown.dataset.status = status;
  shown.replaceChildren(sign, status);
}

// Returns the details of a part of the page by name: the id, or the summary without its numbers, which change.
function detailsByName(part) {
  const named = new Map();
  for (const details of part.querySelectorAll("details")) {
    const summary = details.querySelector(":scope > summary");
    let name = details.id || (summary ? summary.textContent.replace(/\d+/g, "#") : "");
    while (named.has(name)) name += " again";
    named.set(name, details);
  }
  return named;
}

// Returns a function that finds the focused element of a section again, after its content was replaced.
function focusFinder(section) {
  const active = document.activeElement;
  if (!section.contains(active)) return () => null;
  if (active.localName === "summary") {
    const found = [...detailsByName(section)].find(([, details]) => details === active.parentElement);
    return () => {
      const details = found && detailsByName(section).get(found[0]);
      return details ? details.querySelector(":scope > summary") : null;
    };
  }
  const name = ["id", "href", "name", "aria-label"].find((name) => active.getAttribute(name));
  const selector = name && `${active.localName}[${name}="${CSS.escape(active.getAttribute(name))}"]`;
  return () => (selector ? section.querySelector(selector) : null);
}

function hasSameAttributes(old, fresh) {
  return old.attributes.length === fresh.attributes.length
    && [...fresh.attributes].every((attribute) => old.getAttribute(attribute.name) === attribute.value);
}

// Replaces the children of an element that differ, so that selected text, scrolling and focus elsewhere stay.
function replaceChildren(old, fresh) {
  const before = [...old.childNodes], after = [...fresh.childNodes];
  if (before.length !== after.length) old.replaceChildren(...after);
  else before.forEach((child, at) => replaceNode(child, after[at]));
}

function replaceNode(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  const isElement = old.nodeType === Node.ELEMENT_NODE && fresh.nodeType === Node.ELEMENT_NODE;
  if (isElement && old.nodeName === fresh.nodeName && hasSameAttributes(old, fresh)) replaceChildren(old, fresh);
  else old.replaceWith(fresh);
}

// Shows the new content of a section. What a reader has changed stays: scrolling, open details, the focus.
function replaceSection(section, content) {
  const boxes = (part) => [...part.querySelectorAll(".scroll")];
  const scrolls = boxes(section).map((box) => [box.scrollLeft, box.scrollTop]);
  const findFocused = focusFinder(section), known = detailsByName(section);
  for (const [name, details] of detailsByName(content)) {
    if (known.has(name)) details.open = known.get(name).open;
  }
  replaceChildren(section, content);
  boxes(section).forEach((box, at) => { if (scrolls[at]) [box.scrollLeft, box.scrollTop] = scrolls[at]; });
  const focused = findFocused();
  if (focused && focused !== document.activeElement) focused.focus({ preventScroll: true });
}

async function readPart(name, parameters) {
  const address = new URL(location.href);
  address.hash = "";
  for (const [key, value] of Object.entries({ ...parameters, part: name })) {
    if (value === null) address.searchParams.delete(key);
    else address.searchParams.set(key, value);
  }
  const response = await fetch(address, { credentials: "same-origin" });
  if (!response.ok) return null;
  const template = document.createElement("template");
  template.innerHTML = await response.text();
  return template.content;
}

// Sections to read again.
class Sections {
  constructor() {
    this.due = new Set();
    this.last = -refresh;
    this.timer = 0;
    document.addEventListener("visibilitychange", () => this.plan());
  }
  request(...names) {
    for (const name of names) {
      if (document.querySelector(`[data-fragment="${name}"]`)) this.due.add(name);
    }
    this.plan();
  }
  plan() {
    if (this.timer || this.due.size === 0 || document.hidden) return;
    const wait = Math.max(0, this.last + refresh - performance.now());
    this.timer = setTimeout(() => this.read(), wait);
  }
  async read() {
    const names = [...this.due];
    this.due.clear();
    try {
      await Promise.all(names.map((name) => this.readOne(name)));
    } catch { /* the next message brings another try */ }
    this.last = performance.now();
    this.timer = 0;
    this.plan();
  }
  async readOne(name) {
    const section = document.querySelector(`[data-fragment="${name}"]`);
    const content = await readPart(name, {});
    if (section && content) replaceSection(section, content);
  }
}

// End of the log of a stage's page.
class LogFollower {
  constructor() {
    this.busy = false;
    this.last = -refresh;
  }
  // Adds the lines after those on the page; `fresh` reads the last lines again, since another attempt began.
  async read(fresh) {
    const log = document.querySelector(".log");
    const at = log && log.dataset.log;
    if (!log || this.busy || document.hidden || (!at && !fresh)) return;
    this.busy = true;
    try {
      const content = await readPart("log", { at: fresh ? null : at });
      const read = content && content.querySelector(".log");
      if (read && fresh) this.replace(log, read);
      else if (read && !read.dataset.log) this.replace(log, await this.lastLines(read));
      else if (read) this.append(log, read);
    } catch { /* the next message brings another try */ }
    this.last = performance.now();
    this.busy = false;
  }
  // More lines than a page has arrived at once.
  async lastLines(read) {
    if (read.dataset.log) return read;
    const content = await readPart("log", { at: null });
    return (content && content.querySelector(".log")) || read;
  }
  replace(log, read) {
    log.replaceWith(read);
    const lines = read.querySelector(".lines");
    if (lines) lines.scrollTop = lines.scrollHeight;
  }
  append(log, read) {
    const lines = log.querySelector(".lines");
    const atEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 8;
    const added = [...read.querySelectorAll(".lines > li")];
    if (added.length > 0) {
      const empty = log.querySelector(".empty");
      if (empty) empty.remove();
    }
    lines.append(...added);
    while (lines.children.length > MAX_LINES) lines.firstElementChild.remove();
    log.dataset.log = read.dataset.log;
    if (atEnd) lines.scrollTop = lines.scrollHeight;
  }
}

// Page of a run or of a stage, as long as the run is open.
class LivePage {
  constructor(root) {
    this.own = root.dataset.stagePage || null;
    this.note = document.getElementById("live-note");
    this.sections = new Sections();
    this.log = this.own ? new LogFollower() : null;
    this.known = new Map();
    this.messages = 0;
    this.opened = 0;
    this.runs = true;
    this.since = performance.now();
    this.source = new EventSource(root.dataset.events);
    this.source.onmessage = (event) => this.receive(JSON.parse(event.data));
    this.source.onopen = () => this.open();
    this.source.onerror = () => this.say(this.source.readyState === EventSource.CLOSED
      ? "The connection is lost; reload the page." : "The connection is lost; the page tries again.");
    this.source.addEventListener("note", (event) => { this.say(event.data); this.source.close(); });
    this.clock = setInterval(() => this.tick(), 1000);
  }
  say(text) { setText(this.note, text); }
  open() {
    this.say("");
    this.opened += 1;
    // Changes may have been missed.
    if (this.opened > 1) this.sections.request("graph", "curves", "stages", "timeline", "state", "settings");
  }
  receive(message) {
    this.messages += 1;
    this.say(message.problem || "");
    refresh = message.refresh;
    this.showRun(message);
    let changed = message.left_out > 0;
    for (const stage of message.stages) changed = this.showStage(stage) || changed;
    if (changed) this.sections.request("graph", "stages", "timeline");
    if (this.messages > 1 || changed) this.sections.request("curves");
    if (!message.over) return;
    this.source.close();
    clearInterval(this.clock);
    this.sections.request("graph", "curves", "stages", "timeline", "state", "settings");
    if (this.log) this.log.read(false);
  }
  showRun(message) {
    const part = (name) => document.querySelector(`[data-run="${name}"]`);
    const run = message.run;
    setStatus(part("status"), run.status, message.symbol);
    for (const name of ["done", "stage", "step", "rate", "left"]) setText(part(name), run[name] || "–");
    if (run.metric) setText(part("metric"), run.metric);
    const share = part("share");
    if (share && run.share === undefined) share.removeAttribute("value");
    else if (share) share.value = run.share;
    const elapsed = part("elapsed");
    if (elapsed) elapsed.dataset.seconds = run.seconds;
    this.since = performance.now();
    this.runs = run.status === "running";
    setText(elapsed, seconds(run.seconds));
  }
  tick() {
    const elapsed = document.querySelector('[data-run="elapsed"]');
    const passed = (performance.now() - this.since) / 1000;
    if (elapsed && this.runs) setText(elapsed, seconds(Number(elapsed.dataset.seconds) + passed));
    if (this.log && this.log.followed === false && performance.now() - this.log.last >= refresh) this.log.read(false);
  }
  // Shows a stage; returns whether its status changed.
  showStage(stage) {
    if (this.own && stage.stage !== this.own) return false;
    const shown = document.querySelectorAll(`[data-stage="${CSS.escape(stage.stage)}"]`);
    const before = this.known.get(stage.stage);
    this.known.set(stage.stage, stage.status);
    let changed = shown.length === 0 && this.messages > 1 && before !== stage.status;
    for (const element of shown) changed = this.showParts(element, stage) || changed;
    if (this.own) this.showOwn(stage, changed);
    return changed;
  }
  showParts(element, stage) {
    const part = (name) => element.querySelector(`[data-part="${name}"]`);
    const status = part("status");
    const known = element.dataset.status || (status && status.querySelector(".status").dataset.status);
    if (element.dataset.status) element.dataset.status = stage.status;
    setStatus(status, stage.status, stage.symbol);
    setText(part("symbol"), stage.symbol);
    setText(part("word"), stage.status);
    for (const name of ["why", "error"]) setText(part(name), stage[name]);
    setText(part("attempts"), String(stage.attempts));
    for (const name of ["time", "step", "rate", "left", "metric"]) if (stage[name]) setText(part(name), stage[name]);
    const left = stage.left ? `${stage.left} left` : "";
    const line = [stage.step, stage.rate, left, stage.metric].filter((text) => text).join(", ");
    if (line) setText(part("progress"), line);
    return known !== stage.status;
  }
  showOwn(stage, changed) {
    const attempts = this.attempts;
    this.attempts = stage.attempts;
    this.log.followed = stage.status === "running" ? stage.log !== undefined : true;
    if (changed) this.sections.request("state", "settings");
    if (attempts !== undefined && attempts !== stage.attempts) this.log.read(true);
    else if (stage.log !== this.position || changed) this.log.read(false);
    this.position = stage.log;
  }
}

const liveRoot = document.getElementById("live");
if (liveRoot && liveRoot.dataset.events) new LivePage(liveRoot);
const logLines = document.querySelector(".log[data-log] .lines");
if (logLines) logLines.scrollTop = logLines.scrollHeight;
