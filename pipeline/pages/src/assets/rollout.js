"use strict";

// Keys of pages about rows: j and k lead to the next and previous row, or to the next and previous link of a list;
// / leads to the search field. They can be turned off, since people who dictate may say single letters.

// Whether keys belong to a field or to the browser.
function isTaken(event) {
  const target = event.target;
  return event.ctrlKey || event.altKey || event.metaKey || event.isComposing || target.isContentEditable
    || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

// Moves the focus among the rows of a list. Returns whether the page has any.
function moveFocus(step) {
  const rows = [...document.querySelectorAll("a[data-row]")];
  if (rows.length === 0) return false;
  const at = rows.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step;
  if (rows[next]) rows[next].focus();
  return true;
}

function followKey(key) {
  const link = document.querySelector(`a[data-key="${key}"]`);
  if (link) { link.click(); return true; }
  return moveFocus(key === "j" ? 1 : -1);
}

function focusSearch() {
  const field = document.getElementById("find");
  if (field) { field.focus(); field.select(); return true; }
  return false;
}

function storedKeys() {
  try { return localStorage.getItem("keys") !== "off"; } catch { return true; }
}

function setUpKeys() {
  let isOn = storedKeys();
  const button = document.getElementById("keys");
  if (!button) return;
  const label = () => { button.textContent = isOn ? "Turn keys off" : "Turn keys on"; };
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    isOn = !isOn;
    try { localStorage.setItem("keys", isOn ? "on" : "off"); } catch { /* storage is off */ }
    label();
  });
  document.addEventListener("keydown", (event) => {
    if (!isOn || isTaken(event)) return;
    const isDone = event.key === "/" ? focusSearch()
      : event.key === "j" || event.key === "k" ? followKey(event.key) : false;
    if (isDone) event.preventDefault();
  });
}

setUpKeys();
